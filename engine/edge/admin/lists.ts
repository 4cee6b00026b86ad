import { OperationError } from '../../base/contract/operation-error.ts';
import { type CsvCell, formatCsv } from '../../base/kit/text/csv.ts';
import { jsonText } from '../../base/kit/text/printable.ts';

/** Page of a list, after a cursor. */
export interface PageQuery {
  readonly limit: number;
  readonly after?: string;
}

/** A file response in chunks; the description has its media type. */
export interface Download {
  /** Letters, digits, dots and hyphens. */
  readonly file_name: string;
  readonly chunks: Iterable<string> | AsyncIterable<string>;
}

/** One event of a feed. */
export interface FeedEvent {
  /** Increasing; a disconnected reader resumes after it. */
  readonly id: number;
  readonly event: string;
  readonly data: object;
}

/** An event stream response (`text/event-stream`). */
export interface LiveFeed {
  /** Opens the feed; resolves to the function that stops it. Raises OperationError for too many open feeds. */
  open(reader: { send(event: FeedEvent): void; end(): void }): Promise<() => void>;
}

/** A list for export: JSON lines with exact values, or CSV for spreadsheets. */
export interface ExportedList<Entry extends object> {
  readonly name: string;
  readonly titles: readonly string[];
  /** Values of an entry by column; absent: the entry itself. */
  row?(entry: Entry): object;
  pages(): AsyncIterable<readonly Entry[]>;
  count(most: number): Promise<number>;
}

/** Entries per page of an export. */
export const EXPORT_PAGE = 500;
const MAX_EXPORTED = 500_000;

/** Exports a list as JSON lines or CSV. Raises OperationError for too many entries, and the errors of `count`. */
export async function exported<Entry extends object>(
  list: ExportedList<Entry>,
  form: 'jsonl' | 'csv',
): Promise<Download> {
  if ((await list.count(MAX_EXPORTED + 1)) > MAX_EXPORTED) {
    throw new OperationError(
      `the export has more than ${MAX_EXPORTED} entries: send "since" and "until" to export one period after another`,
    );
  }
  return { file_name: `${list.name}.${form}`, chunks: form === 'csv' ? csvOf(list) : linesOf(list) };
}

async function* csvOf<Entry extends object>({ titles, row = (entry) => entry, pages }: ExportedList<Entry>) {
  yield formatCsv(titles, []);
  for await (const page of pages()) {
    const rows = page.map((entry) => row(entry) as Readonly<Record<string, unknown>>);
    const titled = formatCsv(
      [],
      rows.map((each) => titles.map((title) => cellOf(each[title]))),
    );
    yield titled.slice(titled.indexOf('\n') + 1);
  }
}

function cellOf(value: unknown): CsvCell {
  if (typeof value === 'number') return { number: String(value) };
  if (value instanceof Date) return { text: value.toISOString() };
  if (Array.isArray(value)) return { text: value.join(', ') };
  return { text: typeof value === 'object' && value !== null ? jsonText(value) : String(value ?? '') };
}

async function* linesOf<Entry extends object>(list: ExportedList<Entry>) {
  for await (const page of list.pages()) yield page.map((entry) => `${jsonText(entry)}\n`).join('');
}

/** Page of a list, newest first, before an id. */
export interface PageBefore {
  readonly before?: number | undefined;
  readonly limit: number;
}

/** A list with keyset pagination by descending id: one page, or an export of all entries. */
export function listById<Query, Entry extends { readonly id: number }>(
  list: Pick<ExportedList<Entry>, 'name' | 'titles' | 'row'> & {
    read(query: Query, page: PageBefore): Promise<readonly Entry[]>;
    count(query: Query, most: number): Promise<number>;
  },
) {
  const page = async (query: Query & PageBefore) =>
    pageOf(await list.read(query, { before: query.before, limit: query.limit + 1 }), query.limit);
  const all = (query: Query): ExportedList<Entry> => ({
    ...list,
    pages: () => pagesOf((before?: number) => page({ ...query, before, limit: EXPORT_PAGE })),
    count: (most) => list.count(query, most),
  });
  return {
    page,
    lines: (query: Query) => exported(all(query), 'jsonl'),
    csv: (query: Query) => exported(all(query), 'csv'),
  };
}

/** The pages of a list, from the first to the last. */
export async function* pagesOf<Entry, Cursor>(
  read: (cursor: Cursor | undefined) => Promise<{ readonly entries: readonly Entry[]; readonly next: Cursor | null }>,
): AsyncIterable<readonly Entry[]> {
  for (let cursor: Cursor | null | undefined; cursor !== null; ) {
    const page = await read(cursor);
    if (page.entries.length > 0) yield page.entries;
    cursor = page.next;
  }
}

/** Splits `limit + 1` entries into one page and the cursor of the next. */
export function pageOf<Entry extends { readonly id: string | number }>(
  entries: readonly Entry[],
  limit: number,
): { readonly entries: readonly Entry[]; readonly next: Entry['id'] | null } {
  const page = entries.slice(0, limit);
  return { entries: page, next: entries.length > limit ? page.at(-1)!.id : null };
}

/** The error for an unknown cursor. */
export function notInList(): OperationError {
  return new OperationError('the parameter "after" is not in this list; begin again without it');
}
