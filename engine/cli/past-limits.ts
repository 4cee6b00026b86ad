import type { CounterName, FactView, LimitClaim, LimitUnit } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import { compileCondition } from '../rules/compile.ts';
import { compileLimits } from '../rules/limit-claims.ts';
import type { Counted } from '../testing/played.ts';
import { type LimitStep, limitStep } from './dry-run-limits.ts';

/**
 * The limits that a request with these facts comes under, with what is spent and held now. What it would need is what it
 * is likely to: the most depends on its body.
 */
export function limitsOfPast(
  config: GatewayConfig,
  facts: Readonly<Record<string, unknown>>,
  view: FactView,
  counted: Counted,
  charge: 'full' | 'nothing' = 'full',
): LimitStep[] {
  const text = (path: string) => facts[path] as string | undefined;
  const number = (path: string) => Number(facts[path] ?? 0);
  const keys = {
    user: text('principal.email'),
    team: text('principal.team'),
    project: text('principal.project'),
    token: text('principal.token.id'),
    model: text('request.model'),
    upstream: text('route.upstream'),
  };
  const likely: Readonly<Record<LimitUnit, number>> = {
    nano_usd: number('route.estimate_nano_usd'),
    requests: 1,
    tokens: number('request.input_tokens_estimate') + number('request.max_tokens'),
  };
  const groups = (facts['principal.groups'] as readonly string[] | undefined) ?? [];
  const { claims } = compileLimits(config, compileCondition, { charge }).claimsOf(keys, groups, () => view);
  return inForce(claims, counted).flatMap(([claim, limit]) => {
    const { spent = 0, held = 0 } = counted.balances.find(isOn(claim)) ?? {};
    const needed = likely[claim.unit];
    return limitStep({ ...claim, room: spent + held + needed <= limit }, { limit, spent, held, needed });
  });
}

const isOn =
  ({ scope, key, window, unit }: CounterName) =>
  (other: CounterName): boolean =>
    other.scope === scope && other.key === key && other.window === window && other.unit === unit;

/** The claims with a limit, and what it is: the one set at run time in place of all on its counter, and what is granted on top. */
function inForce(claims: readonly LimitClaim[], counted: Counted): (readonly [LimitClaim, number])[] {
  const { settings = [], grants = [] } = counted;
  const enforced = claims.filter(({ shadow = false }) => !shadow);
  return enforced.flatMap((claim, i) => {
    const isMine = isOn(claim);
    const setting = settings.find(isMine)?.amount;
    if (setting !== undefined && enforced.findIndex(isMine) < i) return [];
    const limit = setting ?? claim.limit;
    const granted = grants.filter(isMine).reduce((sum, { amount }) => sum + amount, 0);
    return limit === null ? [] : [[claim, limit + granted] as const];
  });
}
