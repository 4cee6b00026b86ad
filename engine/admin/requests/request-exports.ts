import type { RequestFilter } from '../../audit/request-filter.ts';
import { countToRead, listRequestRecords } from '../../audit/request-records.ts';
import type { AuditRecord, Clock } from '../../contract/services.ts';
import { recordFor } from '../../explain/told-limits.ts';
import type { CsvCell } from '../../kit/text/csv.ts';
import type { LimitReader } from '../../money/limits/written-limits.ts';
import type { Database } from '../../store/database.ts';
import { EXPORT_PAGE, type ExportedList } from '../export-list.ts';
import { type RequestRow, requestRow } from './request-rows.ts';

/** A record as a line of JSON has it: all that was written down, as `appscli audit tail --json` prints it. */
type Line = AuditRecord & { readonly id: number; readonly at: Date };

/** Numbers are ours, except where a stage of the operator's own wrote a text. */
const cell = (value: RequestRow[keyof RequestRow]): CsvCell => {
  if (typeof value === 'number') return { number: String(value) };
  return { text: value instanceof Date ? value.toISOString() : String(value ?? '') };
};

/** Requests as lists show them, for a file. */
export function exportedRequests(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now'> },
  filter: RequestFilter,
  reader: LimitReader,
): ExportedList<Line> {
  const now = clock.now();
  async function* pages(): AsyncIterable<readonly Line[]> {
    // What comes while it is read is not in it.
    const bounded = { ...filter, until: filter.until ?? new Date(now) };
    for (let after: string | null | undefined; after !== null; ) {
      const page = await listRequestRecords(database, bounded, { limit: EXPORT_PAGE, after, now });
      if (page === undefined) throw new Error('the records that come next were deleted while they were read');
      const { records, next } = page;
      if (records.length > 0) yield records.map(({ id, at, record }) => ({ ...recordFor(reader, record), id, at }));
      after = next;
    }
  }
  const titles = Object.keys(requestRow({ at: new Date(0), record: {} }));
  return {
    name: 'requests',
    titles,
    cells: ({ at, ...record }) => Object.values(requestRow({ at, record })).map(cell),
    pages,
    count: (most) => countToRead(database, filter, most),
  };
}
