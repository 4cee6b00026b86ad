/** Memory of less than this is left to the next collection. */
const LARGE_BYTES = 16_384;

/**
 * Gives the memory of bytes back at once; they are empty then, wherever they are still known. Nobody may be writing them to
 * a socket. Only what has memory of its own is given back.
 */
export function releaseMemory(bytes: Buffer): void {
  const { buffer, byteLength } = bytes;
  if (byteLength < LARGE_BYTES || buffer.byteLength !== byteLength || !(buffer instanceof ArrayBuffer)) return;
  buffer.transfer(0);
}

/** For an LRUCache of so many entries: with `max` it takes the memory for all of them, and a millisecond, when it is made. */
export function atMost(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
