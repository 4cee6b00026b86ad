import type { JsonScan } from './scan.ts';
import { BACKSLASH } from './tokens.ts';

const LOWER_U = 0x75;

/** Strings of up to so many bytes stay whole. */
export const TEXT_BYTES_MAX = 512;
/** How much of a longer one is left, about. */
const KEPT_BYTES = 128;
/** Ends what is left, so that it is never taken for a text that was so short. */
const MARK = '…';

/** A text in which the strings that a scan with `text_bytes` noted are cut short: parsed it gives the same tree with less in it. */
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

/** Where a part of a string ends that begins at `start`: never inside an escape or a character. */
function partEnd(bytes: Buffer, start: number, end: number, length: number): number {
  let i = start;
  while (i < end && i - start < length) {
    if (bytes[i] !== BACKSLASH) i++;
    else i += bytes[i + 1] === LOWER_U ? 6 : 2;
  }
  while (i < end && (bytes[i]! & 0xc0) === 0x80) i++;
  return Math.min(i, end);
}
