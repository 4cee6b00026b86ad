/** Collects untrusted chunks in one growing buffer of at most `bytes_max`. `add` returns the number of bytes it took. */
export function growingBuffer(bytes_max: number): { add(chunk: Buffer): number; taken(): Buffer } {
  let memory = Buffer.alloc(Math.min(bytes_max, 4096));
  let size = 0;
  return {
    add(chunk) {
      const bytes = Math.min(chunk.length, bytes_max - size);
      if (size + bytes > memory.length) {
        const larger = Buffer.alloc(Math.min(bytes_max, Math.max(2 * memory.length, size + bytes)));
        memory.copy(larger, 0, 0, size);
        memory = larger;
      }
      chunk.copy(memory, size, 0, bytes);
      size += bytes;
      return bytes;
    },
    taken: () => memory.subarray(0, size),
  };
}
