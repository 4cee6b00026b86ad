import { printableLine } from '../../base/kit/text/printable.ts';

/** One column of a table. */
export interface Column {
  readonly title: string;
  /**
   * Texts and numbers are never truncated, because people search for them and copy them. Numbers align right. Brief texts
   * are truncated on long lines; they appear in full elsewhere.
   */
  readonly kind: 'text' | 'number' | 'brief';
}

/** A column, or the title of a text column. */
export type ColumnSpec = string | Column;

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

/** Removes control characters: table content is untrusted. */
function printableRows(rows: readonly (readonly string[])[]): string[][] {
  return rows.map((cells) => cells.map((text) => printableLine(text)));
}

function columnsOf(cells: readonly ColumnSpec[]): Column[] {
  return cells.map((column) => (typeof column === 'string' ? { title: column, kind: 'text' } : column));
}

/** A table with a title row; brief texts shrink to fit `line_width`. */
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

/** A table if it fits `line_width`, else a record per row with a line per cell that is not empty. */
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
  return records.flatMap((record, i) => (i === 0 ? record : ['', ...record]));
}

/** The table without columns that are empty in every row. */
export function withoutEmptyColumns(
  titles: readonly ColumnSpec[],
  rows: readonly (readonly string[])[],
): { columns: Column[]; rows: string[][] } {
  const columns = columnsOf(titles);
  const kept = columns.map((_, i) => rows.some((row) => row[i] !== ''));
  return {
    columns: columns.filter((_, i) => kept[i]),
    rows: rows.map((row) => row.filter((_, i) => kept[i])),
  };
}
