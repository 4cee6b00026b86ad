import { OperationError } from '../../base/contract/operation-error.ts';
import { nanoToUsd } from '../../base/kit/money.ts';
import { didYouMean } from '../../base/kit/text/suggest.ts';
import { asStoreError } from '../../base/store/store-errors.ts';
import {
  cacheHitRatio,
  DEFAULT_DIMENSIONS,
  readUsage,
  reportUsage,
  summarizeUsage,
  USAGE_DIMENSIONS,
  type UsageDimension,
  type UsageFilter,
  type UsageSummary,
  type UsageSums,
  usageCsv,
  usageJson,
  usagePeriod,
} from '../../domain/budget/reports/usage.ts';
import { type AdminOptions, type Caller, type OperationContext, ownerToList } from './calls.ts';
import { dateParameter, showName, timeZoneParameter } from './description.ts';
import type { Download } from './lists.ts';

const MOST_DIMENSIONS = 4;
const MAX_ENTRIES = 10_000;

/** Bounds for interactive reports; longer or larger ones are for the command line. */
const BOUNDS = { patience_ms: 30_000, most_rows: 200_000 } as const;

/** Parameters of a usage report. */
export type UsageQuery = { readonly [Key in keyof UsageFilter | 'by' | 'time_zone']?: string };

/** Usage reports, as in `appscli usage`: one's own, for administrators all. */
export function usageOperations({ config, database, clock }: AdminOptions) {
  const parseQuery = ({ by, time_zone, since, until, ...filter }: UsageQuery, caller: Caller) => {
    const zone = timeZoneParameter(time_zone, config);
    const period = { since: dateParameter('since', since), until: dateParameter('until', until) };
    const user = ownerToList(caller, filter.user);
    return { by: dimensionsIn(by), time_zone: zone, period, filter: { ...filter, user, ...period } };
  };
  return {
    async getUsage(
      { caller }: OperationContext,
      query: UsageQuery & { readonly compare?: 'previous'; readonly limit: number },
    ) {
      const { limit, compare, ...rest } = query;
      const { by = [], time_zone, period: requested, filter } = parseQuery(rest, caller);
      const period = await usagePeriod({ database, clock }, requested, time_zone);
      requireOrder(period.since, requested.until === undefined ? undefined : period.until);
      if (compare !== undefined && period.previous === null) {
        throw new OperationError('the parameter "since" is missing: a comparison needs it');
      }
      const before = compare === undefined ? null : period.previous;
      const read = (ends: UsageFilter) =>
        readUsage(database, { filter: { ...filter, ...ends }, by, time_zone }, BOUNDS);
      const [now, then] = await ofStore(Promise.all([read({}), before === null ? [] : read(before)]));
      const summary = summarizeUsage(now, { by, limit });
      return {
        since: period.since,
        until: period.until,
        time_zone,
        by,
        ...shown(summary),
        previous: before && { ...before, ...shown(summarizeUsage(then, { by, limit }, summary.kept)) },
      };
    },

    async exportUsage({ caller }: OperationContext, query: UsageQuery): Promise<Download> {
      const { by = DEFAULT_DIMENSIONS, time_zone, period, filter } = parseQuery(query, caller);
      const { since, until } = await usagePeriod({ database, clock }, period, time_zone);
      requireOrder(since, period.until === undefined ? undefined : until);
      const rows = await ofStore(reportUsage(database, filter, { by, time_zone }, BOUNDS));
      return { file_name: 'usage.csv', chunks: [usageCsv(rows, by)] };
    },
  };
}

function requireOrder(since: Date | null, until: Date | undefined): void {
  if (since === null || until === undefined || since < until) return;
  throw new OperationError('the parameter "since" must be before "until", which is exclusive');
}

function dimensionsIn(text: string | undefined): UsageDimension[] | undefined {
  if (text === undefined) return undefined;
  const names = text.split(',').map((name) => name.trim());
  const known = names.map((name) => {
    const found = USAGE_DIMENSIONS.find((dimension) => dimension === name);
    if (found !== undefined) return found;
    const there_are = `expected one to four of ${USAGE_DIMENSIONS.join(', ')}`;
    throw new OperationError(
      `the parameter "by" has an unknown dimension ${showName(name)}: ${didYouMean(name, USAGE_DIMENSIONS, there_are)}`,
    );
  });
  if (known.length <= MOST_DIMENSIONS && new Set(known).size === known.length) return known;
  throw new OperationError(
    'the parameter "by" is wrong: expected one to four different dimensions, such as month,team',
  );
}

function shown({ total, entries }: UsageSummary) {
  if (entries.length > MAX_ENTRIES) {
    const fewer = 'use a shorter period, days instead of hours, or a smaller "limit"';
    throw new OperationError(`the report has ${entries.length} rows, more than ${MAX_ENTRIES}: ${fewer}`);
  }
  return {
    total: showSums(total),
    rows: entries.map(({ of, others, sums }) => ({ of, others, sums: showSums(sums) })),
  };
}

/** Sums in the API: USD as numbers. */
export function showSums({ estimated_nano_usd, ...sums }: UsageSums) {
  return {
    ...usageJson(sums),
    estimated_usd: nanoToUsd(estimated_nano_usd),
    cache_hit_ratio: cacheHitRatio(sums),
  };
}

const QUERY_CANCELED = '57014';

/** Awaits a report; converts a timeout to OperationError, and other database errors to errors of the store. */
export async function ofStore<T>(report: Promise<T>): Promise<T> {
  try {
    return await report;
  } catch (error) {
    if ((error as { readonly code?: unknown } | null)?.code === QUERY_CANCELED) {
      const fewer = 'use a shorter period or days instead of hours, or run "appscli usage" on the gateway host';
      throw new OperationError(`the report took longer than 30 seconds: ${fewer}`);
    }
    throw asStoreError(error);
  }
}
