import { relative } from 'node:path';
import { jsonText, printable } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { DIAGNOSTICS } from './codes.ts';
import type { Diagnostic } from './diagnostic.ts';
import { hideSecrets } from './secrets.ts';

const MAX_PLACES = 5;

/** Place of a finding in the form that editors open: `gateway.yaml:3:5`. */
export const placeOf = ({ file, line, column }: Diagnostic): string =>
  line === undefined ? printable(file) : `${printable(file)}:${line}:${column ?? 1}`;

function furtherPlaces(diagnostics: readonly Diagnostic[]): string | undefined {
  if (diagnostics.length === 0) return undefined;
  const more = diagnostics.length - MAX_PLACES;
  return `${diagnostics.slice(0, MAX_PLACES).map(placeOf).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

const WIDTH = 80;

const RED = 31;
const YELLOW = 33;
const BLUE = 34;
const CYAN = 36;

type Paint = (text: string, ...styles: number[]) => string;

const plain: Paint = (text) => text;
const ansi: Paint = (text, ...styles) => `\x1b[${styles.join(';')}m${text}\x1b[0m`;

/** Lines of at most `WIDTH` columns. The first is shorter by `indent`; the others are indented. */
function wrap(text: string, indent: number): string[] {
  const [first = '', ...rest] = wrapText(text, WIDTH, ' '.repeat(indent));
  return [first.slice(indent), ...rest];
}

/** The part of a long line around the marked text, and the offset of the mark in it. */
function visible(line: string, column: number, width: number): { text: string; start: number } {
  if (line.length <= width) return { text: line, start: column - 1 };
  const from = Math.max(0, Math.min(column - 1 - Math.floor(width / 3), line.length - width));
  const text = `${from > 0 ? '...' : ''}${line.slice(from + (from > 0 ? 3 : 0), from + width - 3)}...`;
  return { text: text.slice(0, width), start: column - 1 - from };
}

function snippet({ line, column = 1, length = 1 }: Diagnostic, source: string, paint: Paint): string[] {
  if (line === undefined) return [];
  const lines = source.split(/\r?\n/).map((text) => hideSecrets(printable(text.replaceAll('\t', ' '))));
  const marked = lines[line - 1] ?? '';
  const gutter = String(line).length;
  const width = WIDTH - gutter - 3;
  const { text, start } = visible(marked, column, width);
  const bar = paint('|', BLUE);
  const numbered = (number: number, content: string) =>
    `${paint(String(number).padStart(gutter), BLUE)} ${bar} ${content}`.trimEnd();
  const before = lines[line - 2];
  const carets = '^'.repeat(Math.max(1, Math.min(length, width - start)));
  return [
    `${' '.repeat(gutter)} ${bar}`,
    ...(before === undefined || before.trim() === '' ? [] : [numbered(line - 1, visible(before, 1, width).text)]),
    numbered(line, text),
    `${' '.repeat(gutter)} ${bar} ${' '.repeat(start)}${paint(carets, RED, 1)}`,
  ];
}

/** A diagnostic for people. @param same diagnostics with the same text at other places */
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

/** A message of a GitHub workflow command. */
export const escapeData = (text: string): string => printable(text).replaceAll('%', '%25').replaceAll('\n', '%0A');

const escapeProperty = (text: string): string => escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');

/** A workflow command. @param same diagnostics at other places: code hosts show only ten commands of a step */
export function renderGithub(diagnostic: Diagnostic, same: readonly Diagnostic[]): string {
  const { code, severity, file, line, column, length, message, found, expected, help, chain } = diagnostic;
  const properties: [string, string | number | undefined][] = [
    ['file', file],
    ['line', line],
    ['col', column],
    ['endColumn', column === undefined ? undefined : column + (length ?? 1)],
    ['title', `${code} ${DIAGNOSTICS[code].title}`],
  ];
  const parts = properties.flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${escapeProperty(String(value))}`],
  );
  const also_at = furtherPlaces(same);
  const lines = [
    message,
    found === undefined ? undefined : `found: ${found}`,
    expected === undefined ? undefined : `expected: ${expected}`,
    ...(chain ?? []).map((use) => `used by ${use.file}:${use.line}`).reverse(),
    help === undefined ? undefined : `help: ${help}`,
    also_at === undefined ? undefined : `also at: ${also_at}`,
  ].filter((text) => text !== undefined);
  return `::${severity} ${parts.join(',')}::${escapeData(lines.join('\n'))}\n`;
}

export interface RenderOptions {
  readonly format: 'text' | 'json' | 'github';
  readonly color: boolean;
  /** Texts of the files with secrets masked (`Loaded.sources`), for snippets. */
  readonly sources: ReadonlyMap<string, string>;
  /** Base of relative paths; default: the current directory. */
  readonly cwd?: string;
}

/** A path for people: relative if below `cwd`. */
export function shownPath(file: string, cwd: string): string {
  const path = relative(cwd, file);
  return path === '' || path.startsWith('..') ? file : path;
}

function withShownPaths(diagnostic: Diagnostic, cwd: string): Diagnostic {
  return {
    ...diagnostic,
    file: shownPath(diagnostic.file, cwd),
    ...(diagnostic.chain && {
      chain: diagnostic.chain.map(({ file, line }) => ({ file: shownPath(file, cwd), line })),
    }),
  };
}

const textKey = ({ code, message, found, expected, help }: Diagnostic): string =>
  JSON.stringify([code, message, found, expected, help]);

/** Renders diagnostics; text and commands merge equal ones. Ends with a line break unless empty. */
export function renderDiagnostics(diagnostics: readonly Diagnostic[], options: RenderOptions): string {
  const { format, color, sources, cwd = process.cwd() } = options;
  const shown = (diagnostic: Diagnostic) => withShownPaths(diagnostic, cwd);
  if (format === 'json') {
    const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
    const report = { errors, warnings: diagnostics.length - errors, diagnostics: diagnostics.map(shown) };
    return `${jsonText(report, 2)}\n`;
  }
  const rendered = [...Map.groupBy(diagnostics, textKey).values()].map(([first, ...same]) =>
    format === 'github'
      ? renderGithub(shown(first!), same.map(shown))
      : renderText(shown(first!), same.map(shown), sources.get(first!.file), color),
  );
  return rendered.join(format === 'github' ? '' : '\n');
}
