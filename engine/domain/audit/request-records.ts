import { createHash } from 'node:crypto';
import type { AuditRecord } from '../../base/contract/services.ts';
import type { Database } from '../../base/store/database.ts';

type OneOf = string | readonly string[];

/** Filter of requests; every field that is present must match. */
export interface RequestFilter {
  /** E-mail addresses in lower case. */
  readonly user?: OneOf | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  /** Id of an access token or session. */
  readonly token?: string | undefined;
  readonly token_group?: string | undefined;
  readonly model?: OneOf | undefined;
  readonly upstream?: string | undefined;
  readonly client?: string | undefined;
  readonly error?: OneOf | undefined;
  /** Three digits, or a class such as `4xx`. */
  readonly status?: string | undefined;
  /** `refused`: by the gateway. `failed`: any status from 400 on. */
  readonly outcome?: 'refused' | 'failed' | undefined;
  /** Rules that decided, or would have in enforce mode: see `rulesMatch`. */
  readonly rules?: readonly string[] | undefined;
  /** A rule in shadow mode matched: any, or one of these. */
  readonly shadow?: true | readonly string[] | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
}

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

/** Values of fields; of a list field the members it must contain. */
type Fields = Readonly<Record<string, string | number | readonly string[]>>;

const asList = (value: OneOf): readonly string[] => (typeof value === 'string' ? [value] : value);

/** Kinds of rules, as the prefix of shadow matches, and the fields of rules that decided. */
const KINDS: Readonly<Record<string, (name: string) => Fields>> = {
  access: (name) => ({ refused_by: `access rule ${name}` }),
  spend: (name) => ({ spend_rule: name }),
  routing: (name) => ({ route_rule: name }),
};

function shadowMatches(name: string): Fields[] {
  const [kind = ''] = name.split(':', 1);
  if (Object.hasOwn(KINDS, kind)) return [{ shadow: [name] }];
  const { stage, ...pipeline } = stageNamed(name);
  return [...Object.keys(KINDS).map((each) => `${each}:${name}`), stage].map((mark) => ({
    shadow: [mark],
    ...(mark === stage && pipeline),
  }));
}

/** A stage by its id, or as `explain rules` writes it: with its pipeline. */
function stageNamed(name: string): { readonly stage: string; readonly pipeline?: string } {
  const slash = name.indexOf('/');
  return slash < 0 ? { stage: name } : { pipeline: name.slice(0, slash), stage: name.slice(slash + 1) };
}

/**
 * The fields of records about a rule: one of `access.rules`, `routing.rules` or `spend_limits`, by its name or as `access:<name>`;
 * a stage that rejected, by its id or as `<pipeline>/<id>`; or `refused_by` as the record has it.
 */
function rulesMatch(name: string): Fields[] {
  const [kind = ''] = name.split(':', 1);
  const own = Object.hasOwn(KINDS, kind) ? KINDS[kind]!(name.slice(kind.length + 1)) : undefined;
  if (own !== undefined) return [own, ...shadowMatches(name)];
  const decided = Object.values(KINDS).map((fieldsOf) => fieldsOf(name));
  const models = ['policy', 'token group'].map((by) => ({ refused_by: `${by} ${name}` }));
  return [...decided, ...models, { refused_by: name }, { ...stageNamed(name) }, ...shadowMatches(name)];
}

const isClass = (status: string) => status.endsWith('xx');

/** Fields that a record must have, and choices of which it must have one each. */
function wanted(filter: RequestFilter): { readonly fields: Fields; readonly choices: readonly (readonly Fields[])[] } {
  const { status, rules, shadow } = filter;
  const lists = Object.entries(FIELDS).flatMap(([name, field]) => {
    const value = filter[name as keyof typeof FIELDS];
    return value === undefined ? [] : [asList(value).map((each): Fields => ({ [field]: each }))];
  });
  const exact = status !== undefined && !isClass(status) ? [{ status: Number(status) }] : [];
  const single = lists.flatMap((list) => (list.length === 1 ? list : []));
  return {
    fields: Object.assign({}, ...single, ...exact),
    choices: [
      ...lists.filter((list) => list.length !== 1),
      ...(rules === undefined ? [] : [rules.flatMap(rulesMatch)]),
      ...(Array.isArray(shadow) ? [shadow.flatMap(shadowMatches)] : []),
    ],
  };
}

