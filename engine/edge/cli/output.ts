import { formatUsd } from '../../base/kit/money.ts';
import { isTimeZone } from '../../base/kit/net/addresses.ts';
import { jsonText, printable, printableLine, printableLines } from '../../base/kit/text/printable.ts';
import { wrapText } from '../../base/kit/text/wrap-text.ts';
import { formatInZone } from '../../base/kit/zoned-time.ts';
import { type CommandContext, EXIT_OK } from './commands.ts';

export { counted } from '../../base/kit/text/suggest.ts';

/** Width of sentences. */
export const WIDTH = 80;

/** A text as lines of 80 columns, without control characters. */
export function paragraph(text: string, first_indent = '', indent = first_indent): string[] {
  return wrapText(printable(text), WIDTH, first_indent, indent);
}

/** Blocks of lines with an empty line between them; without empty blocks. */
export function apart(blocks: readonly (readonly string[])[]): string[] {
  return blocks.filter(({ length }) => length > 0).flatMap((block, i) => (i === 0 ? block : ['', ...block]));
}

/** Prints a text to standard error, wrapped at 80 columns. */
export function say({ terminal }: CommandContext, text: string): void {
  terminal.info(printableLines(paragraph(text)));
}

export function showResult(context: CommandContext, result: object, json: true | undefined, print: () => void): number {
  if (json) context.terminal.data(`${jsonText(result)}\n`);
  else print();
  return EXIT_OK;
}

export function showReport(
  { terminal }: Pick<CommandContext, 'terminal'>,
  json: true | undefined,
  report: object,
  describe: () => readonly string[],
): number {
  terminal.data(json ? `${jsonText(report, 2)}\n` : printableLines(describe()));
  return EXIT_OK;
}

export function showSecret(
  context: CommandContext,
  made: { readonly token: string },
  json: true | undefined,
  about: string,
): number {
  return showResult(context, made, json, () => {
    say(context, `${about}, and is shown only once:`);
    context.terminal.data(`${made.token}\n`);
  });
}

export function showList<Entry>(
  { terminal }: CommandContext,
  entries: readonly Entry[],
  json: true | undefined,
  how: { readonly none: string; readonly columns: Columns<Entry> },
): number {
  if (json) terminal.data(`${jsonText(entries, 2)}\n`);
  else if (entries.length === 0) terminal.info(`${how.none}\n`);
  else terminal.data(printableLines(formatList(...tableOf(how.columns, entries), terminal.table_columns)));
  return EXIT_OK;
}

/** Most findings of a kind in a text report. */
export const SHOWN = 20;

/** Lines about findings of one kind: title, the first ones, remedy. @param others note about the rest. */
export function describeFindings(
  title: string,
  findings: readonly string[],
  remedy: string,
  { total = findings.length, others = ' (--json shows all)' } = {},
): string[] {
  if (total === 0) return [];
  const shown = findings.slice(0, SHOWN);
  return [
    ...paragraph(title),
    ...shown.flatMap((text) => paragraph(text, '  ', '    ')),
    ...(total > shown.length ? [`  and ${total - shown.length} more${others}`] : []),
    ...paragraph(remedy),
    '',
  ];
}

/** A value for JSON with exact amounts: every `bigint` of a field `*_nano_usd` becomes a decimal text in `*_usd`. */
export function exactUsd(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(exactUsd);
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) =>
      typeof each === 'bigint' ? [name.replace(/nano_usd$/, 'usd'), formatUsd(each)] : [name, exactUsd(each)],
    ),
  );
}

/** One column of a table. */
export interface Column {
  readonly title: string;
  /** Texts and numbers are never truncated, because people copy them; only brief texts are, and appear elsewhere. */
  readonly kind: 'text' | 'number' | 'brief';
}

type ColumnSpec = string | Column;

/** A table: its columns, each with the cell of an entry. */
export type Columns<Entry> = readonly (readonly [
  title: string,
  cell: (entry: Entry) => string | null,
  kind?: Column['kind'],
])[];

/** Columns of numbers. */
export function numbers(...titles: readonly string[]): Column[] {
  return titles.map((title) => ({ title, kind: 'number' }));
}

const GAP = '  ';
const SHORTEST_BRIEF = 6;

function widest(columns: readonly Column[], rows: readonly (readonly string[])[]): number[] {
  return columns.map(({ title }, i) => rows.reduce((most, row) => Math.max(most, row[i]!.length), title.length));
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
}

/** Narrows the widest brief column by one character until the line fits, or no brief column can shrink. */
function shrinkToFit(columns: readonly Column[], widths: number[], line_width: number): void {
  const briefs = columns.flatMap((column, i) => (column.kind === 'brief' ? [i] : []));
  while (widthOf(widths) > line_width) {
    const longest = briefs.reduce((a, b) => (widths[b]! > widths[a]! ? b : a), briefs[0] ?? -1);
    if (longest < 0 || widths[longest]! <= SHORTEST_BRIEF) return;
    widths[longest]! -= 1;
  }
}

