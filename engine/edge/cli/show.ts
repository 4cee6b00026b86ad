import { jsonText, printable, printableLines } from '../../base/kit/text/printable.ts';
import { wrapText } from '../../base/kit/text/wrap-text.ts';
import type { CommandContext } from './context.ts';
import { EXIT_OK } from './exit-codes.ts';
import { type ColumnSpec, formatList, withoutEmptyColumns } from './table.ts';

const WIDTH = 80;

/** Prints a text to standard error, wrapped at 80 columns. */
export function say({ terminal }: CommandContext, text: string): void {
  terminal.info(printableLines(wrapText(text, WIDTH)));
}

/** Prints a result as one line of JSON, or as text with `print`. */
export function showResult(context: CommandContext, result: object, json: true | undefined, print: () => void): number {
  if (json) context.terminal.data(`${jsonText(result)}\n`);
  else print();
  return EXIT_OK;
}

/** Prints a report as JSON or as lines of text. */
export function showReport(
  { terminal }: Pick<CommandContext, 'terminal'>,
  json: true | undefined,
  report: object,
  describe: () => readonly string[],
): number {
  terminal.data(json ? `${jsonText(report, 2)}\n` : printableLines(describe()));
  return EXIT_OK;
}

/** Prints a new secret: alone on standard output after a sentence on standard error, or as JSON with its attributes. */
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

/** Prints a list as JSON, as a table without empty columns, or as a sentence if it is empty. */
export function showList<Entry>(
  { terminal }: CommandContext,
  entries: readonly Entry[],
  json: true | undefined,
  how: {
    readonly none: string;
    readonly columns: readonly ColumnSpec[];
    cells(entry: Entry): readonly string[];
    readonly width?: number;
  },
): number {
  if (json) terminal.data(`${jsonText(entries, 2)}\n`);
  else if (entries.length === 0) terminal.info(`${how.none}\n`);
  else {
    const { columns, rows } = withoutEmptyColumns(how.columns, entries.map(how.cells));
    terminal.data(printableLines(formatList(columns, rows, how.width ?? terminal.table_columns)));
  }
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
    ...wrapText(title, WIDTH),
    ...shown.flatMap((text) => wrapText(printable(text), WIDTH, '  ', '    ')),
    ...(total > shown.length ? [`  and ${total - shown.length} more${others}`] : []),
    ...wrapText(remedy, WIDTH),
    '',
  ];
}
