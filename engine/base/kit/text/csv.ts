import { printableLine } from './printable.ts';

/** Cells that spreadsheets evaluate as formulas, some after trimming or narrowing wide characters. */
const FORMULA = /^[\s'"]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\n]/;
const NEEDS_QUOTES = /[",\n]/;

/** A cell: an untrusted text, which is made safe, or a number. */
export type CsvCell = { readonly text: string } | { readonly number: string };

/** A CSV file (RFC 4180). A text that looks like a formula gets a leading apostrophe; control characters are replaced. */
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
