import { partEnd } from './pieces.ts';
import type { JsonScan } from './scan.ts';

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
