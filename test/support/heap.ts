import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Frees unreachable memory. */
export async function collectGarbage(): Promise<void> {
  // Objects made unreachable by a collection are freed by the next.
  for (let i = 0; i < 4; i++) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The memory in use after a few collections, in bytes: objects, and buffers beside them. */
export async function bytesInUse(): Promise<{ readonly heap: number; readonly buffers: number }> {
  await collectGarbage();
  const { heapUsed: heap, arrayBuffers: buffers } = process.memoryUsage();
  return { heap, buffers };
}
