import type { GatewayConfig } from '../../contract/config.ts';
import type { CounterName, FactView, Services } from '../../contract/services.ts';
import { compileLimits, type LimitKeys } from './limit-demands.ts';

/** Who a request is counted under before its body is read. */
export type CallerKeys = Pick<LimitKeys, 'user' | 'team' | 'project' | 'token'>;

/** A limit on requests at once that a caller comes under. */
export interface LimitAtOnce extends CounterName {
  /** As gateway.yaml has it. */
  readonly limit: number;
  readonly rule: string;
}

/** The limits on requests at once that a caller comes under, the smallest of each counter. */
export type LimitsAtOnce = (keys: CallerKeys, groups: readonly string[], facts: () => FactView) => LimitAtOnce[];

/**
 * Compiles those limits on requests at once that are decided by who is calling. `undefined` when there are none: then no
 * request needs to be asked for.
 */
export function limitsAtOnce(config: GatewayConfig, condition: Services['condition']): LimitsAtOnce | undefined {
  const rules = config.spend_limits?.rules ?? [];
  if (rules.every(({ concurrency, mode }) => concurrency === undefined || mode === 'shadow')) return undefined;
  const knows = (fact: string) => fact.startsWith('principal.');
  const limits = compileLimits(config, condition, { charge: 'nothing', knows });
  return (keys, groups, facts) => {
    const smallest = new Map<string, LimitAtOnce>();
    const { demands } = limits.demandsOf({ ...keys, model: undefined, upstream: undefined }, groups, facts);
    for (const { scope, key, window, unit, limit, rule, shadow } of demands) {
      if (window !== 'open' || shadow || limit === null) continue;
      const known = smallest.get(scope);
      if (known === undefined || limit < known.limit) smallest.set(scope, { scope, key, window, unit, limit, rule });
    }
    return [...smallest.values()];
  };
}
