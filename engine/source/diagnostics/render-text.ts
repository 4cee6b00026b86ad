import { printable } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import type { Diagnostic } from './diagnostic.ts';
import { furtherPlaces, placeOf } from './places.ts';
import { hideSecrets } from './secrets.ts';

const WIDTH = 80;

const RED = 31;
const YELLOW = 33;
const BLUE = 34;
const CYAN = 36;

type Paint = (text: string, ...styles: number[]) => string;

const plain: Paint = (text) => text;
const ansi: Paint = (text, ...styles) => `\x1b[${styles.join(';')}m${text}\x1b[0m`;

/** Lines of at most `WIDTH` columns; room for `indent` is left in the first, the others are indented. */
function wrap(text: string, indent: number): string[] {
  const [first = '', ...rest] = wrapText(text, WIDTH, ' '.repeat(indent));
  return [first.slice(indent), ...rest];
}

/** The part of a long line that holds the marked text, and where the mark then starts. */
function visible(line: string, column: number, room: number): { text: string; start: number } {
  if (line.length <= room) return { text: line, start: column - 1 };
  const from = Math.max(0, Math.min(column - 1 - Math.floor(room / 3), line.length - room));
  const text = `${from > 0 ? '...' : ''}${line.slice(from + (from > 0 ? 3 : 0), from + room - 3)}...`;
  return { text: text.slice(0, room), start: column - 1 - from };
}

function snippet({ line, column = 1, length = 1 }: Diagnostic, source: string, paint: Paint): string[] {
  if (line === undefined) return [];
  const lines = source.split(/\r?\n/).map((text) => hideSecrets(printable(text.replaceAll('\t', ' '))));
  const marked = lines[line - 1] ?? '';
  const gutter = String(line).length;
  const room = WIDTH - gutter - 3;
  const { text, start } = visible(marked, column, room);
  const bar = paint('|', BLUE);
  const numbered = (number: number, content: string) =>
    `${paint(String(number).padStart(gutter), BLUE)} ${bar} ${content}`.trimEnd();
  const before = lines[line - 2];
  const carets = '^'.repeat(Math.max(1, Math.min(length, room - start)));
  return [
    `${' '.repeat(gutter)} ${bar}`,
    ...(before === undefined || before.trim() === '' ? [] : [numbered(line - 1, visible(before, 1, room).text)]),
    numbered(line, text),
    `${' '.repeat(gutter)} ${bar} ${' '.repeat(start)}${paint(carets, RED, 1)}`,
  ];
}

/**
 * A diagnostic for people: what, where, the marked line, found and expected, what to do.
 * @param same those that say the same of other places.
 */
export function renderText(
  diagnostic: Diagnostic,
  same: readonly Diagnostic[],
  source: string | undefined,
  color: boolean,
): string {
  const { code, severity, message, chain = [], found, expected, help } = diagnostic;
  const paint = color ? ansi : plain;
  const title = `${severity}[${code}]`;
  const label = (name: string, text: string | undefined) => {
    if (text === undefined) return [];
    const [first = '', ...rest] = wrap(printable(text), name.length + 4);
    return [`  ${paint(`${name}:`, CYAN)} ${first}`, ...rest];
  };
  const [headline = '', ...more] = wrap(printable(message), title.length + 2);
  return [
    `${paint(title, severity === 'error' ? RED : YELLOW, 1)}: ${paint(headline, 1)}`,
    ...more,
    `  ${paint('-->', BLUE)} ${placeOf(diagnostic)}`,
    ...(source === undefined ? [] : snippet(diagnostic, source, paint)),
    ...[...chain].reverse().map((use) => `  used by ${use.file}:${use.line}`),
    ...label('found', found),
    ...label('expected', expected),
    ...label('help', help),
    ...label('also at', furtherPlaces(same)),
    '',
  ].join('\n');
}