function classesOf({ status, outcome }: RequestFilter): string[] | null {
  const failed = ['4', '5'];
  if (status === undefined) return outcome === undefined ? null : failed;
  return outcome === undefined || failed.includes(status[0]!) ? [status[0]!] : [];
}

/** Makes the predicate of a filter on records, without its times. */
export function fitter(filter: RequestFilter): (record: AuditRecord) => boolean {
  const classes = classesOf(filter);
  const { fields: all, choices } = wanted(filter);
  const holds = (value: unknown, expected: Fields[string]) =>
    typeof expected === 'object'
      ? Array.isArray(value) && expected.every((each) => value.includes(each))
      : value === expected;
  const hasAll = (record: AuditRecord, fields: Fields) =>
    Object.entries(fields).every(([field, expected]) => holds(record[field], expected));
  return (record) =>
    hasAll(record, all) &&
    choices.every((list) => list.some((fields) => hasAll(record, fields))) &&
    (classes === null || classes.includes(String(record.status ?? '')[0] ?? '')) &&
    (filter.outcome !== 'refused' || (record.error !== null && record.error !== undefined)) &&
    (filter.shadow === undefined || (Array.isArray(record.shadow) && record.shadow.length > 0));
}

/** One row of the audit log. */
export interface RequestRecord {
  /** Increases in the order in which rows become visible. */
  readonly id: number;
  readonly at: Date;
  readonly record: AuditRecord;
}

interface RecordPage {
  readonly records: readonly RequestRecord[];
  /** Cursor of the next page; `null` on the last. */
  readonly next: string | null;
  /** The search went back to this moment; `null`: it read all. */
  readonly searched_to: Date | null;
}

type Queryable = Pick<Database, 'query'>;

/** Conditions with an index; the others are compared row by row. */
const LOOK_UP = {
  user: "record ->> 'user' = $1",
  token: "record ->> 'token_id' = $1",
  failed: "left(record ->> 'status', 1) in ('4', '5') and $1::text is null",
  time: '$1::text is null',
} as const;

/** Conditions compared row by row; parameters from $5 on. */
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

function soughtValue(filter: RequestFilter, by: keyof typeof LOOK_UP): string | null {
  return by === 'user' || by === 'token' ? (filter[by] as string) : null;
}

/** Whether most rows of an index may not match. */
function isRare(filter: RequestFilter, by: keyof typeof LOOK_UP): boolean {
  const { status, outcome, rules, shadow } = filter;
  const names = Object.keys(FIELDS).filter((name) => filter[name as keyof RequestFilter] !== undefined);
  const is_exact = status !== undefined && !isClass(status);
  if (is_exact || rules !== undefined || shadow !== undefined || names.some((name) => name !== by)) return true;
  return by === 'failed' ? classesOf(filter)!.length < 2 || outcome === 'refused' : classesOf(filter) !== null;
}

const HOUR_MS = 3_600_000;
const FIRST_STRETCH_MS = 6 * HOUR_MS;
/** Target time per stretch; the length of the next one adapts, since days have more records than nights. */
const QUICK_MS = 30;
const PAGE_TIMEOUT_MS = 250;

