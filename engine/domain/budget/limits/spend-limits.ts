import {
  type GatewayConfig,
  type RuleMode,
  SPEND_SCOPES,
  type SpendDefault,
  type SpendRuleConfig,
  type SpendScope,
} from '../../../base/contract/config.ts';
import type {
  CounterName,
  FactView,
  LedgerIdentity,
  LimitDemand,
  LimitUnit,
  LimitWindow,
  Services,
} from '../../../base/contract/services.ts';
import { SPEND_WINDOWS, WINDOWS } from '../../../base/contract/windows.ts';
import { formatUsd, usdToNano } from '../../../base/kit/money.ts';
import { factsRead } from '../../../base/rules/fact-paths.ts';

/** One limit of `spend_limits`: a default, or one amount of a rule, with its position in gateway.yaml. */
export interface SpendLimit {
  /** JSON pointer of the default or rule. */
  readonly pointer: string;
  /** Name of the rule, or such as `defaults.user_daily_usd`. */
  readonly name: string;
  readonly mode: RuleMode;
  readonly logic: unknown;
  readonly scopes: readonly SpendScope[];
  /** The scopes joined by `+`, as counters are named. */
  readonly scope: string;
  readonly window: LimitWindow;
  readonly unit: LimitUnit;
  /** In the unit; absent when only members of some groups are limited. */
  readonly limit?: number;
  readonly by_group?: Readonly<Record<string, number>>;
  /** Whether it counts only matching requests, on a counter of its own. */
  readonly matching: boolean;
  readonly on_store_error: 'deny' | 'allow';
}

