import { OperationError } from '../../../base/contract/operation-error.ts';
import type { AuditRecord } from '../../../base/contract/services.ts';
import { REPORT_TIMES, type ReportTime, WINDOWS } from '../../../base/contract/windows.ts';
import type { Database } from '../../../base/store/database.ts';
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

/** Dimensions with a filter. */
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
  /** Forwarded before; a date is midnight as well. */
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

/** All summed columns. */
export const SUMMED = ['lines', ...COUNTS, ...AMOUNTS] as const;

/**
 * A part of a period: a UTC day or hour whose sums count (or are subtracted, for an hour of a day that counts but belongs to
 * another), or an hour cut by the beginning of a period or local day, which is read from the ledger.
 */
interface Cell {
  readonly span: 'day' | 'hour' | 'cut';
  /** ISO 8601. */
  readonly start: string;
  readonly sign: 1 | -1;
  /** Its names for each time dimension of the report, such as 2026-03 and 2026-03-10. */
  readonly times: readonly string[];
  /** Last settlement of requests forwarded in a cut hour; `null` without any. */
  readonly settled_until: string | null;
}

type Cells = Readonly<Record<'days' | 'hours' | 'cuts', readonly Cell[]>>;

interface Asked {
  readonly filter: UsageFilter;
  readonly by: readonly UsageDimension[];
  readonly time_zone: string;
}

/**
 * Finds the sums that make up a period. Uses UTC days, which are few: a local day is the UTC day of its noon, minus hours of other
 * local days, plus its own hours of other UTC days.
 */
async function findCells(read: ReportRead, { filter, by, time_zone }: Asked): Promise<Cells> {
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

/** The statement that adds the sums of cells, the lines not summed yet, and the lines of cut hours. */
function usageStatement(asked: Asked, { days, hours, cuts }: Cells): SqlPart {
  const { by } = asked;
  const known = cuts.filter(({ settled_until }) => settled_until !== null);
  const sources = [
    linesSql(asked, 'l.hour', sql('usage_waiting l'), {
      text: 'l.hour <> all (cast(? as timestamptz[]))',
      values: [cuts.map(({ start }) => start)],
    }),
    ...(days.length > 0 ? [sumsSql(asked, 'usage_days', days)] : []),
    ...(hours.length > 0 ? [sumsSql(asked, 'usage_hours', hours)] : []),
  ];
  if (cuts.length > 0) {
    const text = `unnest(cast(? as timestamptz[]), cast(? as timestamptz[])) as c (start, settled_until)
      cross join lateral lines_of_hour(c.start, c.settled_until) as l`;
    const values = [known.map(({ start }) => start), known.map(({ settled_until }) => settled_until!)];
    sources.push(linesSql(asked, 'l.forwarded_at', { text, values }));
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
function sumsSql({ by, filter }: Asked, table: 'usage_days' | 'usage_hours', cells: readonly Cell[]): SqlPart {
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

/** The filter as conditions on numbers. */
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

/** Reads ledger lines. */
function linesSql({ by, filter, time_zone }: Asked, moment: string, from: SqlPart, ...also: SqlPart[]): SqlPart {
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
  /** Known cost, with adjustments. */
  readonly cost_nano_usd: bigint;
  /** Part of the cost that is adjustments. */
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
  /** Timeout of each statement. */
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
    const asked = { filter, by, time_zone };
    const cells = await findCells(read, asked);
    // PostgreSQL overestimates the groups: it would sort all sums on disk instead of hashing them, and avoid parallel workers,
    // which take half the time.
    await read(
      `select set_config('enable_sort', 'off', true), set_config('parallel_setup_cost', '0', true),
         set_config('parallel_tuple_cost', '0', true), set_config('max_parallel_workers_per_gather', '2', true)`,
      [],
    );
    const { text, values } = usageStatement(asked, cells);
    const rows = await (most_rows === undefined
      ? read<UsageRow>(text, values)
      : read<UsageRow>(`${text} limit ?`, [...values, most_rows + 1]));
    if (most_rows !== undefined && rows.length > most_rows) {
      throw new OperationError(
        `that is more than ${most_rows} rows to add up: ask for a shorter time, for days instead of hours, or by less`,
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