/** Lists matching requests, the newest first, for a quarter of a second; `undefined` if the row of `after` is gone. Raises store_unavailable. */
export async function listRequestRecords(
  database: Queryable,
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
  const by = lookUp(filter);
  let length = isRare(filter, by) ? FIRST_STRETCH_MS : Number.POSITIVE_INFINITY;
  for (;;) {
    const lowest = new Date(before).getTime() - length;
    const from = new Date(Math.max(first.getTime(), lowest));
    const started = performance.now();
    const found = await database.query<RequestRecord>(
      `audit_requests_by_${by}`,
      `select id, at, record from audit_log
       where ${LOOK_UP[by]}
         and (at, id) < ($2::timestamptz, coalesce($3::bigint, 0)) and ($4::timestamptz is null or at >= $4)
         and ${FITS}
       order by at desc, id desc limit $10`,
      [soughtValue(filter, by), before, before_id, from, ...fitsValues(filter), limit + 1 - records.length],
    );
    records.push(...found);
    if (records.length > limit) {
      const shown = records.slice(0, limit);
      return { records: shown, next: `${shown.at(-1)!.id}`, searched_to: shown.at(-1)!.at };
    }
    if (from <= first) return { records, next: null, searched_to: null };
    const now = performance.now();
    if (now - began > PAGE_TIMEOUT_MS) return { records, next: `t${from.getTime()}`, searched_to: from };
    length *= Math.min(3, Math.max(1 / 4, QUICK_MS / (now - started)));
    before = from.toISOString();
    before_id = null;
  }
}

/** Before a row, or before where the previous search stopped; in ISO 8601, with the microseconds of PostgreSQL. */
async function startOf(database: Queryable, after: string | undefined, until: Date) {
  if (after === undefined) return { before: until.toISOString(), before_id: null };
  // No search stops at a later moment, and PostgreSQL does not parse those in this form.
  if (/^t\d{1,14}$/.test(after)) return { before: new Date(Number(after.slice(1))).toISOString(), before_id: null };
  if (!/^\d{1,15}$/.test(after)) return undefined;
  const id = Number(after);
  const [row] = await database.query<{ at: string }>('audit_at', 'select at::text from audit_log where id = $1', [id]);
  return row && { before: row.at, before_id: id };
}

async function oldestOf(database: Queryable): Promise<Date> {
  const [row] = await database.query<{ at: Date }>(
    'audit_oldest',
    'select at from audit_log order by at, id limit 1',
    [],
  );
  return row?.at ?? new Date(0);
}

