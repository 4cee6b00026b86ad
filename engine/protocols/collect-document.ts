import type { StageError } from '../contract/errors.ts';
import type { ResponseConverter } from '../contract/stage.ts';

/** The longest answer, and the longest event of one, that is held to be converted, in bytes. */
export const HELD_BYTES_MAX = 8 * 1024 * 1024;

/** Collects a document; `convert` gets it at the end. Raises what `tooLong` makes for one that is longer than may be held. */
export function collectDocument(
  convert: (document: Buffer) => Buffer | string,
  tooLong: () => StageError,
): ResponseConverter {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    write(chunk) {
      size += chunk.length;
      if (size > HELD_BYTES_MAX) throw tooLong();
      chunks.push(chunk);
      return '';
    },
    end: () => convert(Buffer.concat(chunks, size)),
  };
}
