import {
  type GatewayConfig,
  type RuleMode,
  SPEND_SCOPES,
  type SpendDefault,
  type SpendRuleConfig,
  type SpendScope,
  type Window,
} from '../../contract/config.ts';
import type {
  CounterName,
  FactView,
  LedgerIdentity,
  LimitDemand,
  LimitUnit,
  LimitWindow,
  Services,
} from '../../contract/services.ts';
import { formatUsd, usdToNano } from '../../kit/money.ts';
import { factsRead } from '../../rules/fact-paths.ts';

/** One limit of `spend_limits`: a default, or one amount of a rule, with its position in gateway.yaml. */
export interface SpendLimit {
  /** JSON pointer of the default or rule. */
  readonly pointer: string;
  /** Name of the rule, or such as `defaults.user_daily_usd`. */
  readonly name: string;
  readonly mode: RuleMode;
  /** JSON-Logic; `true` without a condition. */
  readonly logic: unknown;
  readonly scopes: readonly SpendScope[];
  /** The scopes joined by `+`, as counters are named. */
  readonly scope: string;
  readonly window: LimitWindow;
  readonly unit: LimitUnit;
  /** In the unit; absent when only members of some groups are limited. */
  readonly limit?: number;
  /** In the unit, by group of the caller. */
  readonly by_group?: Readonly<Record<string, number>>;
  /** Whether only requests that the condition holds for are counted: on a counter of the rule's own. */
  readonly matching: boolean;
  readonly on_store_error: 'deny' | 'allow';
}

const DEFAULT_WINDOWS = { daily: 'day', weekly: 'week', monthly: 'month' } as const;

/** Every limit: everybody's, then those of the rules, in file order. */
export function spendLimits({ spend_limits }: Pick<GatewayConfig, 'spend_limits'>): readonly SpendLimit[] {
  if (spend_limits === undefined) return [];
  const { defaults, rules, on_store_error } = spend_limits;
  const everybody = Object.entries(defaults).map(([key, usd]): SpendLimit => {
    const [scope, adjective] = (key as SpendDefault).split('_') as [SpendScope, keyof typeof DEFAULT_WINDOWS];
    return {
      pointer: `/spend_limits/defaults/${key}`,
      name: `defaults.${key}`,
      mode: 'enforce',
      logic: true,
      scopes: [scope],
      scope,
      window: DEFAULT_WINDOWS[adjective],
      unit: 'nano_usd',
      limit: usdToNano(usd),
      matching: false,
      on_store_error,
    };
  });
  return [...everybody, ...rules.flatMap((rule, index) => limitsOfRule(rule, index, on_store_error))];
}

function limitsOfRule(rule: SpendRuleConfig, index: number, on_store_error: 'deny' | 'allow'): SpendLimit[] {
  const { name, mode, when: logic = true, window } = rule;
  const matching = rule.count === 'matching';
  const scopes: readonly SpendScope[] = [...inOrder(rule.scope), ...(matching ? (['rule'] as const) : [])];
  const common = {
    pointer: `/spend_limits/rules/${index}`,
    name,
    mode,
    logic,
    scopes,
    scope: scopes.join('+'),
    matching,
    on_store_error: rule.on_store_error ?? on_store_error,
  };
  const limits: SpendLimit[] = [];
  if (window !== undefined) limits.push({ ...common, window, unit: 'nano_usd', ...amountsOf(rule) });
  const { concurrency, requests_per_minute, tokens_per_minute } = rule;
  if (concurrency !== undefined) limits.push({ ...common, window: 'open', unit: 'requests', limit: concurrency });
  if (requests_per_minute !== undefined) {
    limits.push({ ...common, window: 'minute', unit: 'requests', limit: requests_per_minute });
  }
  if (tokens_per_minute !== undefined) {
    limits.push({ ...common, window: 'minute', unit: 'tokens', limit: tokens_per_minute });
  }
  return limits;
}

