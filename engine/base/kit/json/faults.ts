import { type JsonBounds, type JsonFault, TOKEN_BYTES_MAX } from './scan.ts';

const LF = 0x0a;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/** Line and column of a byte, counted from 1; columns count characters. */
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

/** Message for a JSON fault: its position, or the exceeded bound. It never quotes the text, which may be a prompt. */
export function describeFault({ kind, at }: JsonFault, bytes: Buffer, bounds: JsonBounds): string {
  switch (kind) {
    case 'depth':
      return `is nested deeper than ${bounds.depth} levels, the maximum of this gateway`;
    case 'values':
      return `has more than ${bounds.values} values and keys, the maximum of this gateway; a key counts as two, long keys and many escapes as more`;
    case 'length':
      return `has a key or a number of more than ${TOKEN_BYTES_MAX} bytes, the maximum of this gateway`;
    case 'end':
      return `is not valid JSON: it ${bytes.length === 0 ? 'is empty' : 'ends too early'}`;
    case 'structure':
      if (at === 0 && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK))
        return 'is not valid JSON: it begins with a byte order mark; remove it';
      return `is not valid JSON: it breaks at ${positionOf(bytes, at)}`;
  }
}

/** Message for a SyntaxError of the parser, in the form of `describeFault`. */
export function describeSyntaxError(error: unknown): string {
  const message = error instanceof Error ? error.message : '';
  const position = /line (\d+) column (\d+)/.exec(message);
  return `is not valid JSON: it ${position === null ? 'does not parse' : `breaks at line ${position[1]}, column ${position[2]}`}`;
}
