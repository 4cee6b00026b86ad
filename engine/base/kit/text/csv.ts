import { printableLine } from './printable.ts';

/** Spreadsheets run a cell that begins so, some after they have trimmed it or made its wide characters narrow. */
const FORMULA = /^[\s'"]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\n]/;
const NEEDS_QUOTES = /[",\n]/;

/** One value: texts were often written by somebody else, and are made safe; numbers are ours. */
export type CsvCell = { readonly text: string } | { readonly number: string };

/**
 * A CSV file (RFC 4180) with a header. A text that a spreadsheet could take for a formula gets an apostrophe in front,
 * which spreadsheets take for "this is text"; characters that a terminal would act upon or that end a line are replaced.
 */
export function formatCsv(titles: readonly string[], rows: readonly (readonly CsvCell[])[]): string {
  const lines = [titles, ...rows.map((cells) => cells.map(csvCell))];
  return lines.map((cells) => `${cells.join(',')}\r\n`).join('');
}

function csvCell(cell: CsvCell): string {
  if ('number' in cell) return cell.number;
  const text = printableLine(cell.text);
  if (FORMULA.test(text)) return quote(`'${text}`);
  return NEEDS_QUOTES.test(text) ? quote(text) : text;
}

function quote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}
