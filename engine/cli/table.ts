import { printableLine } from '../diagnostics/printable.ts';

/** One column of a table. */
export interface Column {
  readonly title: string;
  /** Texts shrink when the line is too long; words (identifiers, dates) and numbers never do. Numbers stand on the right. */
  readonly kind: 'text' | 'word' | 'number';
}

const GAP = '  ';
const SHORTEST_TEXT = 6;

function widest(columns: readonly Column[], rows: readonly (readonly string[])[]): number[] {
  return columns.map((column, i) => Math.max(column.title.length, ...rows.map((row) => row[i]!.length)));
}

/** Takes columns away from the longest text, one character at a time, until the line fits or nothing can shrink. */
function shrinkToFit(columns: readonly Column[], widths: number[], line_width: number): void {
  const texts = columns.flatMap((column, i) => (column.kind === 'text' ? [i] : []));
  const total = () => widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
  while (total() > line_width) {
    const longest = texts.reduce((a, b) => (widths[b]! > widths[a]! ? b : a), texts[0] ?? -1);
    if (longest < 0 || widths[longest]! <= SHORTEST_TEXT) return;
    widths[longest]! -= 1;
  }
}

function cell(text: string, width: number, kind: Column['kind']): string {
  return kind === 'number' ? text.padStart(width) : shorten(text, width).padEnd(width);
}

/** A text that is at most so many characters wide; an ellipsis stands for what was cut off. */
export function shorten(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, width - 1)}…` : text;
}

/** Lines of a table with a title row, as wide as `line_width` at most where texts can be shortened to make it so. */
export function formatTable(
  columns: readonly Column[],
  given: readonly (readonly string[])[],
  line_width: number,
): string[] {
  // What stands in a table was often written by somebody else.
  const rows = given.map((cells) => cells.map((text) => printableLine(text)));
  const widths = widest(columns, rows);
  shrinkToFit(columns, widths, line_width);
  const line = (cells: readonly string[]) =>
    cells
      .map((text, i) => cell(text, widths[i]!, columns[i]!.kind))
      .join(GAP)
      .trimEnd();
  return [line(columns.map((column) => column.title)), ...rows.map(line)];
}

/** The table without the columns that say nothing: those that are empty in every row. */
export function withoutEmptyColumns(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): { columns: Column[]; rows: string[][] } {
  const kept = columns.map((_, i) => rows.some((row) => row[i] !== ''));
  return {
    columns: columns.filter((_, i) => kept[i]),
    rows: rows.map((row) => row.filter((_, i) => kept[i])),
  };
}
