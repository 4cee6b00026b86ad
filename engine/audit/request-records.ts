/**
 * Audit records of requests as lists ask for them.
 * @module
 */
import type { AuditRecord } from '../contract/services.ts';
import type { Database } from '../store/database.ts';
import { classesOf, comparedFields, type RequestFilter, wanted } from './request-filter.ts';

/** One row of the audit log. */
export interface RequestRecord {
  /** Grows in the order in which rows become visible. */
  readonly id: number;
  readonly at: Date;
  readonly record: AuditRecord;
}

/** A part of a list, and how far was looked for it. */
export interface RecordPage {
  readonly records: readonly RequestRecord[];
  /** Where the next page begins: after this row; `null` where there is none. */
  readonly next: string | null;
  /** Nothing that is younger was left out; `null` where all was looked at. */
  readonly searched_to: Date | null;
}

type Asking = Pick<Database, 'query'>;

/** What an index leads to; the rest is compared row by row. */
const LOOK_UP = {
  user: "record ->> 'user' = $1",
  token: "record ->> 'token_id' = $1",
  failed: "left(record ->> 'status', 1) in ('4', '5') and $1::text is null",
  time: '$1::text is null',
} as const;

/** What is compared, with parameters from $5 on. */
const FITS = `record @> $5::jsonb
       and ($6::text[] is null or left(record ->> 'status', 1) = any($6))
       and (not $7::boolean or record ->> 'error' is not null)
       and (not $8::boolean or record -> 'shadow' <> '[]')
       and ($9::jsonb is null or not exists (
         select from jsonb_array_elements($9) as list where not exists (
           select from jsonb_array_elements(list) as fields where record @> fields
         )
       ))`;

function fitsValues(filter: RequestFilter): readonly unknown[] {
  const { fields, choices } = wanted(filter);
  return [
    JSON.stringify(fields),
    classesOf(filter),
    filter.outcome === 'refused',
    filter.shadow !== undefined,
    choices.length === 0 ? null : JSON.stringify(choices),
  ];
}

function lookUp(filter: RequestFilter): keyof typeof LOOK_UP {
  if (filter.token !== undefined) return 'token';
  if (typeof filter.user === 'string') return 'user';
  const classes = classesOf(filter);
  return classes?.every((digit) => digit === '4' || digit === '5') ? 'failed' : 'time';
}

/** The value that an index is asked for. */
function soughtValue(filter: RequestFilter, by: keyof typeof LOOK_UP): string | null {
  return by === 'user' || by === 'token' ? (filter[by] as string) : null;
}

/** Whether most of what an index leads to may have to be passed over. */
function isRare(filter: RequestFilter, by: keyof typeof LOOK_UP): boolean {
  const is_of_class =
    by === 'failed' ? classesOf(filter)!.length < 2 || filter.outcome === 'refused' : classesOf(filter) !== null;
  return comparedFields(filter, by === 'user' || by === 'token' ? by : undefined) > 0 || is_of_class;
}

interface Stretch {
  /** ISO 8601, as PostgreSQL writes it: it knows microseconds. */
  readonly before: string;
  readonly before_id: number | null;
  readonly from: Date | null;
  readonly limit: number;
}

function readStretch(database: Asking, filter: RequestFilter, stretch: Stretch): Promise<RequestRecord[]> {
  const by = lookUp(filter);
  return database.query<RequestRecord>(
    `audit_requests_by_${by}`,
    `select id, at, record from audit_log
     where ${LOOK_UP[by]}
       and (at, id) < ($2::timestamptz, coalesce($3::bigint, 0)) and ($4::timestamptz is null or at >= $4)
       and ${FITS}
     order by at desc, id desc limit $10`,
    [soughtValue(filter, by), stretch.before, stretch.before_id, stretch.from, ...fitsValues(filter), stretch.limit],
  );
}

const HOUR_MS = 3_600_000;
const FIRST_STRETCH_MS = 6 * HOUR_MS;
/** How long a stretch should take: the next one is longer or shorter for it, as a working day has more than the night before. */
const QUICK_MS = 30;
/** A list that has nothing to show by then says how far it looked. */
const PATIENCE_MS = 250;

/**
 * Requests that fit, the newest first. Where what is wanted is rare it looks at one stretch of time after the other, and gives up
 * after a quarter of a second: the page then has fewer entries than it could, and `searched_to` says how far it looked.
 * @param after `next` of the page before.
 * Raises store_unavailable; `undefined` where `after` names no row any more.
 */
