import { OperationError } from '../../base/contract/operation-error.ts';
import { nanoToUsd } from '../../base/kit/money.ts';
import { didYouMean } from '../../base/kit/text/suggest.ts';
import { asStoreError } from '../../base/store/store-errors.ts';
import {
  DEFAULT_DIMENSIONS,
  reportUsage,
  USAGE_DIMENSIONS,
  type UsageDimension,
  type UsageFilter,
} from '../../domain/budget/reports/usage.ts';
import {
  cacheHitRatio,
  readUsage,
  summarizeUsage,
  type UsageSummary,
  type UsageSums,
  usageCsv,
  usageJson,
  usagePeriod,
} from '../../domain/budget/reports/usage-summary.ts';
import {
  type AdminOptions,
  type Asked,
  type Caller,
  type Download,
  endAsked,
  ownerToList,
  zoneAsked,
} from './calls.ts';
import { showName } from './description.ts';

const MOST_DIMENSIONS = 4;
/** More than anybody looks at, and not more than a browser holds. */
const MAX_ENTRIES = 10_000;

/** Nobody waits longer for a page, and few reports run at once. What is longer or larger is for the command line. */
const BOUNDS = { patience_ms: 30_000, most_rows: 200_000 } as const;

/** Which usage is asked for, as parameters say it. */
export interface UsageWish extends Readonly<Partial<Record<Exclude<keyof UsageFilter, 'since' | 'until'>, string>>> {
  readonly since?: string;
  readonly until?: string;
  readonly by?: string;
  readonly time_zone?: string;
}

/** Requests, tokens and cost: one's own, for administrators everybody's. The report is that of `appscli usage`. */
export function usageOperations({ config, database, clock }: AdminOptions) {
  const meant = ({ by, time_zone, since, until, ...filter }: UsageWish, caller: Caller) => {
    const zone = zoneAsked(time_zone, config);
    const period = { since: endAsked('since', since), until: endAsked('until', until) };
    const user = ownerToList(caller, filter.user);
    return { by: dimensionsIn(by), time_zone: zone, period, filter: { ...filter, user, ...period } };
  };
  return {
    async getUsage({ caller }: Asked, wish: UsageWish & { readonly compare?: 'previous'; readonly limit: number }) {
      const { limit, compare, ...rest } = wish;
      const { by = [], time_zone, period: said, filter } = meant(rest, caller);
      const period = await usagePeriod({ database, clock }, said, time_zone);
      demandOrder(period.since, said.until === undefined ? undefined : period.until);
      if (compare !== undefined && period.previous === null) {
        throw new OperationError('the parameter "since" is missing: without it nothing was before');
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

    async exportUsage({ caller }: Asked, wish: UsageWish): Promise<Download> {
      const { by = DEFAULT_DIMENSIONS, time_zone, period, filter } = meant(wish, caller);
      const { since, until } = await usagePeriod({ database, clock }, period, time_zone);
      demandOrder(since, period.until === undefined ? undefined : until);
      const rows = await ofStore(reportUsage(database, filter, { by, time_zone }, BOUNDS));
      return { file_name: 'usage.csv', chunks: [usageCsv(rows, by)] };
    },
  };
}

function demandOrder(since: Date | null, until: Date | undefined): void {
  if (since === null || until === undefined || since < until) return;
  throw new OperationError('the parameter "since" must be before "until", which is not included');
}

function dimensionsIn(text: string | undefined): UsageDimension[] | undefined {
  if (text === undefined) return undefined;
  const names = text.split(',').map((name) => name.trim());
  const known = names.map((name) => {
    const found = USAGE_DIMENSIONS.find((dimension) => dimension === name);
    if (found !== undefined) return found;
    const there_are = `expected one to four of ${USAGE_DIMENSIONS.join(', ')}`;
    throw new OperationError(
      `the parameter "by" has ${showName(name)}: ${didYouMean(name, USAGE_DIMENSIONS, there_are)}`,
    );
  });
  if (known.length <= MOST_DIMENSIONS && new Set(known).size === known.length) return known;
  throw new OperationError('the parameter "by" is wrong: expected one to four different words, such as month,team');
}

function shown({ total, entries }: UsageSummary) {
  if (entries.length > MAX_ENTRIES) {
    const fewer = 'ask for a shorter time, for days instead of hours, or for a smaller "limit"';
    throw new OperationError(`that is ${entries.length} rows, more than ${MAX_ENTRIES}: ${fewer}`);
  }
  return {
    total: showSums(total),
    rows: entries.map(({ of, others, sums }) => ({ of, others, sums: showSums(sums) })),
  };
}

/** Sums as the API tells them: USD as numbers. */
export function showSums({ estimated_nano_usd, ...sums }: UsageSums) {
  return {
    ...usageJson(sums),
    estimated_usd: nanoToUsd(estimated_nano_usd),
    cache_hit_ratio: cacheHitRatio(sums),
  };
}

/** The SQLSTATE of a statement that ran out of time. */
const TOOK_TOO_LONG = '57014';

/** What a report finds; its trouble with the database as the trouble of the store. */
export async function ofStore<T>(report: Promise<T>): Promise<T> {
  try {
    return await report;
  } catch (error) {
    if ((error as { readonly code?: unknown } | null)?.code === TOOK_TOO_LONG) {
      const fewer =
        'ask for a shorter time or for days instead of hours, or use "appscli usage" on the machine of the gateway';
      throw new OperationError(`this report takes longer than half a minute: ${fewer}`);
    }
    throw asStoreError(error);
  }
}
