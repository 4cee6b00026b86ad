import { type JsonBounds, type JsonFault, TOKEN_BYTES_MAX } from './scan.ts';

const LF = 0x0a;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/** Line and column of a byte, both from 1; a column is a character. */
function positionOf(bytes: Buffer, at: number): string {
  let line = 1;
  let column = 1;
  for (let i = 0; i < at; i++) {
    const byte = bytes[i]!;
    if (byte === LF) {
      line++;
      column = 1;
    } else if ((byte & 0xc0) !== 0x80) column++;
  }
  return `line ${line}, column ${column}`;
}

/** Says where a JSON text breaks, or which bound it passes, without quoting the text around, which may be prompt text. */
export function describeFault({ kind, at }: JsonFault, bytes: Buffer, bounds: JsonBounds): string {
  switch (kind) {
    case 'depth':
      return `is nested deeper than ${bounds.depth} levels, the most this gateway accepts`;
    case 'values':
      return `has more than ${bounds.values} values and keys, the most this gateway accepts; a key counts as two, long keys and many escapes as more`;
    case 'length':
      return `has a key or a number of more than ${TOKEN_BYTES_MAX} bytes, the most this gateway accepts`;
    case 'end':
      return `is not valid JSON: it ${bytes.length === 0 ? 'is empty' : 'ends too early'}`;
    case 'structure':
      if (at === 0 && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK))
        return 'is not valid JSON: it begins with a byte order mark; leave that out';
      return `is not valid JSON: it breaks at ${positionOf(bytes, at)}`;
  }
}

/** Says where the parser stopped, in the words of `describeFault`. */
export function describeSyntaxError(error: unknown): string {
  const message = error instanceof Error ? error.message : '';
  const position = /line (\d+) column (\d+)/.exec(message);
  return `is not valid JSON: it ${position === null ? 'does not parse' : `breaks at line ${position[1]}, column ${position[2]}`}`;
}