/** All limits: the defaults, then those of rules, in file order. */
export function spendLimits({ spend_limits }: Pick<GatewayConfig, 'spend_limits'>): readonly SpendLimit[] {
  if (spend_limits === undefined) return [];
  const { defaults, rules, on_store_error } = spend_limits;
  const everybody = Object.entries(defaults).map(([key, usd]): SpendLimit => {
    const [scope, adjective] = (key as SpendDefault).split('_') as [SpendScope, string];
    return {
      pointer: `/spend_limits/defaults/${key}`,
      name: `defaults.${key}`,
      mode: 'enforce',
      logic: true,
      scopes: [scope],
      scope,
      window: SPEND_WINDOWS.find((window) => WINDOWS[window].adjective === adjective)!,
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
  const counted = [
    ['open', 'requests', rule.concurrency],
    ['minute', 'requests', rule.requests_per_minute],
    ['minute', 'tokens', rule.tokens_per_minute],
  ] as const;
  return [
    ...(window === undefined ? [] : [{ ...common, window, unit: 'nano_usd' as const, ...amountsOf(rule) }]),
    ...counted.flatMap(([of, unit, limit]) => (limit === undefined ? [] : { ...common, window: of, unit, limit })),
  ];
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

/** The key of a counter: the key of its scope, or a JSON array for several scopes. */
export function counterKey(keys: readonly string[]): string {
  return keys.length === 1 ? keys[0]! : JSON.stringify(keys);
}

/** The subject of a counter for people: `user ana@example.com and model coder-1`. */
export function describeCounter({ scope, key }: { readonly scope: string; readonly key: string }): string {
  const scopes = scope.split('+');
  if (scopes.length === 1) return `${scope} ${key}`;
  const keys = JSON.parse(key) as string[];
  return scopes.map((each, i) => `${each} ${keys[i]}`).join(' and ');
}

/** An amount with its unit: `20 USD`, `8 requests`. */
export function describeAmount(amount: number, unit: LimitUnit): string {
  if (unit === 'nano_usd') return `${formatUsd(amount)} USD`;
  return `${amount} ${amount === 1 ? unit.slice(0, -1) : unit}`;
}

/**
 * What a limit allows: `20 USD per user and day`, `8 requests at once per user`.
 * @param time_zone named for calendar windows.
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
  return `${amounts} ${per}${limit.matching ? ', counting only matching requests' : ''}`;
}

/** The rule that owns a counter, by its scope and key; `undefined` for a counter of all limits of the scope. */
export function ruleOfCounter({ scope, key }: { readonly scope: string; readonly key: string }): string | undefined {
  if (!scope.endsWith('+rule')) return undefined;
  return (JSON.parse(key) as string[]).at(-1);
}

/** SQL: whether a counter `c` belongs to the rule of a limit `r`, where the rule has counters of its own. */
export const IS_OF_RULE = 'case when r.rule is null then true else (c.key::jsonb ->> -1) = r.rule end';

/** SQL: the person of a counter `c`, whose groups decide the amount of a limit. */
export const PERSON_OF_COUNTER = "case c.scope when 'user' then c.key when 'user+rule' then c.key::jsonb ->> 0 end";

/** Keys of a request by scope; `undefined` for a scope that does not apply. */
export type LimitKeys = Readonly<Record<Exclude<SpendScope, 'rule'>, string | undefined>>;

export interface LimitChoice {
  /** `nothing`: the request is free, so limits of money and tokens do not apply. Absent: `full`. */
  readonly charge?: 'full' | 'nothing';
  /** Whether a fact is known; limits with a condition on an unknown fact are left out. Absent: all are known. */
  readonly knows?: (fact: string) => boolean;
}

/** Counters that always count, so that a limit set later includes earlier spending. */
export const ALWAYS_COUNTED = [
  { scopes: ['user'], scope: 'user', window: 'day', unit: 'nano_usd', rule: 'defaults.user_daily_usd' },
  { scopes: ['team'], scope: 'team', window: 'month', unit: 'nano_usd', rule: 'defaults.team_monthly_usd' },
] as const satisfies readonly (Pick<SpendLimit, 'scopes' | 'scope' | 'window' | 'unit'> & { readonly rule: string })[];

/** The counters of `ALWAYS_COUNTED` for a caller. */
export function alwaysCounted({ user, team }: Pick<LedgerIdentity, 'user' | 'team'>): CounterName[] {
  return ALWAYS_COUNTED.flatMap(({ scope, window, unit }) => {
    const key = scope === 'user' ? user : team;
    return key === null ? [] : { scope, key, window, unit };
  });
}

interface CompiledCounter extends Pick<SpendLimit, 'scopes' | 'scope' | 'window' | 'unit' | 'matching'> {
  readonly rule: string;
  /** Limits with their compiled condition; without one a limit always applies. */
  readonly limits: (SpendLimit & { readonly applies?: (facts: FactView) => boolean })[];
}

/**
 * Compiles `spend_limits` into a function from a request to its demands. Counters of money count every request, with a `null`
 * limit if none applies; counters of requests and tokens count only where a limit applies.
 */
export function compileLimits(config: GatewayConfig, condition: Services['condition'], choice: LimitChoice = {}) {
  const counters = compileCounters(config, condition, choice);
  const otherwise = config.spend_limits?.on_store_error ?? 'deny';
  return {
    /** @param facts called only if a condition must be evaluated. */
    demandsOf(keys: LimitKeys, groups: readonly string[], facts: () => FactView) {
      const demands: LimitDemand[] = [];
      let on_store_error: 'deny' | 'allow' | undefined;
      for (const { scopes, scope, window, unit, rule, matching, limits } of counters) {
        const key = keyOf(scopes, { ...keys, rule });
        if (key === undefined) continue;
        let limited = false;
        for (const compiled of limits) {
          const limit = amountFor(compiled, groups);
          if (limit === undefined || compiled.applies?.(facts()) === false) continue;
          const { name, mode } = compiled;
          if (mode === 'shadow') {
            demands.push({ scope, key, window, unit, limit, rule: name, shadow: true });
            continue;
          }
          limited = true;
          demands.push({ scope, key, window, unit, limit, rule: name });
          if (on_store_error !== 'deny') on_store_error = compiled.on_store_error;
        }
        if (!limited && !matching && unit === 'nano_usd') demands.push({ scope, key, window, unit, limit: null, rule });
      }
      // The value of `spend_limits` without an applicable limit, else `allow` only if all limits allow it.
      return { demands, on_store_error: on_store_error ?? otherwise };
    },
  };
}

/** The counters in the order of limits; a request counts once on each. */
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
  // A limit of money may be lower than what is spent: a free request must not meet it.
  if (charge === 'full') for (const counter of ALWAYS_COUNTED) counterOf({ ...counter, matching: false });
  for (const limit of spendLimits(config)) {
    const { scopes, scope, window, unit, name: rule, matching, logic } = limit;
    if ((charge === 'nothing' && unit !== 'requests') || !factsRead(logic).every(knows)) continue;
    const applies = logic === true ? {} : { applies: condition(logic) };
    counterOf({ scopes, scope, window, unit, rule, matching }).limits.push({ ...limit, ...applies });
  }
  return [...counters.values()];
}

function keyOf(
  scopes: readonly SpendScope[],
  keys: Readonly<Record<SpendScope, string | undefined>>,
): string | undefined {
  if (scopes.length === 1) return keys[scopes[0]!];
  const parts = scopes.map((scope) => keys[scope]);
  return parts.every((part) => part !== undefined) ? counterKey(parts) : undefined;
}

/** The largest amount of the caller's groups, else the general amount; `undefined` if the limit does not apply to the caller. */
export function amountFor(
  { limit, by_group }: Pick<SpendLimit, 'limit' | 'by_group'>,
  groups: readonly string[],
): number | undefined {
  if (by_group === undefined) return limit;
  const amounts = groups.flatMap((group) => (Object.hasOwn(by_group, group) ? by_group[group]! : []));
  return amounts.length === 0 ? limit : Math.max(...amounts);
}

/** Compiles the concurrency limits that depend on the caller only, the smallest of each counter. `undefined` without any. */
export function limitsAtOnce(config: GatewayConfig, condition: Services['condition']) {
  const rules = config.spend_limits?.rules ?? [];
  if (rules.every(({ concurrency, mode }) => concurrency === undefined || mode === 'shadow')) return undefined;
  const knows = (fact: string) => fact.startsWith('principal.');
  const limits = compileLimits(config, condition, { charge: 'nothing', knows });
  return (
    keys: Pick<LimitKeys, 'user' | 'team' | 'project' | 'token'>,
    groups: readonly string[],
    facts: () => FactView,
  ) => {
    const smallest = new Map<string, LimitDemand & { readonly limit: number }>();
    const { demands } = limits.demandsOf({ ...keys, model: undefined, upstream: undefined }, groups, facts);
    for (const { scope, key, window, unit, limit, rule, shadow } of demands) {
      if (window !== 'open' || shadow || limit === null) continue;
      const known = smallest.get(scope);
      if (known === undefined || limit < known.limit) smallest.set(scope, { scope, key, window, unit, limit, rule });
    }
    return [...smallest.values()];
  };
}

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
