/** Smaller buffers are left to the garbage collector. */
const LARGE_BYTES = 16_384;

/**
 * Frees the memory of a buffer at once; all references to it become empty. It must not be in use by a socket write. Works only for a
 * buffer with its own memory.
 */
export function releaseMemory(bytes: Buffer): void {
  const { buffer, byteLength } = bytes;
  if (byteLength < LARGE_BYTES || buffer.byteLength !== byteLength || !(buffer instanceof ArrayBuffer)) return;
  buffer.transfer(0);
}

/** Options of an LRUCache with at most `entries`. Its option `max` would allocate all entries at once, which takes a millisecond. */
export function atMost(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
