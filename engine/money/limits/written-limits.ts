import type { GatewayConfig, RuleMode } from '../../contract/config.ts';
import type { LimitWindow } from '../../contract/services.ts';
import { amountFor } from './limit-demands.ts';
import { type AmountUnit, amountUnit, shownAmount } from './limit-names.ts';
import { type SpendLimit, spendLimits } from './spend-limits.ts';

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
  /** Whether it is for every request, that is, has no condition. */
  readonly always: boolean;
}

/** The limits of a configuration as they are written, in file order. */
export function writtenLimits(config: Pick<GatewayConfig, 'spend_limits'>): WrittenLimit[] {
  return spendLimits(config).map(writtenLimit);
}

/** A limit as it is written. */
export function writtenLimit({ name, scope, window, unit, limit, by_group, mode, logic }: SpendLimit): WrittenLimit {
  return {
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
  };
}

/** A limit of gateway.yaml on one counter. */
export interface RuleInForce {
  /** Name of the rule, or such as `defaults.user_daily_usd`. */
  readonly rule: string;
  /** `null` where it depends on the groups of who asks. */
  readonly limit: number | null;
  readonly mode: RuleMode;
  /** Whether it is for every request that is counted; false for a rule with a condition, or when it depends on groups. */
  readonly always: boolean;
}

/**
 * A limit, in its unit, as it is for a counter of somebody whose requests may come with some groups, or of nobody in
 * particular when there are none; nothing when it is for none of them.
 */
export function ruleInForce(written: SpendLimit, identities: readonly (readonly string[])[]): RuleInForce[] {
  const { name: rule, mode, logic, limit, scopes, matching } = written;
  const always = matching || logic === true;
  if (written.by_group === undefined) return [{ rule, mode, limit: limit!, always }];
  const by_group = Object.entries(written.by_group);
  const anybody = [[], ...by_group.map(([group]) => [group])];
  const known = !scopes.includes('user') ? anybody : identities.length === 0 ? [[]] : identities;
  const amounts = new Set(known.map((groups) => amountFor({ limit, by_group }, groups)));
  const [amount] = amounts;
  if (amounts.size > 1) return [{ rule, mode, limit: null, always: false }];
  return amount === undefined ? [] : [{ rule, mode, limit: amount, always }];
}
