/** Where the value of a top-level key stands in a JSON text: the bytes from `start` up to, not including, `end`. */
export interface ValueRange {
  readonly start: number;
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Index of the first byte from `start` on that is no white space. */
export function afterSpace(bytes: Uint8Array, start: number): number {
  let i = start;
  while (isSpace(bytes[i])) i++;
  return i;
}

/** Up to this length a loop finds the end of a string sooner than a native search does; measured. */
const SHORT_STRING = 64;

/** Index of the quote that closes the string opened at `open`. */
function stringEnd(bytes: Buffer, open: number): number {
  const near = Math.min(open + SHORT_STRING, bytes.length);
  let i = open + 1;
  while (i < near) {
    if (bytes[i] === QUOTE) return i;
    i += bytes[i] === BACKSLASH ? 2 : 1;
  }
  return longStringEnd(bytes, i);
}

function longStringEnd(bytes: Buffer, from: number): number {
  let start = from;
  for (;;) {
    const quote = bytes.indexOf(QUOTE, start);
    if (quote < 0) return bytes.length;
    let slashes = 0;
    while (quote - slashes > from && bytes[quote - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote;
    start = quote + 1;
  }
}

/** Index just after the value that starts at `start`. */
function valueEnd(bytes: Buffer, start: number): number {
  let depth = 0;
  for (let i = start; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) {
      i = stringEnd(bytes, i);
      if (depth === 0) return i + 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth++;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (depth === 0) return trimEnd(bytes, start, i);
      if (--depth === 0) return i + 1;
    } else if (depth === 0 && byte === COMMA) {
      return trimEnd(bytes, start, i);
    }
  }
  return bytes.length;
}

function trimEnd(bytes: Uint8Array, start: number, end: number): number {
  let i = end;
  while (i > start && isSpace(bytes[i - 1])) i--;
  return i;
}

function keyText(bytes: Buffer, open: number, close: number): string {
  const raw = bytes.toString('latin1', open + 1, close);
  // An escaped key ("mod\u0065l") is the same key to every parser, so it is unescaped before it is compared.
  return raw.includes('\\') ? (JSON.parse(bytes.toString('utf8', open, close + 1)) as string) : raw;
}

/**
 * Every occurrence of the named top-level keys of a JSON object, in order. `bytes` must be valid JSON: the scan only
 * finds boundaries, and builds nothing because it runs on every request.
 */
export function findTopLevelKeys(bytes: Buffer, names: readonly string[]): Map<string, ValueRange[]> {
  const found = new Map<string, ValueRange[]>(names.map((name) => [name, []]));
  let i = afterSpace(bytes, 0);
  if (bytes[i] !== OPEN_BRACE) return found;
  i++;
  while (i < bytes.length) {
    while (isSpace(bytes[i]) || bytes[i] === COMMA) i++;
    if (bytes[i] !== QUOTE) break;
    const close = stringEnd(bytes, i);
    const ranges = found.get(keyText(bytes, i, close));
    let start = close + 1;
    while (isSpace(bytes[start]) || bytes[start] === COLON) start++;
    const end = valueEnd(bytes, start);
    ranges?.push({ start, end });
    i = end;
  }
  return found;
}
