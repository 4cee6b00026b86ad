import type { GatewayConfig, RoutingRuleConfig, RuleMode, SpendRuleConfig } from '../config.ts';

/** A rule of gateway.yaml with all that it asks of a request in one condition. */
interface ConfigRule {
  /** Place in its list, from 0. */
  readonly index: number;
  readonly name: string;
  readonly mode: RuleMode;
  /** JSON-Logic; `true` for a rule without a condition. */
  readonly logic: unknown;
}

/** An entry of `routing.rules` as it is evaluated. */
export interface RoutingRule extends ConfigRule {
  readonly upstream: string;
}

/** An entry of `spend_limits.rules` as it is evaluated. Amounts in USD. */
export interface SpendRule
  extends ConfigRule,
    Pick<SpendRuleConfig, 'scope' | 'window' | 'limit_usd' | 'concurrency'> {}

/** The entries of `routing.rules`, in order, those in shadow mode included. */
export function routingRules(config: GatewayConfig): readonly RoutingRule[] {
  return config.routing.rules.map((rule, index) => {
    const { name, mode, upstream } = rule;
    return { index, name, mode, logic: routingCondition(rule), upstream };
  });
}

/** The entries of `spend_limits.rules`, in order, those in shadow mode and those without a limit in USD included. */
export function spendRules(config: GatewayConfig): readonly SpendRule[] {
  return (config.spend_limits?.rules ?? []).map((rule, index) => {
    const { name, mode, scope, window, limit_usd, concurrency, when = true } = rule;
    return {
      index,
      name,
      mode,
      logic: when,
      scope,
      ...(window !== undefined && { window }),
      ...(limit_usd !== undefined && { limit_usd }),
      ...(concurrency !== undefined && { concurrency }),
    };
  });
}

/** A limit on spending, everybody's or a rule's, and where it stands in gateway.yaml. */
export interface SpendLimit extends Omit<SpendRule, 'index'> {
  /** JSON pointer. */
  readonly pointer: string;
}

/** Every limit on spending: everybody's, then those of the rules. */
export function spendLimits(config: GatewayConfig): readonly SpendLimit[] {
  const { user_daily_usd, team_monthly_usd } = config.spend_limits?.defaults ?? {};
  const everybody = (key: string, limit_usd: number | undefined, of: Pick<SpendLimit, 'scope' | 'window'>) => {
    if (limit_usd === undefined) return [];
    const pointer = `/spend_limits/defaults/${key}`;
    return [{ pointer, name: `defaults.${key}`, mode: 'enforce', logic: true, limit_usd, ...of } as const];
  };
  return [
    ...everybody('user_daily_usd', user_daily_usd, { scope: 'user', window: 'day' }),
    ...everybody('team_monthly_usd', team_monthly_usd, { scope: 'team', window: 'month' }),
    ...spendRules(config).map(({ index, ...rule }) => ({ pointer: `/spend_limits/rules/${index}`, ...rule })),
  ];
}

/** What a limit allows: `20 USD per user and day`. */
export function describeLimit({ scope, window, limit_usd, concurrency }: Omit<SpendLimit, 'pointer'>): string {
  const amounts = [
    ...(limit_usd === undefined ? [] : [`${limit_usd} USD per ${scope} and ${window}`]),
    ...(concurrency === undefined ? [] : [`${concurrency} requests at once per ${scope} (not in force yet)`]),
  ];
  return amounts.join(' and ');
}

function routingCondition(rule: RoutingRuleConfig): unknown {
  const { models, user, team, group, project, region, when } = rule;
  const conditions = [
    ...(models === undefined ? [] : [modelCondition(models)]),
    ...(user === undefined ? [] : [equals('principal.email', user)]),
    ...(team === undefined ? [] : [equals('principal.team', team)]),
    ...(group === undefined ? [] : [{ in: [group, { var: 'principal.groups' }] }]),
    ...(project === undefined ? [] : [equals('principal.project', project)]),
    // The fact is in lower case.
    ...(region === undefined ? [] : [equals('request.region', region.toLowerCase())]),
    ...(when === undefined ? [] : [when]),
  ];
  if (conditions.length === 0) return true;
  return conditions.length === 1 ? conditions[0] : { and: conditions };
}

function equals(path: string, value: string): unknown {
  return { '===': [{ var: path }, value] };
}

function modelCondition(globs: readonly string[]): unknown {
  const matches = globs.map((glob) =>
    glob.includes('*') ? { glob: [{ var: 'request.model' }, glob] } : equals('request.model', glob),
  );
  return matches.length === 1 ? matches[0] : { or: matches };
}
