import type { GatewayConfig } from '../contract/config.ts';
import type { FactView, LimitChanges } from '../contract/services.ts';
import { nanoToUsd } from '../kit/money.ts';
import { type Counted, withCounters } from '../money/limits/counted.ts';
import { compileLimits } from '../money/limits/limit-demands.ts';
import { type DemandStatus, demandStatuses, type Needs } from '../money/limits/room.ts';
import { compileCondition } from '../rules/compile.ts';

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
  /** What administrators changed about it at run time; absent where nothing was. */
  readonly changed?: ChangedStep;
}

/** Who set a limit and granted room on top of it; amounts in the unit of the limit, moments as ISO 8601. */
export interface ChangedStep {
  readonly set: { readonly at: string; readonly by: string } | null;
  readonly grants: readonly {
    readonly amount: number;
    readonly at: string;
    readonly by: string;
    readonly expires_at: string;
  }[];
}

const isoTime = (at: number) => new Date(at).toISOString();

function changedStep({ set, grants }: LimitChanges, shown: (amount: number) => number): ChangedStep {
  return {
    set: set && { at: isoTime(set.at), by: set.by },
    grants: grants.map(({ amount, at, by, expires_at }) => ({
      ...{ amount: shown(amount), at: isoTime(at), by, expires_at: isoTime(expires_at) },
    })),
  };
}

/** The limits among what a request is counted under; money in USD, for people. */
export function limitSteps(statuses: readonly DemandStatus[]): LimitStep[] {
  return statuses.flatMap((status) => {
    const { rule, scope, key, window, unit, room, in_force, spent, reserved, needed, shadow, changes } = status;
    // Counted, not limited.
    if (in_force === null) return [];
    const shown = (amount: number) => (unit === 'nano_usd' ? nanoToUsd(amount) : amount);
    const amounts = { limit: shown(in_force), spent: shown(spent), reserved: shown(reserved), needed: shown(needed) };
    const changed = changes !== undefined && shadow !== true && { changed: changedStep(changes, shown) };
    return {
      rule,
      scope,
      key,
      window,
      unit: unit === 'nano_usd' ? ('usd' as const) : unit,
      ...amounts,
      room,
      ...changed,
    };
  });
}

/**
 * The limits that a request with these facts comes under, with what is spent and reserved now. What it would need is what it
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
  const { spend_limits } = config;
  const amount_nano_usd = number('route.worst_case_nano_usd') || number('route.estimate_nano_usd');
  const likely: Needs = {
    amount_nano_usd,
    most_nano_usd: amount_nano_usd,
    tokens: number('request.input_tokens_estimate') + number('request.max_tokens') * (number('request.choices') || 1),
    ...(spend_limits?.reserve === 'typical' && { overshoot_percent: spend_limits.overshoot_percent }),
  };
  const groups = (facts['principal.groups'] as readonly string[] | undefined) ?? [];
  const { demands } = compileLimits(config, compileCondition, { charge }).demandsOf(keys, groups, () => view);
  return limitSteps(demandStatuses(withCounters(demands, counted, Date.now()), likely));
}
