import { OperationError } from '../contract/operation-error.ts';
import { type CsvCell, formatCsv } from '../kit/text/csv.ts';
import { jsonText } from '../kit/text/printable.ts';
import type { Download } from './download.ts';

/** A list that can be had as a file: each entry as a line of JSON, every value exact, or as CSV for spreadsheets. */
export interface ExportedList<Entry extends object> {
  /** What the file is called, without its ending. */
  readonly name: string;
  readonly titles: readonly string[];
  cells(entry: Entry): readonly CsvCell[];
  /** The entries, page by page. */
  pages(): AsyncIterable<readonly Entry[]>;
  /** How many entries have to be read for it, counted up to `most`. */
  count(most: number): Promise<number>;
}

/** How many entries a page of an export has. */
export const EXPORT_PAGE = 500;
/** More is no list to look through: whoever wants all takes it month by month. */
const MAX_EXPORTED = 500_000;

/** All entries of a list as lines of JSON. Raises OperationError where they are too many, what `count` raises. */
export async function exportLines<Entry extends object>(list: ExportedList<Entry>): Promise<Download> {
  await demandRoom(list);
  return { file_name: `${list.name}.jsonl`, chunks: linesOf(list) };
}

/** All entries of a list as CSV. Raises OperationError where they are too many, what `count` raises. */
export async function exportCsv<Entry extends object>(list: ExportedList<Entry>): Promise<Download> {
  await demandRoom(list);
  return { file_name: `${list.name}.csv`, chunks: csvOf(list) };
}

async function demandRoom({ count }: Pick<ExportedList<never>, 'count'>): Promise<void> {
  if ((await count(MAX_EXPORTED + 1)) <= MAX_EXPORTED) return;
  throw new OperationError(
    `these are more than ${MAX_EXPORTED} entries to read: send "since" and "until", and take one period after the other`,
  );
}

async function* csvOf<Entry extends object>(list: ExportedList<Entry>) {
  yield formatCsv(list.titles, []);
  for await (const page of list.pages()) {
    const titled = formatCsv(
      [],
      page.map((entry) => list.cells(entry)),
    );
    yield titled.slice(titled.indexOf('\n') + 1);
  }
}

async function* linesOf<Entry extends object>(list: ExportedList<Entry>) {
  for await (const page of list.pages()) yield page.map((entry) => `${jsonText(entry)}\n`).join('');
}

/** The pages of a list that goes on before the id of its last entry. */
export async function* pagesById<Entry extends { readonly id: number }>(
  read: (page: { readonly before: number | undefined; readonly limit: number }) => Promise<readonly Entry[]>,
): AsyncIterable<readonly Entry[]> {
  let before: number | undefined;
  for (;;) {
    const page = await read({ before, limit: EXPORT_PAGE });
    if (page.length > 0) yield page;
    if (page.length < EXPORT_PAGE) return;
    before = page.at(-1)!.id;
  }
}
