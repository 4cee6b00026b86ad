import type { Window } from '../../contract/config.ts';
import type { CounterName, LimitStatus } from '../../contract/services.ts';
import { windowAdjective } from './spend-limits.ts';

type Headers = Readonly<Record<string, string>>;

/** The headers that tell callers how much of their limits is used, under the names of one profile. */
export interface LimitHeaders {
  /** What the names of all of them begin with, and those of the upstream's own. */
  readonly prefix: string;
  /** Of an answer: the limit that is used up the furthest; none without a limit. */
  onSuccess(statuses: readonly LimitStatus[]): Headers;
  /** Of a refusal because this limit in money has no room; no time of a reset where `resets_at` is `null`. */
  onRefusal(exceeded: LimitStatus): Headers;
  /** Of a refusal because limits cannot be read. */
  readonly unreadable: Headers;
}

/** From these shares of a limit on callers are warned, and warned for the last time. */
export const WARNING_PERCENT = 75;
export const LAST_WARNING_PERCENT = 95;
/** What is not refused is never said to be used up: clients stop at 1. */
const PERCENT_MAX = 99;

const NONE: Headers = {};

/** @param header_prefix of the profile, such as `vendor`. */
export function limitHeaders(header_prefix: string): LimitHeaders {
  const prefix = `${header_prefix}-ratelimit-`;
  const names = namesUnder(prefix);
  return {
    prefix,
    onSuccess(statuses) {
      const nearest = nearestLimit(statuses);
      if (nearest === undefined) return NONE;
      const percent = percentOf(nearest.limit, nearest.spent + nearest.reserved);
      const status = percent >= WARNING_PERCENT ? 'allowed_warning' : 'allowed';
      const reset = unixSeconds(nearest);
      const headers: Record<string, string> = {
        [names.status]: status,
        [names.claim]: 'overage',
        [names.overage_status]: status,
        [names.utilization]: (Math.min(percent, PERCENT_MAX) / 100).toFixed(2),
        [names.reset]: reset,
        [names.overage_reset]: reset,
      };
      if (percent >= WARNING_PERCENT) headers[names.threshold] = percent >= LAST_WARNING_PERCENT ? '0.95' : '0.75';
      return headers;
    },
    // Without the claim and the overage status: clients would show a text of their own instead of the refusal's.
    onRefusal(exceeded) {
      const reset = unixSeconds(exceeded);
      return {
        [names.status]: 'rejected',
        ...(exceeded.resets_at !== null && { [names.reset]: reset, [names.overage_reset]: reset }),
        [names.utilization]: '1',
        [names.threshold]: '1',
        [names.period]: windowAdjective(exceeded.window as Window),
        [names.disabled_reason]: 'org_spend_cap_reached',
        ...(!isOwn(exceeded) && { [names.scope]: 'group_pool' }),
      };
    },
    unreadable: { [names.disabled_reason]: 'fetch_error' },
  };
}

function namesUnder(prefix: string) {
  const unified = `${prefix}unified-`;
  return {
    status: `${unified}status`,
    claim: `${unified}representative-claim`,
    reset: `${unified}reset`,
    overage_status: `${unified}overage-status`,
    utilization: `${unified}overage-utilization`,
    threshold: `${unified}overage-surpassed-threshold`,
    overage_reset: `${unified}overage-reset`,
    period: `${unified}overage-period`,
    disabled_reason: `${unified}overage-disabled-reason`,
    scope: `${unified}overage-scope`,
  } as const;
}

/** Whether a counter counts one caller only, and not what others do as well. */
function isOwn({ scope }: Pick<CounterName, 'scope'>): boolean {
  return scope.split('+').some((each) => each === 'user' || each === 'token');
}

/** Whole percent of a limit, from 0; a limit of nothing is used up. */
export function percentOf(limit: number, amount: number): number {
  // Multiplied first: 57 / 100 is a little less than 57 percent.
  return limit > 0 ? Math.max(0, Math.floor((100 * amount) / limit)) : 100;
}

/** The share of a limit that is spent or reserved. */
function shareUsed({ limit, spent, reserved }: LimitStatus): number {
  return limit > 0 ? (spent + reserved) / limit : 1;
}

function nearestLimit(statuses: readonly LimitStatus[]): LimitStatus | undefined {
  let nearest = statuses[0];
  for (let i = 1; i < statuses.length; i++) {
    if (shareUsed(statuses[i]!) > shareUsed(nearest!)) nearest = statuses[i];
  }
  return nearest;
}

function unixSeconds({ resets_at }: LimitStatus): string {
  return String(Math.ceil((resets_at ?? 0) / 1000));
}
