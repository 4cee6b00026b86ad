import type { GatewayConfig } from '../../../base/contract/config.ts';
import { type SpendLimit, spendLimits } from '../limits/spend-limits.ts';

/** Whether some requests are served during a database outage. */
export function goesOnWithoutStore(config: Pick<GatewayConfig, 'spend_limits'>): boolean {
  if (config.spend_limits?.on_store_error === 'allow') return true;
  return spendLimits(config).some(({ on_store_error }) => on_store_error === 'allow');
}

/** Whether the gateway as a whole serves requests then: no limit of all callers forbids it. */
export function servesWithoutReservations(config: Pick<GatewayConfig, 'spend_limits'>): boolean {
  return (
    goesOnWithoutStore(config) &&
    !spendLimits(config).some((limit) => isEverybodys(limit) && limit.on_store_error === 'deny')
  );
}

const ALWAYS_THERE: readonly string[] = ['user', 'token', 'model', 'upstream'];

function isEverybodys({ mode, logic, scopes, limit }: SpendLimit): boolean {
  return (
    mode === 'enforce' && logic === true && limit !== undefined && scopes.every((scope) => ALWAYS_THERE.includes(scope))
  );
}
