import type { LimitStatus } from '../../../base/contract/money.ts';
import { nanoToUsd } from '../../../base/kit/money.ts';
import type { Metrics, Reading } from '../metric-registry.ts';

export function usedRatio({ limit, spent, reserved }: LimitStatus): number {
  return limit > 0 ? (spent + reserved) / limit : 1;
}

export function remainingUsd({ limit, spent, reserved }: LimitStatus): number {
  return nanoToUsd(Math.max(0, limit - spent - reserved));
}

export function tightestOf(limits: readonly LimitStatus[]): LimitStatus | undefined {
  let tightest: LimitStatus | undefined;
  for (const limit of limits) {
    if (tightest === undefined || usedRatio(limit) > usedRatio(tightest)) tightest = limit;
  }
  return tightest;
}

type BudgetMetric = 'gateway.budget.used_ratio' | 'gateway.budget.remaining' | 'gateway.budget.resets_in';

interface Settled {
  readonly reserved: number;
  readonly cost: number;
}

interface EndedUse extends Settled {
  /** Including the reservation of the request. */
  readonly limits: readonly LimitStatus[];
  /** Time of `limits`; both times on the monotonic clock. */
  readonly limits_at: number;
  readonly ended_at: number;
}

interface Tracked {
  limit: LimitStatus;
  limits_at: number;
  /** Recently ended requests, oldest first. */
  readonly ended: (Settled & { readonly ended_at: number })[];
}

const ENDED_MAX = 200;

/** The key with the highest share for each rule and window: a rule by user has one series, of this process. */
export class Budgets {
  readonly #tracked = new Map<string, Tracked>();
  readonly #now: () => number;

  constructor(metrics: Pick<Metrics, 'observe'>, now: () => number) {
    this.#now = now;
    const observe = (name: BudgetMetric, read: (limit: LimitStatus) => number) =>
      metrics.observe(name, () => this.#read(read));
    observe('gateway.budget.used_ratio', usedRatio);
    observe('gateway.budget.remaining', remainingUsd);
    observe('gateway.budget.resets_in', ({ resets_at }) => Math.max(0, ((resets_at ?? 0) - this.#now()) / 1000));
  }

  clear(): void {
    this.#tracked.clear();
  }

  /** Records the limits of an ended request, with its cost in place of its reservation. */
  note(use: EndedUse): void {
    for (const limit of use.limits) {
      const key = `${limit.window} ${limit.rule}`;
      const tracked = this.#tracked.get(key);
      if (tracked !== undefined && isOfSame(limit, tracked.limit)) {
        follow(tracked, limit, use);
        continue;
      }
      const left = settle(limit, use);
      if (tracked !== undefined && !isAhead(left, tracked.limit)) continue;
      this.#tracked.set(key, { limit: left, limits_at: use.limits_at, ended: [endOf(use)] });
    }
  }

  *#read(read: (limit: LimitStatus) => number): Generator<Reading<BudgetMetric>> {
    const now = this.#now();
    for (const [key, { limit }] of this.#tracked) {
      const { rule, window, resets_at } = limit;
      if (resets_at !== null && resets_at <= now) this.#tracked.delete(key);
      else yield { value: read(limit), labels: { 'gateway.rule': rule, 'gateway.budget.window': window } };
    }
  }
}

function isOfSame(limit: LimitStatus, known: LimitStatus): boolean {
  return limit.key === known.key && limit.scope === known.scope && limit.resets_at === known.resets_at;
}

function isAhead(limit: LimitStatus, known: LimitStatus): boolean {
  if (limit.resets_at !== known.resets_at) return (limit.resets_at ?? 0) > (known.resets_at ?? 0);
  return usedRatio(limit) > usedRatio(known);
}

/** Requests end out of order: the latest limits count, minus the reservations that ended since. */
function follow(tracked: Tracked, limit: LimitStatus, use: EndedUse): void {
  if (use.limits_at < tracked.limits_at) {
    tracked.limit = settle(tracked.limit, use);
  } else {
    let { reserved, cost } = use;
    for (let index = tracked.ended.length - 1; index >= 0; index--) {
      const ended = tracked.ended[index]!;
      if (ended.ended_at <= use.limits_at) break;
      reserved += ended.reserved;
      cost += ended.cost;
    }
    tracked.limit = settle(limit, { reserved, cost });
    tracked.limits_at = use.limits_at;
  }
  tracked.ended.push(endOf(use));
  if (tracked.ended.length > ENDED_MAX) tracked.ended.shift();
}

function settle(limit: LimitStatus, { reserved, cost }: Settled): LimitStatus {
  return { ...limit, spent: limit.spent + cost, reserved: Math.max(0, limit.reserved - reserved) };
}

function endOf({ reserved, cost, ended_at }: EndedUse): Tracked['ended'][number] {
  return { reserved, cost, ended_at };
}
