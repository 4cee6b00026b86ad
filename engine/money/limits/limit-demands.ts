import type { GatewayConfig, SpendScope } from '../../contract/config.ts';
import type { CounterName, FactView, LedgerIdentity, LimitDemand, Services } from '../../contract/services.ts';
import { factsRead } from '../../rules/fact-paths.ts';
import { counterKey, type SpendLimit, spendLimits } from './spend-limits.ts';

/** Who and what a request is counted under; a scope it has no part in is `undefined`. */
export type LimitKeys = Readonly<Record<Exclude<SpendScope, 'rule'>, string | undefined>>;

/** What a request asks of the ledger. */
export interface DemandsOfRequest {
  readonly demands: LimitDemand[];
  /** `allow` when every limit that applies says so; what `spend_limits` says when none applies. */
  readonly on_store_error: 'deny' | 'allow';
}

/** The limits of gateway.yaml, ready to be asked which of them a request comes under. */
export interface CompiledLimits {
  /** @param facts is called only when a condition must be evaluated. */
  demandsOf(keys: LimitKeys, groups: readonly string[], facts: () => FactView): DemandsOfRequest;
}

/** Which of the limits are meant. */
export interface LimitChoice {
  /** `nothing`: the request costs nothing, so that no limit by money or tokens applies to it. Absent: `full`. */
  readonly charge?: 'full' | 'nothing';
  /** Whether a fact is known; a limit whose condition reads one that is not is left out. Absent: all are. */
  readonly knows?: (fact: string) => boolean;
}

/** Counted for everybody who spends, so that a limit set later finds what was spent before. */
export const ALWAYS_COUNTED = [
  { scopes: ['user'], scope: 'user', window: 'day', unit: 'nano_usd', rule: 'defaults.user_daily_usd' },
  { scopes: ['team'], scope: 'team', window: 'month', unit: 'nano_usd', rule: 'defaults.team_monthly_usd' },
] as const satisfies readonly (Pick<SpendLimit, 'scopes' | 'scope' | 'window' | 'unit'> & { readonly rule: string })[];

/** The counters of `ALWAYS_COUNTED` that a caller's requests count on. */
export function alwaysCounted({ user, team }: Pick<LedgerIdentity, 'user' | 'team'>): CounterName[] {
  return ALWAYS_COUNTED.flatMap(({ scope, window, unit }) => {
    const key = scope === 'user' ? user : team;
    return key === null ? [] : { scope, key, window, unit };
  });
}

/** A limit that lacks only whom it is asked about. */
interface CompiledLimit extends Pick<SpendLimit, 'limit' | 'on_store_error'> {
  readonly rule: string;
  readonly shadow: boolean;
  readonly by_group: readonly (readonly [group: string, limit: number])[];
  /** Absent means always. */
  readonly applies?: (facts: FactView) => boolean;
}

/** All limits on counters of one name; what differs is only the key. */
interface CompiledCounter extends Pick<SpendLimit, 'scopes' | 'scope' | 'window' | 'unit' | 'matching'> {
  /** Who is named where nothing limits a request that is counted all the same. */
  readonly rule: string;
  readonly limits: CompiledLimit[];
}

/**
 * Compiles `spend_limits`. Money is counted for every request under a counter that some limit names, with the limit null
 * when none applies to the request; what is counted by request or by minute only where a limit applies.
 */
export function compileLimits(
  config: GatewayConfig,
  condition: Services['condition'],
  choice: LimitChoice = {},
): CompiledLimits {
  const counters = compileCounters(config, condition, choice);
  const otherwise = config.spend_limits?.on_store_error ?? 'deny';
  return {
    demandsOf(keys, groups, facts) {
      const demands: LimitDemand[] = [];
      let on_store_error: 'deny' | 'allow' | undefined;
      for (const { scopes, scope, window, unit, rule, matching, limits } of counters) {
        const key = keyOf(scopes, { ...keys, rule });
        if (key === undefined) continue;
        let limited = false;
        for (const compiled of limits) {
          const limit = amountFor(compiled, groups);
          if (limit === undefined || compiled.applies?.(facts()) === false) continue;
          if (compiled.shadow) {
            demands.push({ scope, key, window, unit, limit, rule: compiled.rule, shadow: true });
            continue;
          }
          limited = true;
          demands.push({ scope, key, window, unit, limit, rule: compiled.rule });
          if (on_store_error !== 'deny') on_store_error = compiled.on_store_error;
        }
        if (!limited && !matching && unit === 'nano_usd') demands.push({ scope, key, window, unit, limit: null, rule });
      }
      return { demands, on_store_error: on_store_error ?? otherwise };
    },
  };
}

/** The counters in the order in which limits name them; a request is counted once under each. */
function compileCounters(
  config: GatewayConfig,
  condition: Services['condition'],
  { charge = 'full', knows = () => true }: LimitChoice,
): readonly CompiledCounter[] {
  const counters = new Map<string, CompiledCounter>();
  const counterOf = (counter: Omit<CompiledCounter, 'limits'>): CompiledCounter => {
    const name = `${counter.scope} ${counter.window} ${counter.unit}${counter.matching ? ` ${counter.rule}` : ''}`;
    const found = counters.get(name) ?? { ...counter, limits: [] };
    counters.set(name, found);
    return found;
  };
  // A limit on money may have been set below what is spent; a request that costs nothing is not even counted there.
  if (charge === 'full') for (const counter of ALWAYS_COUNTED) counterOf({ ...counter, matching: false });
  for (const limit of spendLimits(config)) {
    const { scopes, scope, window, unit, name: rule, matching, logic } = limit;
    if ((charge === 'nothing' && unit !== 'requests') || !factsRead(logic).every(knows)) continue;
    counterOf({ scopes, scope, window, unit, rule, matching }).limits.push({
      rule,
      shadow: limit.mode === 'shadow',
      by_group: Object.entries(limit.by_group ?? {}),
      on_store_error: limit.on_store_error,
      ...(limit.limit !== undefined && { limit: limit.limit }),
      ...(logic !== true && { applies: condition(logic) }),
    });
  }
  return [...counters.values()];
}

/** The key of a counter; `undefined` when the request has no part in one of the scopes. */
function keyOf(
  scopes: readonly SpendScope[],
  keys: Readonly<Record<SpendScope, string | undefined>>,
): string | undefined {
  if (scopes.length === 1) return keys[scopes[0]!];
  const parts: string[] = [];
  for (const scope of scopes) {
    const part = keys[scope];
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return counterKey(parts);
}

/** The largest amount of the caller's groups, else that of everybody else; `undefined` when the limit is not for this caller. */
export function amountFor(
  { limit, by_group }: { readonly limit?: number | undefined; readonly by_group: CompiledLimit['by_group'] },
  groups: readonly string[],
): number | undefined {
  let largest: number | undefined;
  for (const [group, amount] of by_group) {
    if ((largest === undefined || amount > largest) && groups.includes(group)) largest = amount;
  }
  return largest ?? limit;
}
