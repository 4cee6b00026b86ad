import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Frees what cannot be reached any more. */
export async function collectGarbage(): Promise<void> {
  // What a collection makes unreachable is freed by the next.
  for (let i = 0; i < 4; i++) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** What is still in use after a few collections, in bytes: objects, and buffers beside them. */
export async function bytesInUse(): Promise<{ readonly heap: number; readonly buffers: number }> {
  await collectGarbage();
  const { heapUsed: heap, arrayBuffers: buffers } = process.memoryUsage();
  return { heap, buffers };
}
