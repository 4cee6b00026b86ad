import { printableLine } from '../../base/kit/text/printable.ts';

/** One column of a table. */
export interface Column {
  readonly title: string;
  /**
   * Texts and numbers are never cut: somebody searches for them, or copies them. Numbers stand on the right. What is brief
   * may lose its end where the line is too long, because it stands in full elsewhere.
   */
  readonly kind: 'text' | 'number' | 'brief';
}

/** A column; a title alone is one of texts. */
export type ColumnGiven = string | Column;

/** Columns of numbers. */
export function numbers(...titles: readonly string[]): Column[] {
  return titles.map((title) => ({ title, kind: 'number' }));
}

const GAP = '  ';
const SHORTEST_BRIEF = 6;

function widest(columns: readonly Column[], rows: readonly (readonly string[])[]): number[] {
  return columns.map((column, i) => Math.max(column.title.length, ...rows.map((row) => row[i]!.length)));
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
}

/** Takes columns away from the longest brief text, one character at a time, until the line fits or nothing can shrink. */
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

/** What stands in a table was often written by somebody else. */
function printableRows(rows: readonly (readonly string[])[]): string[][] {
  return rows.map((cells) => cells.map((text) => printableLine(text)));
}

function columnsOf(given: readonly ColumnGiven[]): Column[] {
  return given.map((column) => (typeof column === 'string' ? { title: column, kind: 'text' } : column));
}

/** Lines of a table with a title row, one line for each row; brief texts shrink to keep within `line_width`. */
export function formatTable(
  titles: readonly ColumnGiven[],
  given: readonly (readonly string[])[],
  line_width: number,
): string[] {
  const columns = columnsOf(titles);
  const rows = printableRows(given);
  const widths = widest(columns, rows);
  shrinkToFit(columns, widths, line_width);
  const line = (cells: readonly string[]) =>
    cells
      .map((text, i) => cell(text, widths[i]!, columns[i]!.kind))
      .join(GAP)
      .trimEnd();
  return [line(columns.map((column) => column.title)), ...rows.map(line)];
}

/** Lines of a table where they fit; else of a record for each row, with a line for each cell that is not empty. */
export function formatList(
  titles: readonly ColumnGiven[],
  given: readonly (readonly string[])[],
  line_width: number,
): string[] {
  const columns = columnsOf(titles);
  const rows = printableRows(given);
  if (widthOf(widest(columns, rows)) <= line_width) return formatTable(columns, rows, line_width);
  const label_width = Math.max(...columns.map(({ title }) => title.length)) + GAP.length;
  const records = rows.map((cells) =>
    columns.flatMap(({ title }, i) => (cells[i] === '' ? [] : [`${title.padEnd(label_width)}${cells[i]}`])),
  );
  return records.flatMap((record, i) => (i === 0 ? record : ['', ...record]));
}

/** The table without the columns that say nothing: those that are empty in every row. */
export function withoutEmptyColumns(
  titles: readonly ColumnGiven[],
  rows: readonly (readonly string[])[],
): { columns: Column[]; rows: string[][] } {
  const columns = columnsOf(titles);
  const kept = columns.map((_, i) => rows.some((row) => row[i] !== ''));
  return {
    columns: columns.filter((_, i) => kept[i]),
    rows: rows.map((row) => row.filter((_, i) => kept[i])),
  };
}
