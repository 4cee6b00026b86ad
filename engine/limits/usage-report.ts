import type { Window } from '../config.ts';
import { windowAdjective } from '../rules/spend-limits.ts';
import type { Standing } from '../stage-services.ts';
import { percentOf } from './limit-headers.ts';

/** What somebody has spent in a window of its own. Amounts are in cents, with decimals; `null` where nothing limits it. */
interface WindowUsage {
  readonly limit: number | null;
  readonly used_credits: number;
  /** Percent. */
  readonly utilization: number | null;
  readonly resets_at: string;
}

/** A limit in money that somebody comes under, alone or with others. */
interface LimitUsage {
  readonly kind: 'spend';
  readonly group: string;
  readonly percent: number;
  readonly resets_at: string;
  readonly severity: 'normal' | 'warning' | 'critical';
  readonly is_active: true;
  readonly scope: string;
  readonly rule: string;
}

/** What a caller has spent and may spend; the body of `GET /api/oauth/usage`. Amounts are in cents, with decimals. */
export interface UsageReport {
  readonly extra_usage: {
    readonly is_enabled: true;
    readonly monthly_limit: number | null;
    readonly used_credits: number;
    readonly utilization: number | null;
    readonly currency: 'USD';
    readonly daily: WindowUsage;
    readonly weekly: WindowUsage;
  };
  readonly limits: readonly LimitUsage[];
}

const NANO_USD_PER_CENT = 1e7;
const WARNING_PERCENT = 75;
const CRITICAL_PERCENT = 95;

/** @param standings counters in money; those of the user's own day, week and month must be among them. */
export function usageReport(standings: readonly Standing[]): UsageReport {
  const { limit, ...month } = usageIn('month', standings);
  return {
    extra_usage: {
      is_enabled: true,
      monthly_limit: limit,
      used_credits: month.used_credits,
      utilization: month.utilization,
      currency: 'USD',
      daily: usageIn('day', standings),
      weekly: usageIn('week', standings),
    },
    limits: standings.flatMap(describeLimit),
  };
}

function usageIn(window: Window, standings: readonly Standing[]): WindowUsage {
  const own = standings.filter((each) => each.scope === 'user' && each.window === window);
  const [least] = own.toSorted((a, b) => (a.limit ?? Number.MAX_VALUE) - (b.limit ?? Number.MAX_VALUE));
  if (least === undefined) throw new Error(`nobody asked how the ${window} of the user stands`);
  return {
    limit: least.limit === null ? null : least.limit / NANO_USD_PER_CENT,
    used_credits: least.spent / NANO_USD_PER_CENT,
    utilization: percentUsed(least),
    resets_at: isoTime(least),
  };
}

function describeLimit(standing: Standing): LimitUsage[] {
  const percent = percentUsed(standing);
  if (percent === null) return [];
  const { window, scope, rule } = standing;
  const severity = percent >= CRITICAL_PERCENT ? 'critical' : percent >= WARNING_PERCENT ? 'warning' : 'normal';
  const group = windowAdjective(window as Window);
  return [{ kind: 'spend', group, percent, resets_at: isoTime(standing), severity, is_active: true, scope, rule }];
}

/** Whole percent from 0 to 100; `null` without a limit. */
function percentUsed({ limit, spent }: Standing): number | null {
  return limit === null ? null : Math.min(100, percentOf(limit, spent));
}

function isoTime({ resets_at }: Standing): string {
  return new Date(resets_at!).toISOString();
}
