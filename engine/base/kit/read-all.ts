/** Reads a stream to its end. Raises the error of `tooLong` beyond `max_bytes`. */
export async function readAll(
  stream: AsyncIterable<Uint8Array>,
  max_bytes: number,
  tooLong: () => Error,
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > max_bytes) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
