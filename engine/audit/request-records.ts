/**
 * Audit records of requests as lists ask for them.
 * @module
 */
import type { AuditRecord } from '../contract/services.ts';
import type { Database } from '../store/database.ts';

/** Which requests are wanted; every field that is present must match. */
export interface RequestFilter {
  /** E-mail address in lower case. */
  readonly user?: string | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  /** Id of an access token or session. */
  readonly token?: string | undefined;
  readonly token_group?: string | undefined;
  readonly model?: string | undefined;
  readonly upstream?: string | undefined;
  readonly client?: string | undefined;
  /** Error code of the gateway. */
  readonly error?: string | undefined;
  /** Three digits, or a class such as `4xx`. */
  readonly status?: string | undefined;
  /** `refused`: the gateway said no. `failed`: it ended with a status from 400 on, whoever said it. */
  readonly outcome?: 'refused' | 'failed' | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
}

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

/** The field of a record that each filter is compared with. */
const FIELDS = {
  user: 'user',
  team: 'team',
  project: 'project',
  token: 'token_id',
  token_group: 'token_group',
  model: 'model',
  upstream: 'upstream',
  client: 'client',
  error: 'error',
} as const satisfies Partial<Record<keyof RequestFilter, string>>;

const isClass = (status: string) => status.endsWith('xx');

/** What a record has to hold. */
function wanted(filter: RequestFilter): Record<string, unknown> {
  const { status } = filter;
  const fields = Object.entries(FIELDS).flatMap(([name, field]) => {
    const value = filter[name as keyof typeof FIELDS];
    return value === undefined ? [] : [[field, value] as const];
  });
  const exact = status !== undefined && !isClass(status) ? { status: Number(status) } : {};
  return { ...Object.fromEntries(fields), ...exact };
}

/** First digits of the statuses that are wanted. */
function classesOf({ status, outcome }: RequestFilter): string[] | null {
  const by_outcome = { refused: ['4', '5'], failed: ['4', '5'] };
  const of_status = status === undefined ? undefined : [status[0]!];
  const of_outcome = outcome === undefined ? undefined : by_outcome[outcome];
  if (of_status === undefined) return of_outcome ?? null;
  return of_outcome === undefined ? of_status : of_status.filter((digit) => of_outcome.includes(digit));
}

/** Whether a record is one of those that are wanted, whenever it was. */
export function fitsFilter(record: AuditRecord, filter: RequestFilter): boolean {
  const classes = classesOf(filter);
  return (
    Object.entries(wanted(filter)).every(([field, value]) => record[field] === value) &&
    (classes === null || classes.includes(String(record.status ?? '')[0] ?? '')) &&
    (filter.outcome !== 'refused' || (record.error !== null && record.error !== undefined))
  );
}

/** What an index leads to; the rest is compared row by row. */
const LOOK_UP = {
  user: "record ->> 'user' = $1::jsonb ->> 'user'",
  token: "record ->> 'token_id' = $1::jsonb ->> 'token_id'",
  failed: "left(record ->> 'status', 1) in ('4', '5')",
  time: 'true',
} as const;

function lookUp(filter: RequestFilter): keyof typeof LOOK_UP {
  if (filter.token !== undefined) return 'token';
  if (filter.user !== undefined) return 'user';
  const classes = classesOf(filter);
  return classes?.every((digit) => digit === '4' || digit === '5') ? 'failed' : 'time';
}

/** Whether most of what an index leads to may have to be passed over. */
function isRare(filter: RequestFilter, by: keyof typeof LOOK_UP): boolean {
  const compared = Object.keys(wanted(filter)).filter(
    (field) => by === 'time' || by === 'failed' || field !== FIELDS[by],
  );
  const is_of_class =
    by === 'failed' ? classesOf(filter)!.length < 2 || filter.outcome === 'refused' : classesOf(filter) !== null;
  return compared.length > 0 || is_of_class;
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
     where ${LOOK_UP[by]} and record @> $1::jsonb
       and (at, id) < ($2::timestamptz, coalesce($3::bigint, 0)) and ($4::timestamptz is null or at >= $4)
       and ($5::text[] is null or left(record ->> 'status', 1) = any($5))
       and (not $6::boolean or record ->> 'error' is not null)
     order by at desc, id desc limit $7`,
    [
      JSON.stringify(wanted(filter)),
      stretch.before,
      stretch.before_id,
      stretch.from,
      classesOf(filter),
      filter.outcome === 'refused',
      stretch.limit,
    ],
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
       where ${LOOK_UP[by]} and $1::jsonb is not null
         and ($2::timestamptz is null or at >= $2) and ($3::timestamptz is null or at < $3)
       limit $4
     ) as to_read`,
    [JSON.stringify(wanted(filter)), filter.since ?? null, filter.until ?? null, most],
  );
  return row!.count;
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
