/** Where lines of a text begin, and which of them is indented in another way than its neighbours. */

/** Offsets of a word, start and end. */
export interface Word {
  readonly start: number;
  readonly end: number;
}

/** Offsets at which the lines of a text begin. (`LineCounter` of yaml misses lines of text that is not valid YAML.) */
export function lineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** Line and column of an offset, counted from 1. */
export function positionAt(
  starts: readonly number[],
  offset: number,
): { readonly line: number; readonly column: number } {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (starts[middle]! <= offset) low = middle;
    else high = middle - 1;
  }
  return { line: low + 1, column: offset - starts[low]! + 1 };
}

/** Offset at which the line at `offset` begins. */
export const lineStart = (text: string, offset: number): number =>
  offset <= 0 ? 0 : text.lastIndexOf('\n', offset - 1) + 1;

/** Offset at which the line at `offset` ends. */
export const lineEnd = (text: string, offset: number): number => {
  const end = text.indexOf('\n', offset);
  return end < 0 ? text.length : end;
};

/** The text of the line at `offset`. */
export function lineAt(text: string, offset: number): string {
  return text.slice(lineStart(text, offset), lineEnd(text, offset));
}

/** Offsets of the first word of the line at `offset`, or of the next line that has one. */
export function firstWord(text: string, offset: number): Word {
  const blank = /^(?:[ \t]*\r?\n)+/.exec(text.slice(lineStart(text, offset)))?.[0].length ?? 0;
  const from = lineStart(text, offset) + blank;
  const [, space = '', word = ''] = /^([ \t]*)([^\s:]*)/.exec(text.slice(from)) ?? [];
  return { start: from + space.length, end: from + space.length + Math.max(1, word.length) };
}

/** A line of a mapping: its first word, how far it is indented, and whether a value stands on it. */
interface Line {
  readonly word: Word;
  readonly indentation: number;
  readonly ends_open: boolean;
}

/** The next line that is neither blank nor a comment, before (-1) or after (1) the one at `offset`. */
function neighbour(text: string, offset: number, step: 1 | -1): Line | undefined {
  let at = offset;
  for (;;) {
    at = step > 0 ? lineEnd(text, at) + 1 : lineStart(text, at) - 1;
    if (at < 0 || at >= text.length) return undefined;
    const line = lineAt(text, at);
    if (/^\s*(?:#|$)/.test(line)) continue;
    const start = lineStart(text, at);
    const word = firstWord(text, start);
    return { word, indentation: word.start - start, ends_open: /:\s*(?:#.*)?$/.test(line) };
  }
}

const isDash = (text: string, { start }: Word): boolean => /^-(?:\s|$)/.test(text.slice(start, start + 2));

/** The first word of a list whose first item lacks its dash, seen from the dash of the second. */
function undashed(text: string, second: Word): Word | undefined {
  const indentation = second.start - lineStart(text, second.start);
  let first: Line | undefined;
  for (let line = neighbour(text, second.start, -1); line !== undefined; line = neighbour(text, line.word.start, -1)) {
    if (line.indentation < indentation)
      return line.ends_open && first && !isDash(text, first.word) ? first.word : undefined;
    if (isDash(text, line.word) && line.indentation === indentation) return undefined;
    first = line;
  }
  return undefined;
}

/** The first dash of a list when it is the odd one: the second and the third stand in one column, and it does not. */
function oddDash(text: string, second: Word): Word | undefined {
  const indentation = second.start - lineStart(text, second.start);
  const dashes: Line[] = [];
  let line = neighbour(text, second.start, -1);
  for (; line !== undefined && !line.ends_open; line = neighbour(text, line.word.start, -1)) {
    if (isDash(text, line.word)) dashes.push(line);
  }
  let third = neighbour(text, second.start, 1);
  while (third !== undefined && third.indentation > indentation) third = neighbour(text, third.word.start, 1);
  const agrees = third?.indentation === indentation && isDash(text, third.word);
  return agrees && dashes.length === 1 && dashes[0]!.indentation !== indentation ? dashes[0]!.word : undefined;
}

/**
 * The word that stands wrong. YAML complains about the second line of a mapping when the first is indented differently;
 * it is the first that is odd when the third agrees with the second.
 */
export function oddLine(text: string, second: Word): Word {
  const indentation = second.start - lineStart(text, second.start);
  const first = neighbour(text, second.start, -1);
  const parent = first && neighbour(text, first.word.start, -1);
  const third = neighbour(text, second.start, 1);
  if (isDash(text, second)) return undashed(text, second) ?? oddDash(text, second) ?? second;
  if (first === undefined || parent?.ends_open !== true || first.ends_open || /^-/.test(text.slice(first.word.start)))
    return second;
  const is_odd =
    first.indentation !== indentation && third?.indentation === indentation && parent.indentation < indentation;
  return is_odd && parent.indentation <= first.indentation ? first.word : second;
}

/** Whether two keys begin lines of the same mapping. */
export function isSibling(text: string, a: number, b: number): boolean {
  if (a === b) return false;
  const [from, to] = a < b ? [a, b] : [b, a];
  const column = from - lineStart(text, from);
  if (to - lineStart(text, to) !== column || !/^[ -]*$/.test(lineAt(text, from).slice(0, column))) return false;
  const between = text.slice(lineEnd(text, from) + 1, lineStart(text, to)).split('\n');
  return between.every((line) => /^\s*(?:#|$)/.test(line) || /^ */.exec(line)![0].length >= column);
}
