import { OperationError } from '../../../base/contract/operation-error.ts';
import type { AuditRecord, Clock } from '../../../base/contract/services.ts';
import { REPORT_TIMES, type ReportTime, WINDOWS } from '../../../base/contract/windows.ts';
import { formatUsd, nanoToUsd } from '../../../base/kit/money.ts';
import { type CsvCell, formatCsv } from '../../../base/kit/text/csv.ts';
import type { Database } from '../../../base/store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { joinSql, momentSql, type ReportRead, readForLong, type SqlPart } from './long-report.ts';

/** Dimensions that are columns of ledger lines. An adjustment has the values of the row that it adjusts. */
const COLUMNS = {
  user: 'user_email',
  team: 'team',
  project: 'project',
  model: 'model',
  upstream: 'upstream',
  upstream_model: 'upstream_model',
  protocol: 'protocol',
  token: 'token_id',
  token_group: 'token_id',
  answered_model: 'answered_model',
  service_tier: 'service_tier',
  speed: 'speed',
  status: 'status',
  estimated: 'estimated',
} as const;

/** Key columns of sums; sums have the numbers of their values: `team_n`. */
export const KEY_COLUMNS: readonly string[] = [...new Set(Object.values(COLUMNS))];

type Column = keyof typeof COLUMNS;

type Named = Exclude<Column, 'status' | 'estimated'>;

const NAMED = Object.keys(COLUMNS).filter((name) => name !== 'status' && name !== 'estimated') as Named[];

/** A dimension of usage. */
export type UsageDimension = Column | ReportTime;

/**
 * Dimensions of usage. Times are those of forwarding, as limits count them; `status` is a class such as `2xx`; `estimated` is `yes`
 * for usage that the upstream did not report, and `clamped` for more than is possible. `answered_model`, `service_tier` and `speed`
 * have a value only where they differ from the ordinary one.
 */
export const USAGE_DIMENSIONS = [...Object.keys(COLUMNS), ...REPORT_TIMES] as readonly UsageDimension[];

/** Whether a dimension is a time. */
export const isTime = (dimension: UsageDimension): dimension is ReportTime =>
  (REPORT_TIMES as readonly string[]).includes(dimension);

/** Filter of ledger rows; every field that is present must match, an e-mail address in any case. */
export interface UsageFilter extends Readonly<Partial<Record<Named, string | undefined>>> {
  /** Forwarded at or after; a date (YYYY-MM-DD) is midnight in the time zone of the report. */
  readonly since?: Date | string | undefined;
  readonly until?: Date | string | undefined;
}

/** Columns of counts. */
export const COUNTS = [
  'requests',
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
] as const;

/** Columns of money. */
export const AMOUNTS = ['cost_nano_usd', 'adjusted_nano_usd', 'possibly_billed_nano_usd', 'possible_nano_usd'] as const;

export const SUMMED = ['lines', ...COUNTS, ...AMOUNTS] as const;

/**
 * A part of a period: a UTC day or hour whose sums count (or are subtracted, for an hour of a day that counts but belongs to
 * another), or an hour cut by the beginning of a period or local day, which is read from the ledger.
 */
interface Cell {
  readonly span: 'day' | 'hour' | 'cut';
  readonly start: string;
  readonly sign: 1 | -1;
  /** Its names for each time dimension of the report, such as 2026-03 and 2026-03-10. */
  readonly times: readonly string[];
  /** Last settlement of requests forwarded in a cut hour; `null` without any. */
  readonly settled_until: string | null;
}

type Cells = Readonly<Record<'days' | 'hours' | 'cuts', readonly Cell[]>>;

interface UsageQuery {
  readonly filter: UsageFilter;
  readonly by: readonly UsageDimension[];
  readonly time_zone: string;
}

/**
 * Finds the sums that make up a period. Uses UTC days, which are few: a local day is the UTC day of its noon, minus hours of other
 * local days, plus its own hours of other UTC days.
 */
