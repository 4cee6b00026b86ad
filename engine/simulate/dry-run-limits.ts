import type { LimitUnit } from '../contract/services.ts';
import { nanoToUsd } from '../kit/money.ts';
import type { DemandStatus } from './memory/memory-ledger.ts';

/** A limit as the request would find it; amounts in the unit. */
export interface LimitStep {
  readonly rule: string;
  readonly scope: string;
  readonly key: string;
  readonly window: string;
  readonly unit: 'usd' | 'requests' | 'tokens';
  readonly limit: number;
  readonly spent: number;
  readonly reserved: number;
  readonly needed: number;
  readonly room: boolean;
}

/** A limit with the amounts of its counter, for people: money in USD. */
function limitStep(
  demand: Pick<LimitStep, 'rule' | 'scope' | 'key' | 'window' | 'room'> & { readonly unit: LimitUnit },
  amounts: Pick<LimitStep, 'limit' | 'spent' | 'reserved' | 'needed'>,
): LimitStep {
  const { rule, scope, key, window, unit, room } = demand;
  const shown = (amount: number) => (unit === 'nano_usd' ? nanoToUsd(amount) : amount);
  return {
    rule,
    scope,
    key,
    window,
    unit: unit === 'nano_usd' ? 'usd' : unit,
    limit: shown(amounts.limit),
    spent: shown(amounts.spent),
    reserved: shown(amounts.reserved),
    needed: shown(amounts.needed),
    room,
  };
}

/** The limits among what a request is counted under. */
export function limitSteps(statuses: readonly DemandStatus[]): LimitStep[] {
  return statuses.flatMap((limit_status) => {
    const { in_force: limit } = limit_status;
    // Counted, not limited.
    return limit === null ? [] : limitStep(limit_status, { ...limit_status, limit });
  });
}