/** Counts the records that a search has to read, up to `most`: more than match without an index. Raises store_unavailable. */
export async function countToRead(database: Queryable, filter: RequestFilter, most: number): Promise<number> {
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

/** A sender of requests, and their outcomes. */
export interface Senders {
  readonly person: string | null;
  readonly requests: number;
  /** Requests that ended with an error of the gateway. */
  readonly refused: number;
  readonly last: Date;
}

/** Lists the senders of matching requests, those with the most first. Raises store_unavailable. */
export function whoSent(database: Queryable, filter: RequestFilter, limit: number): Promise<Senders[]> {
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

/** The record of a request; `undefined` without one. Raises store_unavailable. */
export async function readRequestRecord(database: Queryable, request_id: string): Promise<RequestRecord | undefined> {
  const [row] = await database.query<RequestRecord>(
    'audit_request',
    'select id, at, record from audit_log where request_id = $1 order by id desc limit 1',
    [request_id],
  );
  return row;
}

/** Id of the newest row; 0 without any. Raises store_unavailable. */
export async function newestRecordId(database: Queryable): Promise<number> {
  const [row] = await database.query<{ id: number }>(
    'audit_newest',
    'select id from audit_log order by id desc limit 1',
    [],
  );
  return row?.id ?? 0;
}

/** Lists the rows after one, in order. Raises store_unavailable. */
export function recordsAfter(database: Queryable, id: number, limit: number): Promise<RequestRecord[]> {
  return database.query<RequestRecord>(
    'audit_requests_after',
    'select id, at, record from audit_log where id > $1 order by id limit $2',
    [id, limit],
  );
}

/** Counts the rejections of each limit since a moment; those in shadow mode since the hour of that moment. Raises store_unavailable. */
export function limitRefusals(database: Queryable, since: Date) {
  return database.query<{
    readonly rule: string;
    /** Rejected requests, and their number of senders. */
    readonly refused: number;
    readonly refused_people: number;
    /** Requests that it would reject in enforce mode. */
    readonly would_refuse: number;
  }>(
    'limit_refusals',
    `with enforced as (
       select record ->> 'spend_rule' as rule, count(*)::integer as refused,
         count(distinct record ->> 'user')::integer as refused_people
       from audit_log
       -- The condition on the status selects the index of failed requests.
       where at >= $1 and left(record ->> 'status', 1) in ('4', '5')
         and record ->> 'error' in ('spend_limit_exceeded', 'rate_limit_exceeded')
       group by 1
     ), shadow as (
       select substr(name, length('spend:') + 1) as rule, sum(requests)::integer as would_refuse from shadow_hours
       where hour >= date_trunc('hour', $1::timestamptz, 'UTC') and starts_with(name, 'spend:')
       group by 1
     )
     select rule, coalesce(refused, 0) as refused, coalesce(refused_people, 0) as refused_people,
       coalesce(would_refuse, 0) as would_refuse
     from enforced full join shadow using (rule) where rule is not null`,
    [since],
  );
}

/** Counts requests that ended with an error of the gateway, not of an upstream, the most frequent error first. Raises store_unavailable. */
export function refusedRequests(database: Queryable, since: Date) {
  return database.query<{ readonly error: string; readonly requests: number; readonly people: number }>(
    'refused_requests',
    `select record ->> 'error' as error, count(*) as requests, count(distinct record ->> 'user') as people
     from audit_log
     where at >= $1 and left(record ->> 'status', 1) in ('4', '5') and record ->> 'error' is not null
     group by 1 order by 2 desc, 1`,
    [since],
  );
}

/** A page of the log, with the requested fields of each record. */
export interface FactPage {
  readonly rows: readonly FactRow[];
  readonly at: Date;
}

export interface FactRow {
  /** JSON text of the requested fields: equal for many records. */
  readonly facts: string;
  readonly person: string | null;
  readonly is_known: boolean;
}

const PAGE = 5000;

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** PostgreSQL functions take at most a hundred arguments. */
const PAIRS_MAX = 40;

function object(pairs: readonly string[]): string {
  const parts = [];
  for (let i = 0; i < pairs.length; i += PAIRS_MAX)
    parts.push(`jsonb_build_object(${pairs.slice(i, i + PAIRS_MAX).join(', ')})`);
  return parts.join(' || ');
}

/** SQL: JSON text of these fields of a record, without absent ones. */
function projection(fields: readonly string[], seen: readonly string[]): string {
  const of_record = fields.map((field) => `${literal(field)}, record -> ${literal(field)}`);
  const of_seen = seen.map((path) => `${literal(path)}, record -> 'seen' -> ${literal(path)}`);
  const others = of_seen.length === 0 ? [] : [`'seen', ${object(of_seen)}`, `'found', record -> 'found'`];
  return `jsonb_strip_nulls(${object([...of_record, ...others])})::text`;
}

/** Reads a period of the log page by page: these fields of records, and `seen` paths of facts. Raises store_unavailable. */
export async function* factPages(
  database: Queryable,
  { since, until }: { readonly since: Date; readonly until: Date },
  { fields, seen }: { readonly fields: readonly string[]; readonly seen: readonly string[] },
): AsyncIterable<FactPage> {
  const facts = projection(fields, seen);
  const name = `audit_facts_${createHash('sha256').update(facts).digest('hex').slice(0, 12)}`;
  const text = `select id, at, at::text as moment, record ->> 'user' as person, record ->> 'principal' is not null as is_known,
       ${facts} as facts
     from audit_log where (at, id) > ($1::timestamptz, $2::bigint) and at < $3
     order by at, id limit ${PAGE}`;
  let after: readonly [moment: string, id: number] = [since.toISOString(), -1];
  for (;;) {
    const rows = await database.query<FactRow & { id: number; at: Date; moment: string }>(name, text, [
      ...after,
      until,
    ]);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield { rows, at: last.at };
    if (rows.length < PAGE) return;
    after = [last.moment, last.id];
  }
}
