import type { FactView, SpendScope } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import { compileCondition } from '../rules/compile.ts';
import { spendLimits } from '../rules/config-rules.ts';
import { nanoToUsd, usdToNano } from '../services/money.ts';
import type { Counter } from '../services/spending.ts';
import type { LimitStep } from './dry-run.ts';

/** The fact that names whose spending a scope counts. */
const KEYS: Readonly<Record<SpendScope, string>> = {
  user: 'principal.email',
  team: 'principal.team',
  project: 'principal.project',
  model: 'request.model',
  upstream: 'route.upstream',
};

/**
 * The limits that a request with these facts comes under, with what is spent and held now. What it would need is its
 * likely cost: the most it can cost depends on its body.
 */
export function limitsOfPast(
  config: GatewayConfig,
  facts: Readonly<Record<string, unknown>>,
  view: FactView,
  counters: readonly Counter[],
): LimitStep[] {
  const needed = Number(facts['route.estimate_nano_usd'] ?? 0);
  return spendLimits(config).flatMap(({ name, mode, logic, scope, window, limit_usd }) => {
    const key = facts[KEYS[scope]];
    if (window === undefined || limit_usd === undefined || typeof key !== 'string') return [];
    if (mode === 'shadow' || !compileCondition(logic)(view)) return [];
    const counter = counters.find((one) => one.scope === scope && one.key === key && one.window === window);
    const { spent_nano_usd = 0, held_nano_usd = 0 } = counter ?? {};
    return {
      rule: name,
      scope,
      key,
      window,
      limit_usd,
      spent_usd: nanoToUsd(spent_nano_usd),
      held_usd: nanoToUsd(held_nano_usd),
      needed_usd: nanoToUsd(needed),
      room: spent_nano_usd + held_nano_usd + needed <= usdToNano(limit_usd),
    };
  });
}
