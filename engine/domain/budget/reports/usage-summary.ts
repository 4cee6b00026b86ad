import type { Clock } from '../../../base/contract/services.ts';
import { formatUsd, nanoToUsd } from '../../../base/kit/money.ts';
import { type CsvCell, formatCsv } from '../../../base/kit/text/csv.ts';
import type { Database } from '../../../base/store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import {
  AMOUNTS,
  COUNTS,
  DEFAULT_DIMENSIONS,
  isTime,
  reportUsage,
  type UsageBounds,
  type UsageDimension,
  type UsageFilter,
  type UsageRow,
} from './usage.ts';

/** Sums of requests, tokens and money. */
export interface UsageSums extends Omit<UsageRow, UsageDimension> {
  /** Cost of requests with estimated or clamped usage. */
  readonly estimated_nano_usd: bigint;
}

/** Values by dimension; `null` for requests without one. */
type UsageNames = Readonly<Partial<Record<UsageDimension, string | null>>>;

/** A row of a usage report. */
interface UsageEntry {
  readonly of: UsageNames;
  /** Number of further rows that are summed up here; 0 for a row of its own. */
  readonly others: number;
  readonly sums: UsageSums;
}

/** Usage with its total, limited to a number of rows. */
export interface UsageSummary {
  readonly total: UsageSums;
  /** The most expensive first, or the oldest with a time among the dimensions; the sum of others comes last. */
  readonly entries: readonly UsageEntry[];
  /** Keys of the rows of their own, for another summary of the same. */
  readonly kept: ReadonlySet<string>;
}

/** Options of a summary. */
interface UsageAsked {
  readonly filter: UsageFilter;
  readonly by: readonly UsageDimension[];
  readonly time_zone: string;
  /** Most rows of their own, per time if there is one among the dimensions. */
  readonly limit: number;
}

/** Reads the usage for a summary, also split by `estimated`. Errors are those of the report. */
export function readUsage(
  database: Pick<Database, 'knex'>,
  { filter, by, time_zone }: Omit<UsageAsked, 'limit'>,
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
  { by, limit }: Pick<UsageAsked, 'by' | 'limit'>,
  kept?: ReadonlySet<string>,
): UsageSummary {
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
  return { total: sumOf(rows), entries: entries.sort(inOrder(by)), kept: places };
}

/** Key of a row; rows without a place of their own are told apart by their times only. */
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
export function usageJson(given: UsageRow) {
  const { cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd, ...row } = given;
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

/** A period of usage, and the previous one for comparison. */
interface UsagePeriod {
  /** `null`: from the beginning. */
  readonly since: Date | null;
  /** Exclusive; default: now. */
  readonly until: Date;
  /** `null` for a period without a beginning. */
  readonly previous: { readonly since: Date; readonly until: Date } | null;
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
): Promise<UsagePeriod> {
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
