/** Smaller buffers are left to the garbage collector. */
const LARGE_BYTES = 16_384;

/** Frees a buffer with its own memory at once: all references become empty. No socket write may use it any more. */
export function releaseMemory(bytes: Buffer): void {
  const { buffer, byteLength } = bytes;
  if (byteLength < LARGE_BYTES || buffer.byteLength !== byteLength || !(buffer instanceof ArrayBuffer)) return;
  buffer.transfer(0);
}

/** Options of an LRUCache with at most `entries`. Its option `max` would allocate all entries at once, which takes a millisecond. */
export function atMost(entries: number) {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
