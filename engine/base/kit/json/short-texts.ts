import type { JsonScan } from './scan.ts';
import { BACKSLASH } from './tokens.ts';

const LOWER_U = 0x75;

/** Longest string that stays complete, in bytes. */
export const TEXT_BYTES_MAX = 512;
const KEPT_BYTES = 128;
/** Marks a cut, so that the rest is not taken for a complete text. */
const MARK = '…';

/** A JSON text with the strings cut that a scan with `text_bytes` recorded; it parses to the same tree with shorter texts. */
export function withShortTexts({ bytes, texts }: Pick<JsonScan, 'bytes' | 'texts'>): string {
  if (texts.length === 0) return bytes.toString('utf8');
  const parts: string[] = [];
  let from = 0;
  for (const { start, end } of texts) {
    parts.push(bytes.toString('utf8', from, partEnd(bytes, start, end, KEPT_BYTES)));
    from = end;
  }
  parts.push(bytes.toString('utf8', from));
  return parts.join(MARK);
}

/** End of a prefix of a string from `start`; never inside an escape or a character. */
function partEnd(bytes: Buffer, start: number, end: number, length: number): number {
  let i = start;
  while (i < end && i - start < length) {
    if (bytes[i] !== BACKSLASH) i++;
    else i += bytes[i + 1] === LOWER_U ? 6 : 2;
  }
  while (i < end && (bytes[i]! & 0xc0) === 0x80) i++;
  return Math.min(i, end);
}
