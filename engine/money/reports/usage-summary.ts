import type { Database } from '../../store/database.ts';
import {
  isTime,
  reportUsage,
  type UsageBounds,
  type UsageDimension,
  type UsageFilter,
  type UsageRow,
} from './usage.ts';

/** Requests, tokens and money of usage, without what they are grouped by. */
export interface UsageSums extends Omit<UsageRow, UsageDimension> {
  /** How much of the cost is of requests whose usage the upstream did not say, or said to be more than is possible. */
  readonly estimated_nano_usd: bigint;
}

/** The values of some dimensions; `null` for requests that have none. */
export type UsageNames = Readonly<Partial<Record<UsageDimension, string | null>>>;

/** Some usage that is alike. */
export interface UsageEntry {
  readonly of: UsageNames;
  /** How many entries are summed up here because there was no room for them; 0 for one of its own. */
  readonly others: number;
  readonly sums: UsageSums;
}

/** Usage with its total, and with no more entries than there is room for. */
export interface UsageSummary {
  readonly total: UsageSums;
  /** The most expensive first or, with a time among the dimensions, the oldest; what is summed up comes last. */
  readonly entries: readonly UsageEntry[];
  /** Which entries have a place of their own, for another summary of the same. */
  readonly kept: ReadonlySet<string>;
}

/** How usage is summed up. */
export interface UsageAsked {
  readonly filter: UsageFilter;
  readonly by: readonly UsageDimension[];
  readonly time_zone: string;
  /** How many entries have a place of their own, at each time where there is one among the dimensions. */
  readonly limit: number;
}

/** What a summary is made of: the report, split by whether it is estimated as well. Errors are those of the report. */
export function readUsage(
  database: Pick<Database, 'knex'>,
  { filter, by, time_zone }: Omit<UsageAsked, 'limit'>,
  bounds?: UsageBounds,
): Promise<UsageRow[]> {
  const split = by.includes('estimated') ? by : ([...by, 'estimated'] as const);
  return reportUsage(database, filter, { by: split, time_zone }, bounds);
}

/**
 * Usage with its total: beyond `limit` the cheapest entries are summed up as one, so that the total is always that of all
 * entries.
 * @param rows what `readUsage` found
 * @param kept which entries have a place of their own; by default the most expensive ones
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

/** Usage by some dimensions as one text; without a place of its own only its times tell it apart. */
function keyOf(row: UsageRow, by: readonly UsageDimension[], is_own = true): string {
  return JSON.stringify([is_own, ...by.map((name) => (is_own || isTime(name) ? row[name] : null))]);
}

function mostExpensive(rows: readonly UsageRow[], by: readonly UsageDimension[], limit: number): ReadonlySet<string> {
  const groups = [...Map.groupBy(rows, (row) => keyOf(row, by))].map(([key, group]) => ({ key, sums: sumOf(group) }));
  // Whatever the database takes for the order of texts, the same entries have a place each time.
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

const COUNTS = [
  'requests',
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
] as const;
const AMOUNTS = ['cost_nano_usd', 'adjusted_nano_usd', 'possibly_billed_nano_usd', 'possible_nano_usd'] as const;

function sumOf(rows: readonly UsageRow[]): UsageSums {
  const amount = (name: (typeof AMOUNTS)[number], some = rows) => some.reduce((sum, row) => sum + row[name], 0n);
  const counts = COUNTS.map((name) => [name, rows.reduce((sum, row) => sum + row[name], 0)]);
  const estimated = rows.filter((row) => row.estimated !== 'no');
  return {
    ...Object.fromEntries([...counts, ...AMOUNTS.map((name) => [name, amount(name)])]),
    estimated_nano_usd: amount('cost_nano_usd', estimated),
  };
}

/** Of the tokens that went in, how many were read from the cache of prompts: 0 to 1; `null` where none went in. */
export function cacheHitRatio(sums: Omit<UsageRow, UsageDimension>): number | null {
  const { input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens } = sums;
  const all = input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens;
  return all === 0 ? null : cache_read_tokens / all;
}
