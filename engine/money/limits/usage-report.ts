import type { Window } from '../../contract/config.ts';
import type { Standing } from '../../contract/services.ts';
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

/** @param standings counters in money; those of the user's own day, week and month must be among them. */
export function usageReport(standings: readonly Standing[]): UsageReport {
  const nearest = nearestLimit(standings);
  const { limit, used_credits, utilization } = windowUsage(nearest ?? ownStanding('month', standings));
  return {
    extra_usage: {
      is_enabled: true,
      monthly_limit: limit,
      used_credits,
      utilization,
      currency: 'USD',
      daily: windowUsage(ownStanding('day', standings)),
      weekly: windowUsage(ownStanding('week', standings)),
    },
    limits: standings.flatMap((standing) => limitUsage(standing, standing === nearest)),
  };
}

/** The limit that is used up the furthest; of those with nothing left the one that resets last. */
function nearestLimit(standings: readonly Standing[]): Standing | undefined {
  const share = ({ limit, spent }: Standing) => (limit! > 0 ? Math.min(1, spent / limit!) : 1);
  const limited = standings.filter(({ limit }) => limit !== null);
  const [nearest] = limited.toSorted(
    (a, b) => share(b) - share(a) || (share(a) === 1 ? b.resets_at! - a.resets_at! : 0) || a.limit! - b.limit!,
  );
  return nearest;
}

function ownStanding(window: Window, standings: readonly Standing[]): Standing {
  const own = standings.filter((each) => each.scope === 'user' && each.window === window);
  const [least] = own.toSorted((a, b) => (a.limit ?? Number.MAX_VALUE) - (b.limit ?? Number.MAX_VALUE));
  if (least === undefined) throw new Error(`nobody asked how the ${window} of the user stands`);
  return least;
}

function windowUsage(standing: Standing): WindowUsage {
  const { limit, spent } = standing;
  return {
    limit: limit === null ? null : limit / NANO_USD_PER_CENT,
    used_credits: spent / NANO_USD_PER_CENT,
    utilization: percentUsed(standing),
    resets_at: isoTime(standing),
  };
}

function limitUsage(standing: Standing, is_active: boolean): LimitUsage[] {
  const percent = percentUsed(standing);
  if (percent === null) return [];
  const { window, scope, rule } = standing;
  const severity = percent >= LAST_WARNING_PERCENT ? 'critical' : percent >= WARNING_PERCENT ? 'warning' : 'normal';
  const group = windowAdjective(window as Window);
  return [{ kind: 'spend', group, percent, resets_at: isoTime(standing), severity, is_active, scope, rule }];
}

/** Whole percent from 0 to 100; `null` without a limit. */
function percentUsed({ limit, spent }: Standing): number | null {
  return limit === null ? null : Math.min(100, percentOf(limit, spent));
}

function isoTime({ resets_at }: Standing): string {
  return new Date(resets_at!).toISOString();
}
