import type {
  GatewayConfig,
  RuleMode,
  SpendDefault,
  SpendRuleConfig,
  SpendScope,
  Window,
} from '../../contract/config.ts';
import { SPEND_SCOPES } from '../../contract/config.ts';
import type { LimitUnit, LimitWindow } from '../../contract/services.ts';
import { formatUsd, usdToNano } from '../../kit/money.ts';

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

/** The scopes of a rule in the one order in which counters name them. */
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
