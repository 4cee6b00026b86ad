/** A piece of a line of YAML, and what it is. */
export interface Piece {
  readonly kind: 'key' | 'text' | 'number' | 'word' | 'comment' | 'mark' | 'plain';
  readonly text: string;
}

/** Each alternative looks at a character once, whatever the line holds. */
const PIECES =
  /(?<comment>(?<=^|\s)#.*)|(?<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?<space>\s+)|(?<mark>[[\]{},:]|[-?|>&*!]+(?=\s|$))|(?<plain>[^\s[\]{},#"']+|.)/gu;
const NUMBER = /^[-+]?(?:\d[\d_]*)(?:\.\d+)?(?:e[-+]?\d+)?$/i;
const WORD = /^(?:true|false|null|~)$/;
/** A longer line is shown without colours. */
const CHARS_MAX = 2000;

/** The pieces of a line of YAML. It is for eyes: what spans lines is told as what it looks like. */
export function piecesOf(line: string): readonly Piece[] {
  if (line.length > CHARS_MAX) return [{ kind: 'plain', text: line }];
  const found: Piece[] = [];
  for (const match of line.matchAll(PIECES)) {
    const [text] = match;
    const { comment, text: quoted, space, mark } = match.groups!;
    const rest = line.slice(match.index + text.length);
    if (comment !== undefined) found.push({ kind: 'comment', text });
    else if (space !== undefined) found.push({ kind: 'plain', text });
    else if (mark !== undefined) found.push({ kind: 'mark', text });
    else if (quoted !== undefined) found.push({ kind: /^\s*:(?:\s|$)/.test(rest) ? 'key' : 'text', text });
    else found.push(...wordPieces(text, rest));
  }
  return found;
}

function wordPieces(text: string, rest: string): Piece[] {
  // `key:` before a space or the end of the line.
  if (text.length > 1 && text.endsWith(':') && /^(?:\s|$)/.test(rest)) {
    return [
      { kind: 'key', text: text.slice(0, -1) },
      { kind: 'mark', text: ':' },
    ];
  }
  if (NUMBER.test(text)) return [{ kind: 'number', text }];
  return [{ kind: WORD.test(text) ? 'word' : 'plain', text }];
}