async function findCells(read: ReportRead, { filter, by, time_zone }: UsageQuery): Promise<Cells> {
  const boundOf = (moment: Date | string | undefined) =>
    moment === undefined ? sql('cast(null as timestamptz)') : momentSql(moment, time_zone);
  const [since, until] = [boundOf(filter.since), boundOf(filter.until)];
  const formats = by.filter(isTime).map((time) => WINDOWS[time].format);
  const times = (moment: string): SqlPart => ({
    text: `array[${formats.map(() => `to_char(${moment} at time zone ?, ?)`).join(', ')}]::text[]`,
    values: formats.flatMap((format) => [time_zone, format]),
  });
  const [first, last] = [times('h.start'), times(`(h.start + interval '1 hour' - interval '1 microsecond')`)];
  const found = await read<Cell>(
    `with asked as (
       select ${since.text} as since, ${until.text} as until
     ), known as (
       select since, until,
              date_trunc('day', greatest(since, least(
                (select min(start) from usage_hours), (select min(hour) from usage_waiting))), 'UTC') as first,
              least(until, greatest(
                (select max(start) from usage_hours), (select max(hour) from usage_waiting)) + interval '1 hour') as last
       from asked
     ), hours as materialized (
       select h.start, date_trunc('day', h.start, 'UTC') as day, ${first.text} as times,
              coalesce(h.start >= since, true) and coalesce(h.start + interval '1 hour' <= until, true)
                and ${first.text} = ${last.text} as is_whole,
              h.start + interval '1 hour' <= since or h.start >= until as is_outside
       from known
       cross join generate_series(first, date_trunc('day', last, 'UTC') + interval '23 hours', interval '1 hour') as h (start)
     ), days as (
       select day, times from hours
       where is_whole and extract(hour from start at time zone 'UTC') = 12 and not ?::boolean
     )
     select 'day' as span, ${isoOf('day')} as start, 1 as sign, times, null as settled_until from days
     union all
     select 'hour', ${isoOf('h.start')}, c.sign, c.times, null
     from hours h left join days d on d.day = h.day
     cross join lateral (values (1, case when h.is_whole then h.times end), (-1, d.times)) as c (sign, times)
     where c.times is not null and case when h.is_whole then h.times end is distinct from d.times
     union all
     select 'cut', ${isoOf('h.start')}, 1, '{}', greatest(
       (select max(u.settled_until) from usage_hours u where u.start = h.start),
       (select max(w.settled_at) from usage_waiting w where w.hour = h.start))::text
     from hours h where not h.is_whole and h.is_outside is not true`,
    [...since.values, ...until.values, ...first.values, ...first.values, ...last.values, by.includes('hour')],
  );
  const of = (span: Cell['span']) => found.filter((cell) => cell.span === span);
  return { days: of('day'), hours: of('hour'), cuts: of('cut') };
}

