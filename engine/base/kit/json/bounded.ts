import { type JsonBounds, JsonScan } from './scan.ts';

/** Bounds of a synchronous parse: about ten milliseconds of blocked event loop. */
const BOUNDS: JsonBounds = { depth: 128, values: 50_000 };

const SMALL_CHARS_MAX = 4000;

/** Parses untrusted JSON synchronously. Raises SyntaxError, and RangeError for too many values or levels. */
export function parseBounded(text: string): unknown {
  if (text.length > SMALL_CHARS_MAX) {
    const scan = new JsonScan(Buffer.from(text), BOUNDS);
    scan.step(Infinity);
    const kind = scan.fault?.kind;
    if (kind === 'structure' || kind === 'end') throw new SyntaxError('not JSON');
    if (kind !== undefined) throw new RangeError(`more than ${BOUNDS.values} values or ${BOUNDS.depth} levels`);
  }
  return JSON.parse(text);
}

/** Like `parseBounded`; `undefined` instead of an error. */
export function tryParseBounded(text: string): unknown {
  try {
    return parseBounded(text);
  } catch {
    return undefined;
  }
}