function amountsOf({ limit_usd, limit_usd_by_group }: SpendRuleConfig): Pick<SpendLimit, 'limit' | 'by_group'> {
  const inNano = ([group, usd]: [string, number]) => [group, usdToNano(usd)];
  return {
    ...(limit_usd !== undefined && { limit: usdToNano(limit_usd) }),
    ...(limit_usd_by_group && { by_group: Object.fromEntries(Object.entries(limit_usd_by_group).map(inNano)) }),
  };
}

function inOrder(scope: SpendRuleConfig['scope']): readonly SpendScope[] {
  return typeof scope === 'string'
    ? [scope]
    : SPEND_SCOPES.filter((each) => (scope as readonly SpendScope[]).includes(each));
}

/** The key of a counter: the key of its scope, or a JSON array of those of several. */
export function counterKey(keys: readonly string[]): string {
  return keys.length === 1 ? keys[0]! : JSON.stringify(keys);
}

/** Who or what a counter counts, for people: `user ana@example.com and model coder-1`. */
export function describeCounter({ scope, key }: { readonly scope: string; readonly key: string }): string {
  const scopes = scope.split('+');
  if (scopes.length === 1) return `${scope} ${key}`;
  const keys = JSON.parse(key) as string[];
  return scopes.map((each, i) => `${each} ${keys[i]}`).join(' and ');
}

const ADJECTIVES: Readonly<Record<Window, string>> = { day: 'daily', week: 'weekly', month: 'monthly' };

/** Adjective of a calendar window. */
export function windowAdjective(window: Window): string {
  return ADJECTIVES[window];
}

/** An amount with its unit: `20 USD`, `8 requests`. */
export function describeAmount(amount: number, unit: LimitUnit): string {
  if (unit === 'nano_usd') return `${formatUsd(amount)} USD`;
  return `${amount} ${amount === 1 ? unit.slice(0, -1) : unit}`;
}

/**
 * What a limit allows: `20 USD per user and day`, `8 requests at once per user`.
 * @param time_zone is named where days, weeks or months begin in it.
 */
export function describeLimit(
  limit: Pick<SpendLimit, 'scopes' | 'window' | 'unit' | 'limit' | 'by_group' | 'matching'>,
  time_zone?: string,
): string {
  const who = limit.scopes.filter((scope) => scope !== 'rule').join(' and ');
  const amounts = [
    ...Object.entries(limit.by_group ?? {}).map(([group, most]) => `${describeAmount(most, limit.unit)} for ${group}`),
    ...(limit.limit === undefined
      ? []
      : [`${describeAmount(limit.limit, limit.unit)}${limit.by_group === undefined ? '' : ' for others'}`]),
  ].join(', ');
  const zone = time_zone === undefined || limit.window === 'minute' ? '' : ` (${time_zone})`;
  const per = limit.window === 'open' ? `at once per ${who}` : `per ${who} and ${limit.window}${zone}`;
  return `${amounts} ${per}${limit.matching ? ', counting only what it is for' : ''}`;
}

/** The rule that alone counts on a counter, by its scope and key; `undefined` where every limit of that scope does. */
export function ruleOfCounter({ scope, key }: { readonly scope: string; readonly key: string }): string | undefined {
  if (!scope.endsWith('+rule')) return undefined;
  return (JSON.parse(key) as string[]).at(-1);
}

/** SQL: whether a counter `c` is of the rule that a limit `r` is, where that has counters of its own. */
export const IS_OF_RULE = 'case when r.rule is null then true else (c.key::jsonb ->> -1) = r.rule end';

/** SQL: the person a counter `c` is of, whose groups decide how much a limit is. */
export const PERSON_OF_COUNTER = "case c.scope when 'user' then c.key when 'user+rule' then c.key::jsonb ->> 0 end";

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

type CallerKeys = Pick<LimitKeys, 'user' | 'team' | 'project' | 'token'>;

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