function isoOf(moment: string): string {
  return `to_char(${moment} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;
}

function usageStatement(query: UsageQuery, { days, hours, cuts }: Cells): SqlPart {
  const { by } = query;
  const known = cuts.filter(({ settled_until }) => settled_until !== null);
  const sources = [
    linesSql(query, 'l.hour', sql('usage_waiting l'), {
      text: 'l.hour <> all (cast(? as timestamptz[]))',
      values: [cuts.map(({ start }) => start)],
    }),
    ...(days.length > 0 ? [sumsSql(query, 'usage_days', days)] : []),
    ...(hours.length > 0 ? [sumsSql(query, 'usage_hours', hours)] : []),
  ];
  if (cuts.length > 0) {
    const text = `unnest(cast(? as timestamptz[]), cast(? as timestamptz[])) as c (start, settled_until)
      cross join lateral lines_of_hour(c.start, c.settled_until) as l`;
    const values = [known.map(({ start }) => start), known.map(({ settled_until }) => settled_until!)];
    sources.push(linesSql(query, 'l.forwarded_at', { text, values }));
  }
  const names = by.map((name) => `"${name}"`);
  const sums = [
    ...COUNTS.map((column) => `sum(${column})::bigint as ${column}`),
    ...AMOUNTS.map((column) => `sum(${column})::text as ${column}`),
  ];
  const positions = by.map((_, i) => i + 1);
  const times = positions.filter((position) => isTime(by[position - 1]!));
  const others = positions.filter((position) => !times.includes(position));
  return joined(
    sql(`select ${[...names, ...sums].join(', ')} from (`),
    joinSql(sources, ' union all '),
    sql(`) as used (${[...names, ...SUMMED].join(', ')})`),
    // Subtracted hours may leave empty groups.
    sql(`group by ${positions.join(', ') || '()'} having sum(lines) > 0`),
    sql(`order by ${[...times, 'sum(cost_nano_usd) desc', ...others].join(', ')}`),
  );
}

/** Sums of cells, grouped by numbers first and named once there are few groups. */
function sumsSql({ by, filter }: UsageQuery, table: 'usage_days' | 'usage_hours', cells: readonly Cell[]): SqlPart {
  const slots = [...new Map(cells.map(({ times }) => [times.join(), times])).values()];
  const slotOf = new Map(slots.map((times, i) => [times.join(), String(i + 1)]));
  const starts = cells.map(({ start }) => start).sort();
  const between = 'u.start between cast(? as timestamptz) and cast(? as timestamptz)';
  // Consecutive days with the same names form a range. A filter by person uses an index.
  const in_a_row = table === 'usage_days' && slots.length === 1 && filter.user === undefined;
  const rows = in_a_row
    ? sql(`${table} u cross join (values (1, 1)) as c (sign, slot)`)
    : {
        text: `unnest(cast(? as timestamptz[]), cast(? as bigint[]), cast(? as integer[])) as c (start, sign, slot)
          join ${table} u on u.start = c.start`,
        values: [
          cells.map(({ start }) => start),
          cells.map(({ sign }) => String(sign)),
          cells.map(({ times }) => slotOf.get(times.join())!),
        ],
      };
  const conditions = [{ text: between, values: [starts[0]!, starts.at(-1)!] }, ...numberedSql(filter)];
  const numbers = [...new Set(by.filter((name) => !isTime(name)).map(numberOf))];
  const sign = table === 'usage_days' ? '' : 'c.sign * ';
  const keys = ['c.slot', ...numbers.map((number) => `u.${number}`)].join(', ');
  const times = by.filter(isTime);
  const shown = by.map((name) => {
    if (!isTime(name)) return sql(name === 'token_group' ? 't.token_group' : `named_${numberOf(name)}.name`);
    return { text: '(cast(? as text[]))[g.slot]', values: [slots.map((slot) => slot[times.indexOf(name)]!)] };
  });
  const names = numbers.map((number) => `left join usage_names named_${number} on named_${number}.id = g.${number}`);
  const tokens = by.includes('token_group') ? 'left join access_tokens t on t.id = named_token_id_n.name' : '';
  return joined(
    ...[sql('select'), joinSql([...shown, ...SUMMED.map((column) => sql(`g.${column}`))], ', ')],
    sql(`from (select ${keys}, ${SUMMED.map((column) => `sum(${sign}u.${column}) as ${column}`).join(', ')} from`),
    ...[rows, sql('where'), joinSql(conditions, ' and ')],
    sql(`group by ${keys}) as g ${names.join(' ')} ${tokens}`),
  );
}

function numberedSql(filter: UsageFilter): SqlPart[] {
  return wantedIn(filter).map(([name, wanted]) => ({
    text:
      name === 'token_group'
        ? `u.${numberOf(name)} = any (array(
            select k.id from access_tokens t join usage_names k on k.digest = name_digest(t.id) where t.token_group = ?))`
        : `u.${numberOf(name)} = coalesce((select k.id from usage_names k where k.digest = name_digest(?)), -1)`,
    values: [wanted],
  }));
}

function wantedIn(filter: UsageFilter): [name: Named, wanted: string][] {
  return NAMED.flatMap((name) => {
    const wanted = name === 'user' ? filter.user?.toLowerCase() : filter[name];
    return wanted === undefined ? [] : [[name, wanted] as [Named, string]];
  });
}

function linesSql({ by, filter, time_zone }: UsageQuery, moment: string, from: SqlPart, ...also: SqlPart[]): SqlPart {
  const { since, until, token_group } = filter;
  const shown = by.map((name) =>
    isTime(name)
      ? { text: `to_char(${moment} at time zone ?, ?)`, values: [time_zone, WINDOWS[name].format] }
      : sql(lineOf(name)),
  );
  const conditions = [
    ...[sql('true'), ...also],
    ...(since === undefined ? [] : [joined(sql(`${moment} >=`), momentSql(since, time_zone))]),
    ...(until === undefined ? [] : [joined(sql(`${moment} <`), momentSql(until, time_zone))]),
    ...wantedIn(filter).map(([name, wanted]) => ({ text: `${lineOf(name)} = ?`, values: [wanted] })),
  ];
  const needs_tokens = by.includes('token_group') || token_group !== undefined;
  return joined(
    ...[sql('select'), joinSql([...shown, ...SUMMED.map((column) => sql(`l.${column}`))], ', '), sql('from'), from],
    sql(needs_tokens ? 'left join access_tokens t on t.id = l.token_id where' : 'where'),
    joinSql(conditions, ' and '),
  );
}

const lineOf = (name: Column) => (name === 'token_group' ? 't.token_group' : `l.${COLUMNS[name]}`);

const numberOf = (name: Column) => `${COLUMNS[name]}_n`;

function sql(text: string): SqlPart {
  return { text, values: [] };
}

function joined(...parts: SqlPart[]): SqlPart {
  return joinSql(parts, ' ');
}

/** Default grouping. */
export const DEFAULT_DIMENSIONS = ['user', 'team', 'project', 'model', 'upstream', 'protocol'] as const;

/** Sums of requests with equal dimensions; `null`: without a value. */
export interface UsageRow
  extends Readonly<Partial<Record<UsageDimension, string | null>>>,
    Readonly<Record<(typeof COUNTS)[number], number>> {
  readonly cost_nano_usd: bigint;
  readonly adjusted_nano_usd: bigint;
  /** Possible charges for failed attempts beyond the cost. */
  readonly possibly_billed_nano_usd: bigint;
  /** Possible charges for failed attempts that the cost includes (`reserve: worst_case`). */
  readonly possible_nano_usd: bigint;
}

/** Dimensions, and the time zone of days (IANA name, default UTC). */
export interface UsageGrouping {
  readonly by?: readonly UsageDimension[] | undefined;
  readonly time_zone?: string | undefined;
}

/** Bounds of a report; none for the command line. */
export interface UsageBounds {
  readonly patience_ms?: number | undefined;
  readonly most_rows?: number | undefined;
}

/**
 * Sums up usage by some dimensions: the most expensive rows first, or the oldest with a time among the dimensions. Reads the sums of
 * hours and days, and the ledger itself where a period cuts an hour. Errors are pg's own; OperationError for too many rows.
 */
export function reportUsage(
  database: Pick<Database, 'knex'>,
  filter: UsageFilter = {},
  { by = DEFAULT_DIMENSIONS, time_zone = 'UTC' }: UsageGrouping = {},
  { patience_ms, most_rows }: UsageBounds = {},
): Promise<UsageRow[]> {
  const report = async (read: ReportRead): Promise<UsageRow[]> => {
    const query = { filter, by, time_zone };
    const cells = await findCells(read, query);
    // PostgreSQL overestimates the groups: it would sort all sums on disk instead of hashing them, and avoid parallel workers,
    // which take half the time.
    await read(
      `select set_config('enable_sort', 'off', true), set_config('parallel_setup_cost', '0', true),
         set_config('parallel_tuple_cost', '0', true), set_config('max_parallel_workers_per_gather', '2', true)`,
      [],
    );
    const { text, values } = usageStatement(query, cells);
    const rows = await (most_rows === undefined
      ? read<UsageRow>(text, values)
      : read<UsageRow>(`${text} limit ?`, [...values, most_rows + 1]));
    if (most_rows !== undefined && rows.length > most_rows) {
      throw new OperationError(
        `the report adds up more than ${most_rows} rows: use a shorter period, days instead of hours, or fewer dimensions`,
      );
    }
    const exact = (row: UsageRow) => Object.fromEntries(AMOUNTS.map((amount) => [amount, BigInt(row[amount])]));
    return rows.map((row) => ({ ...row, ...exact(row) }));
  };
  return readForLong(database, report, patience_ms);
}

/** The audit record of one request; `undefined` when the log has none. Raises store_unavailable. */
export async function findAuditRecord(
  database: Pick<Database, 'query'>,
  request_id: string,
): Promise<AuditRecord | undefined> {
  const [row] = await database.query<{ record: AuditRecord }>(
    'audit_record',
    'select record from audit_log where request_id = $1 order by id desc limit 1',
    [request_id],
  );
  return row?.record;
}

/** Sums of some rows. */
export interface UsageSums extends Omit<UsageRow, UsageDimension> {
  /** Cost of requests with estimated or clamped usage. */
  readonly estimated_nano_usd: bigint;
}

/** A row of a summary. */
export interface UsageEntry {
  /** Values by dimension; `null` for requests without one. */
  readonly of: Readonly<Partial<Record<UsageDimension, string | null>>>;
  /** Number of further rows that are summed up here; 0 for a row of its own. */
  readonly others: number;
  readonly sums: UsageSums;
}

interface SummaryQuery extends UsageQuery {
  /** Most rows of their own, per time if there is one among the dimensions. */
  readonly limit: number;
}

/** Reads the usage for a summary, also split by `estimated`. Errors are those of the report. */
export function readUsage(
  database: Pick<Database, 'knex'>,
  { filter, by, time_zone }: UsageQuery,
  bounds?: UsageBounds,
): Promise<UsageRow[]> {
  const split = by.includes('estimated') ? by : ([...by, 'estimated'] as const);
  return reportUsage(database, filter, { by: split, time_zone }, bounds);
}

/**
 * Summarizes usage: beyond `limit` the cheapest rows become one, so that the total is always complete.
 * @param rows from `readUsage`
 * @param kept keys of the rows of their own; default: the most expensive
 */
export function summarizeUsage(
  rows: readonly UsageRow[],
  { by, limit }: Pick<SummaryQuery, 'by' | 'limit'>,
  kept?: ReadonlySet<string>,
) {
  const lasting = by.filter((dimension) => !isTime(dimension));
  const places = kept ?? mostExpensive(rows, lasting, limit);
  const groups = Map.groupBy(rows, (row) => keyOf(row, by, places.has(keyOf(row, lasting))));
  const entries = [...groups.values()].map((group): UsageEntry => {
    const [first] = group as [UsageRow, ...UsageRow[]];
    const is_own = places.has(keyOf(first, lasting));
    const names = by.map((name) => [name, is_own || isTime(name) ? (first[name] ?? null) : null]);
    const others = is_own ? 0 : new Set(group.map((row) => keyOf(row, lasting))).size;
    return { of: Object.fromEntries(names), others, sums: sumOf(group) };
  });
  return {
    total: sumOf(rows),
    /** The most expensive first, or the oldest with a time among the dimensions; the sum of others comes last. */
    entries: entries.sort(inOrder(by)),
    /** Keys of the rows of their own, for another summary of the same. */
    kept: places,
  };
}

/** Usage with its total, limited to a number of rows. */
export type UsageSummary = ReturnType<typeof summarizeUsage>;

/** Key of a row; rows that are added up as others differ by their times only. */
function keyOf(row: UsageRow, by: readonly UsageDimension[], is_own = true): string {
  return JSON.stringify([is_own, ...by.map((name) => (is_own || isTime(name) ? row[name] : null))]);
}

function mostExpensive(rows: readonly UsageRow[], by: readonly UsageDimension[], limit: number): ReadonlySet<string> {
  const groups = [...Map.groupBy(rows, (row) => keyOf(row, by))].map(([key, group]) => ({ key, sums: sumOf(group) }));
  // Independent of the collation of the database.
  const ranked = groups.sort((a, b) => byCost(a.sums, b.sums) || (a.key < b.key ? -1 : 1));
  return new Set(ranked.slice(0, limit).map(({ key }) => key));
}

function byCost(a: UsageSums, b: UsageSums): number {
  return a.cost_nano_usd === b.cost_nano_usd ? 0 : a.cost_nano_usd > b.cost_nano_usd ? -1 : 1;
}

function inOrder(by: readonly UsageDimension[]) {
  const times = by.filter(isTime);
  const compare = (dimensions: readonly UsageDimension[], a: UsageEntry, b: UsageEntry) => {
    const [x, y] = [a, b].map(({ of }) => JSON.stringify(dimensions.map((name) => of[name]))) as [string, string];
    return x === y ? 0 : x < y ? -1 : 1;
  };
  return (a: UsageEntry, b: UsageEntry) =>
    compare(times, a, b) || Math.sign(a.others) - Math.sign(b.others) || byCost(a.sums, b.sums) || compare(by, a, b);
}

function sumOf(rows: readonly UsageRow[]): UsageSums {
  const amount = (name: (typeof AMOUNTS)[number], some = rows) => some.reduce((sum, row) => sum + row[name], 0n);
  const counts = COUNTS.map((name) => [name, rows.reduce((sum, row) => sum + row[name], 0)]);
  const estimated = rows.filter((row) => row.estimated !== 'no');
  return {
    ...Object.fromEntries([...counts, ...AMOUNTS.map((name) => [name, amount(name)])]),
    estimated_nano_usd: amount('cost_nano_usd', estimated),
  };
}

/** Share of input tokens read from the prompt cache, 0 to 1; `null` without input. */
export function cacheHitRatio(sums: Omit<UsageRow, UsageDimension>): number | null {
  const { input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens } = sums;
  const all = input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens;
  return all === 0 ? null : cache_read_tokens / all;
}

/** A row of usage for JSON; adjustments and possible charges only where there are any. */
export function usageJson(sums_of_row: UsageRow) {
  const { cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd, ...row } = sums_of_row;
  return {
    ...row,
    cost_usd: nanoToUsd(cost_nano_usd),
    ...(adjusted_nano_usd !== 0n && { adjusted_usd: nanoToUsd(adjusted_nano_usd) }),
    ...(possibly_billed_nano_usd !== 0n && { possibly_billed_usd: nanoToUsd(possibly_billed_nano_usd) }),
    ...(possible_nano_usd !== 0n && { possibly_billed_in_cost_usd: nanoToUsd(possible_nano_usd) }),
  };
}

const POSSIBLE = ['possibly_billed_usd', 'possibly_billed_in_cost_usd'];

/** A CSV file with a line per row and exact numbers; a missing dimension is empty. */
export function usageCsv(rows: readonly UsageRow[], by: readonly UsageDimension[] = DEFAULT_DIMENSIONS): string {
  const cells = rows.map((row): CsvCell[] => [
    ...by.map((dimension) => ({ text: row[dimension] ?? '' })),
    ...COUNTS.map((count) => ({ number: String(row[count]) })),
    { number: formatUsd(row.cost_nano_usd) },
    { number: formatUsd(row.adjusted_nano_usd) },
    { number: formatUsd(row.possibly_billed_nano_usd) },
    { number: formatUsd(row.possible_nano_usd) },
  ]);
  return formatCsv([...by, ...COUNTS, 'cost_usd', 'adjusted_usd', ...POSSIBLE], cells);
}

/**
 * The bounds of a period; a date (YYYY-MM-DD) is midnight in the time zone. The previous period has the same length in local time:
 * both bounds move back by the least number of whole days so that the two do not overlap, and the future counts for neither. So
 * today until two is compared with yesterday until two. Raises store_unavailable.
 */
export async function usagePeriod(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now' | 'frozen'> },
  { since, until }: { readonly since?: Date | string | undefined; readonly until?: Date | string | undefined },
  time_zone: string,
) {
  const ends = [since, until].flatMap((end) => [
    end instanceof Date ? end : null,
    typeof end === 'string' ? end : null,
  ]);
  const [row] = await database.query<{
    readonly since: Date | null;
    readonly until: Date | null;
    readonly now: Date;
    readonly since_before: Date | null;
    readonly until_before: Date | null;
  }>(
    'usage_period',
    `with asked as (
       select coalesce($3::timestamptz, first_of($4::timestamp at time zone $2, $2)) as since,
         coalesce($5::timestamptz, first_of($6::timestamp at time zone $2, $2)) as until,
         coalesce($1::timestamptz, now()) as now
     ), wall as (
       select *, since at time zone $2 as first, least(until, now) at time zone $2 as last from asked
     ), back as (
       select *, greatest(ceil(extract(epoch from last - first) / 86400), 1) * interval '1 day' as days from wall
     )
     select since, until, now, first_of((first - days) at time zone $2, $2) as since_before,
       first_of((last - days) at time zone $2, $2) as until_before from back`,
    [databaseTime(clock), time_zone, ...ends],
  );
  const { now, since_before, until_before, ...period } = row!;
  const previous = since_before === null ? null : { since: since_before, until: until_before! };
  return { since: period.since, until: period.until ?? now, previous };
}
