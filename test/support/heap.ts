import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** What is still in use after a few collections, in bytes: objects, and buffers beside them. */
export async function bytesInUse(): Promise<{ readonly heap: number; readonly buffers: number }> {
  // What a collection makes unreachable is freed by the next.
  for (let i = 0; i < 4; i++) {
    collectGarbage();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { heapUsed: heap, arrayBuffers: buffers } = process.memoryUsage();
  return { heap, buffers };
}
