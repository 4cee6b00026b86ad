import type { ByteRange } from './elements.ts';
import { partEnd } from './pieces.ts';

/** Strings of up to so many bytes stay whole. */
export const TEXT_BYTES_MAX = 512;
/** How much of a longer one is left, about. */
const KEPT_BYTES = 128;
/** Ends what is left, so that it is never taken for a text that was so short. */
const MARK = Buffer.from('…');

/**
 * A JSON text in which some strings are cut short: parsed it gives the same tree with less in it.
 * @param strings the bytes between the quotes of each, in order; each longer than `TEXT_BYTES_MAX`
 */
export function withShortTexts(bytes: Buffer, strings: readonly ByteRange[]): string {
  if (strings.length === 0) return bytes.toString('utf8');
  const kept = Buffer.allocUnsafe(bytes.length);
  let size = 0;
  let from = 0;
  for (const { start, end } of strings) {
    size += bytes.copy(kept, size, from, partEnd(bytes, start, end, KEPT_BYTES));
    size += MARK.copy(kept, size);
    from = end;
  }
  size += bytes.copy(kept, size, from);
  return kept.toString('utf8', 0, size);
}
