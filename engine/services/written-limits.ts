import type { GatewayConfig, RuleMode } from '../config.ts';
import { spendLimits } from '../rules/spend-limits.ts';
import type { LimitWindow } from '../stage-services.ts';
import { type AmountUnit, amountUnit, shownAmount } from './limit-names.ts';

/** A limit as gateway.yaml writes it. Amounts are in `unit`: USD, requests or tokens. */
export interface WrittenLimit {
  /** Name of the rule, or such as `defaults.user_daily_usd`. */
  readonly rule: string;
  /** One scope, or several joined by `+`. */
  readonly scope: string;
  readonly window: LimitWindow;
  readonly unit: AmountUnit;
  /** `null` when it limits members of some groups only. */
  readonly limit: number | null;
  readonly by_group: Readonly<Record<string, number>> | null;
  readonly mode: RuleMode;
  /** Whether it holds for every request, that is, has no condition. */
  readonly always: boolean;
}

/** The limits of a configuration as they are written, in file order. */
export function writtenLimits(config: GatewayConfig): WrittenLimit[] {
  return spendLimits(config).map(({ name, scope, window, unit, limit, by_group, mode, logic }) => ({
    rule: name,
    scope,
    window,
    unit: amountUnit(unit),
    limit: limit === undefined ? null : shownAmount(unit, limit),
    by_group:
      by_group === undefined
        ? null
        : Object.fromEntries(Object.entries(by_group).map(([group, most]) => [group, shownAmount(unit, most)])),
    mode,
    always: logic === true,
  }));
}
