/** The structural bytes of JSON. */
export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COLON = 0x3a;
export const COMMA = 0x2c;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;
export const OPEN_BRACKET = 0x5b;
export const CLOSE_BRACKET = 0x5d;

/** Up to this length a loop finds the end of a string faster than a native search (measured). */
export const SHORT_STRING = 64;

/** Bytes of numbers and literals are 1, those that begin one are 3. The parser checks what they spell. */
export const ATOM = new Uint8Array(256);
for (const char of '0123456789+-.eEtrufalsn') ATOM[char.charCodeAt(0)] = 1;
for (const char of '-0123456789tfn') ATOM[char.charCodeAt(0)] = 3;

export function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Index of the quote that closes the string opened at `open`; the length of `bytes` without one. */
export function stringEnd(bytes: Buffer, open: number): number {
  let i = open + 1;
  for (;;) {
    const near = Math.min(i + SHORT_STRING, bytes.length);
    while (i < near) {
      const byte = bytes[i]!;
      if (byte === QUOTE) return i;
      i += byte === BACKSLASH ? 2 : 1;
    }
    // Alternate between loop and native search, so that no input can force a native search for every quote.
    const quote = i < bytes.length ? bytes.indexOf(QUOTE, i) : -1;
    if (quote < 0) return bytes.length;
    let slashes = 0;
    while (quote - slashes > i && bytes[quote - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote;
    i = quote + 1;
  }
}
