/** Lines of a file that belong together, counted from 1. */
export interface Block {
  readonly first_line: number;
  readonly last_line: number;
}

const BLANK = /^\s*(?:#.*)?$/;

const indentOf = (text: string): number => /^ */.exec(text)![0].length;

/** The entry of a list, or the mapping, in which the key on a line stands, from its first line to its last. */
export function blockAround(lines: readonly string[], line: number): Block {
  const key = lines[line - 1] ?? '';
  let first_line = line;
  if (!key.trimStart().startsWith('- ')) {
    const isAbove = (text: string) => !BLANK.test(text) && indentOf(text) < indentOf(key);
    first_line = lines.slice(0, line).findLastIndex(isAbove) + 1 || line;
  }
  return { first_line, last_line: blockEnd(lines, first_line) };
}

/**
 * The last line of what begins on a line of YAML: everything after it that is indented further, and the rest of an entry of a list.
 * Lines count from 1.
 */
export function blockEnd(lines: readonly string[], line: number): number {
  const first = lines[line - 1];
  if (first === undefined) return line;
  const indent = indentOf(first);
  const is_entry = first.startsWith('- ', indent);
  let last = line;
  for (let at = line; at < lines.length; at++) {
    const text = lines[at]!;
    if (BLANK.test(text)) continue;
    const own = indentOf(text);
    if (own < indent || (own === indent && (is_entry || !/^[\]}]/.test(text.trimStart())))) break;
    last = at + 1;
  }
  return last;
}