function cell(text: string, width: number, kind: Column['kind']): string {
  if (kind === 'number') return text.padStart(width);
  return (kind === 'brief' && text.length > width ? `${text.slice(0, width - 1)}…` : text).padEnd(width);
}

function printableRows(rows: readonly (readonly string[])[]): string[][] {
  return rows.map((cells) => cells.map((text) => printableLine(text)));
}

function columnsOf(cells: readonly ColumnSpec[]): Column[] {
  return cells.map((column) => (typeof column === 'string' ? { title: column, kind: 'text' } : column));
}

export function formatTable(
  titles: readonly ColumnSpec[],
  cell_rows: readonly (readonly string[])[],
  line_width: number,
): string[] {
  const columns = columnsOf(titles);
  const rows = printableRows(cell_rows);
  const widths = widest(columns, rows);
  shrinkToFit(columns, widths, line_width);
  const line = (cells: readonly string[]) =>
    cells
      .map((text, i) => cell(text, widths[i]!, columns[i]!.kind))
      .join(GAP)
      .trimEnd();
  return [line(columns.map((column) => column.title)), ...rows.map(line)];
}

export function formatList(
  titles: readonly ColumnSpec[],
  cell_rows: readonly (readonly string[])[],
  line_width: number,
): string[] {
  const columns = columnsOf(titles);
  const rows = printableRows(cell_rows);
  if (widthOf(widest(columns, rows)) <= line_width) return formatTable(columns, rows, line_width);
  const label_width = Math.max(...columns.map(({ title }) => title.length)) + GAP.length;
  const records = rows.map((cells) =>
    columns.flatMap(({ title }, i) => (cells[i] === '' ? [] : [`${title.padEnd(label_width)}${cells[i]}`])),
  );
  return apart(records);
}

/** Titles and rows for entries, without columns that are empty in every row. */
export function tableOf<Entry>(
  columns: Columns<Entry>,
  entries: readonly Entry[],
): [titles: Column[], rows: string[][]] {
  const all = columns.map(([title, cell, kind = 'text']) => {
    return { title, kind, texts: entries.map((entry) => cell(entry) ?? '') };
  });
  const kept = all.filter(({ texts }) => texts.some((text) => text !== ''));
  return [kept, entries.map((_, i) => kept.map(({ texts }) => texts[i]!))];
}

/** The local time zone by name: TZ, else the system's. Node.js treats an unknown TZ as UTC. */
function localZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

const two = (number: number) => String(number).padStart(2, '0');

/** Formats a moment, possibly from an untrusted text (ISO 8601); invalid texts stay unchanged. */
function format(moment: Date | string, as: (date: Date) => string): string {
  const date = new Date(moment);
  return Number.isNaN(date.getTime()) ? String(moment) : as(date);
}

export function formatDay(moment: Date | string): string {
  return format(moment, (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`);
}

export function formatMinute(moment: Date | string): string {
  return format(moment, (date) => `${formatDay(date)} ${two(date.getHours())}:${two(date.getMinutes())}`);
}

/** A moment to the minute with its time zone (default: local), as 2027-01-31 14:05 Europe/Berlin. */
export function formatMoment(moment: Date | string, time_zone = localZone()): string {
  return format(moment, (date) => formatInZone(date.getTime(), isTimeZone(time_zone) ? time_zone : 'UTC'));
}

/** A moment to the millisecond as one word (ISO 8601): local time with its UTC offset. */
export function formatTimestamp(moment: Date | string): string {
  return format(moment, (date) => {
    const minutes = -date.getTimezoneOffset();
    const local = new Date(date.getTime() + minutes * 60_000).toISOString();
    if (minutes === 0) return local;
    const distance = Math.abs(minutes);
    return local.replace('Z', `${minutes < 0 ? '-' : '+'}${two(Math.floor(distance / 60))}:${two(distance % 60)}`);
  });
}

export function titleInZone(title: string): string {
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'short' }).formatToParts();
  return `${title} (${parts.find(({ type }) => type === 'timeZoneName')?.value ?? localZone()})`;
}

const NANO_DIGITS = 9;

export function roundedUsd(nano_usd: bigint, decimals: number): string {
  const step = 10n ** BigInt(NANO_DIGITS - decimals);
  const half = nano_usd < 0n ? -step / 2n : step / 2n;
  const [whole, fraction = ''] = formatUsd(((nano_usd + half) / step) * step).split('.');
  return `${whole}.${fraction.padEnd(decimals, '0')}`;
}
