/** A file of an archive. */
export interface TarFile {
  /** At most 100 characters, with slashes. */
  readonly path: string;
  readonly bytes: Buffer;
  readonly is_program?: boolean;
}

const BLOCK = 512;
/** No date: the same files are the same bytes. npm itself writes this one, as some programs refuse 1970. */
const MODIFIED_SECONDS = Date.UTC(1985, 9, 26, 8, 15) / 1000;

/** An archive in the ustar format (POSIX.1-1988), of these files in this order. The same files give the same bytes. */
export function tar(files: readonly TarFile[]): Buffer {
  const parts = files.flatMap(({ path, bytes, is_program = false }) => [
    header(path, bytes.length, is_program ? 0o755 : 0o644),
    bytes,
    Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK),
  ]);
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function header(path: string, size: number, mode: number): Buffer {
  if (path.length > 100) throw new RangeError(`${path} is too long a path for an archive`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    block.write(value.toString(8).padStart(digits, '0'), at, 'latin1');
  block.write(path, 0, 'latin1');
  octal(mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(MODIFIED_SECONDS, 136, 11);
  block.write('        0', 148, 'latin1');
  block.write('ustar\u000000', 257, 'latin1');
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  block[154] = 0;
  return block;
}