export async function listRequestRecords(
  database: Asking,
  filter: RequestFilter,
  page: { readonly limit: number; readonly after?: string | undefined; readonly now: number },
): Promise<RecordPage | undefined> {
  const { limit, after, now } = page;
  const start = await startOf(database, after, filter.until ?? new Date(now + HOUR_MS));
  if (start === undefined) return undefined;
  const oldest = await oldestOf(database);
  const first = filter.since !== undefined && filter.since > oldest ? filter.since : oldest;
  const records: RequestRecord[] = [];
  const began = performance.now();
  let { before, before_id } = start;
  let length = isRare(filter, lookUp(filter)) ? FIRST_STRETCH_MS : Number.POSITIVE_INFINITY;
  for (;;) {
    const lowest = new Date(before).getTime() - length;
    const from = new Date(Math.max(first.getTime(), lowest));
    const asked = performance.now();
    records.push(
      ...(await readStretch(database, filter, { before, before_id, from, limit: limit + 1 - records.length })),
    );
    if (records.length > limit) {
      const shown = records.slice(0, limit);
      return { records: shown, next: `${shown.at(-1)!.id}`, searched_to: shown.at(-1)!.at };
    }
    if (from <= first) return { records, next: null, searched_to: null };
    const now = performance.now();
    if (now - began > PATIENCE_MS) return { records, next: `t${from.getTime()}`, searched_to: from };
    length *= Math.min(3, Math.max(1 / 4, QUICK_MS / (now - asked)));
    before = from.toISOString();
    before_id = null;
  }
}

/** Where a page begins: before a row, or before a moment that the search before it came to. */
async function startOf(
  database: Asking,
  after: string | undefined,
  until: Date,
): Promise<Pick<Stretch, 'before' | 'before_id'> | undefined> {
  if (after === undefined) return { before: until.toISOString(), before_id: null };
  // Later moments are none that a search came to, and PostgreSQL does not read them as they are written here.
  if (/^t\d{1,14}$/.test(after)) return { before: new Date(Number(after.slice(1))).toISOString(), before_id: null };
  if (!/^\d{1,15}$/.test(after)) return undefined;
  const id = Number(after);
  const [row] = await database.query<{ at: string }>('audit_at', 'select at::text from audit_log where id = $1', [id]);
  return row && { before: row.at, before_id: id };
}

async function oldestOf(database: Asking): Promise<Date> {
  const [row] = await database.query<{ at: Date }>(
    'audit_oldest',
    'select at from audit_log order by at, id limit 1',
    [],
  );
  return row?.at ?? new Date(0);
}

/**
 * How many records have to be read to find all that fit, counted up to `most`: more than fit, where no index leads to what is
 * wanted. Raises store_unavailable.
 */
export async function countToRead(database: Asking, filter: RequestFilter, most: number): Promise<number> {
  const by = lookUp(filter);
  const [row] = await database.query<{ count: number }>(
    `audit_requests_count_${by}`,
    `select count(*) from (
       select from audit_log
       where ${LOOK_UP[by]}
         and ($2::timestamptz is null or at >= $2) and ($3::timestamptz is null or at < $3)
       limit $4
     ) as to_read`,
    [soughtValue(filter, by), filter.since ?? null, filter.until ?? null, most],
  );
  return row!.count;
}

/** Who sent requests, and what became of them. */
export interface Senders {
  /** E-mail address; `null` for requests of nobody known. */
  readonly person: string | null;
  readonly requests: number;
  /** Of those how many ended with an error of the gateway. */
  readonly refused: number;
  readonly last: Date;
}

/** Who sent the requests that fit, those with the most first. Raises store_unavailable. */
export function whoSent(database: Asking, filter: RequestFilter, limit: number): Promise<Senders[]> {
  const by = lookUp(filter);
  return database.query<Senders>(
    `audit_requests_who_${by}`,
    `select record ->> 'user' as person, count(*) as requests,
       count(*) filter (where record ->> 'error' is not null) as refused, max(at) as last
     from audit_log
     where ${LOOK_UP[by]}
       and ($2::timestamptz is null or at >= $2) and ($3::timestamptz is null or at < $3)
       and ${FITS}
     group by 1 order by 2 desc, 1 limit $4`,
    [soughtValue(filter, by), filter.since ?? null, filter.until ?? null, limit, ...fitsValues(filter)],
  );
}

/** The record of one request; `undefined` when the log has none. Raises store_unavailable. */
export async function readRequestRecord(database: Asking, request_id: string): Promise<RequestRecord | undefined> {
  const [row] = await database.query<RequestRecord>(
    'audit_request',
    'select id, at, record from audit_log where request_id = $1 order by id desc limit 1',
    [request_id],
  );
  return row;
}

/** The newest row there is; 0 where there is none. Raises store_unavailable. */
export async function newestRecordId(database: Asking): Promise<number> {
  const [row] = await database.query<{ id: number }>(
    'audit_newest',
    'select id from audit_log order by id desc limit 1',
    [],
  );
  return row?.id ?? 0;
}

/** Rows that came after one, in order. Raises store_unavailable. */
export function recordsAfter(database: Asking, id: number, limit: number): Promise<RequestRecord[]> {
  return database.query<RequestRecord>(
    'audit_requests_after',
    'select id, at, record from audit_log where id > $1 order by id limit $2',
    [id, limit],
  );
}
