import type { Window } from '../../contract/config.ts';
import type { CounterStatus } from '../../contract/services.ts';
import { LAST_WARNING_PERCENT, percentOf, WARNING_PERCENT } from './limit-headers.ts';
import { windowAdjective } from './spend-limits.ts';

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
  /** Whether it is the one that `extra_usage` is about. */
  readonly is_active: boolean;
  readonly scope: string;
  readonly rule: string;
}

/** What a caller has spent and may spend; the body of `GET /api/oauth/usage`. Amounts are in cents, with decimals. */
export interface UsageReport {
  /** About the active limit, whichever window it has; without any limit about the month. */
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

/** @param statuses counters in money; those of the user's own day, week and month must be among them. */
export function usageReport(statuses: readonly CounterStatus[]): UsageReport {
  const nearest = nearestLimit(statuses);
  const { limit, used_credits, utilization } = windowUsage(nearest ?? ownStatus('month', statuses));
  return {
    extra_usage: {
      is_enabled: true,
      monthly_limit: limit,
      used_credits,
      utilization,
      currency: 'USD',
      daily: windowUsage(ownStatus('day', statuses)),
      weekly: windowUsage(ownStatus('week', statuses)),
    },
    limits: statuses.flatMap((limit_status) => limitUsage(limit_status, limit_status === nearest)),
  };
}

/** The limit that is used up the furthest; of those with nothing left the one that resets last. */
function nearestLimit(statuses: readonly CounterStatus[]): CounterStatus | undefined {
  const share = ({ limit, spent }: CounterStatus) => (limit! > 0 ? Math.min(1, spent / limit!) : 1);
  const limited = statuses.filter(({ limit }) => limit !== null);
  const [nearest] = limited.toSorted(
    (a, b) => share(b) - share(a) || (share(a) === 1 ? b.resets_at! - a.resets_at! : 0) || a.limit! - b.limit!,
  );
  return nearest;
}

function ownStatus(window: Window, statuses: readonly CounterStatus[]): CounterStatus {
  const own = statuses.filter((each) => each.scope === 'user' && each.window === window);
  const [least] = own.toSorted((a, b) => (a.limit ?? Number.MAX_VALUE) - (b.limit ?? Number.MAX_VALUE));
  if (least === undefined) throw new Error(`nobody asked for the status of the user's ${window}`);
  return least;
}

function windowUsage(limit_status: CounterStatus): WindowUsage {
  const { limit, spent } = limit_status;
  return {
    limit: limit === null ? null : limit / NANO_USD_PER_CENT,
    used_credits: spent / NANO_USD_PER_CENT,
    utilization: percentUsed(limit_status),
    resets_at: isoTime(limit_status),
  };
}

function limitUsage(limit_status: CounterStatus, is_active: boolean): LimitUsage[] {
  const percent = percentUsed(limit_status);
  if (percent === null) return [];
  const { window, scope, rule } = limit_status;
  const severity = percent >= LAST_WARNING_PERCENT ? 'critical' : percent >= WARNING_PERCENT ? 'warning' : 'normal';
  const group = windowAdjective(window as Window);
  return [{ kind: 'spend', group, percent, resets_at: isoTime(limit_status), severity, is_active, scope, rule }];
}

/** Whole percent from 0 to 100; `null` without a limit. */
function percentUsed({ limit, spent }: CounterStatus): number | null {
  return limit === null ? null : Math.min(100, percentOf(limit, spent));
}

function isoTime({ resets_at }: CounterStatus): string {
  return new Date(resets_at!).toISOString();
}
