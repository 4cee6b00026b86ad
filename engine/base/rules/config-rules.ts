import type { GatewayConfig, RouteUpstream, RoutingRuleConfig, RuleMode } from '../contract/config.ts';
import { matchesGlob } from '../kit/glob.ts';

/** A rule of gateway.yaml with its keys combined into one condition. */
interface ConfigRule {
  /** Index in its list. */
  readonly index: number;
  readonly name: string;
  readonly mode: RuleMode;
  /** JSON-Logic; `true` for a rule without a condition. */
  readonly logic: unknown;
}

/** An entry of `routing.rules`. */
export interface RoutingRule extends ConfigRule, Pick<RoutingRuleConfig, 'on_unsupported_cache'> {
  readonly upstreams: readonly RouteUpstream[];
}

/** The entries of `routing.rules`, in order, those in shadow mode included. */
export function routingRules(config: GatewayConfig): readonly RoutingRule[] {
  return config.routing.rules.map((rule, index) => {
    const { name, mode, upstreams, on_unsupported_cache } = rule;
    return {
      index,
      name,
      mode,
      logic: routingCondition(rule),
      upstreams,
      ...(on_unsupported_cache && { on_unsupported_cache }),
    };
  });
}

/** An entry of `access.rules`: requests for which `logic` holds are rejected. */
export interface AccessRule extends ConfigRule {
  /** The error message for clients. */
  readonly message: string;
  covers(id: string): boolean;
}

/** The entries of `access.rules`, in order, those in shadow mode included. */
export function accessRules({ access: { rules } }: GatewayConfig): readonly AccessRule[] {
  return rules.map(({ name, mode, models, when, message }, index) => {
    const conditions = [
      ...(models === undefined ? [] : [modelCondition(models)]),
      ...(when === undefined ? [] : [when]),
    ];
    return {
      index,
      name,
      mode,
      logic: conditions.length === 1 ? conditions[0] : { and: conditions },
      message: message ?? `The access rule "${name}" of this gateway does not allow this request.`,
      covers: (id) => models?.some((glob) => matchesGlob(glob, id)) ?? true,
    };
  });
}

/** The upstreams of a route, for people: `main, then spare`; with shares in percent for several of one order. */
export function formatUpstreams(upstreams: readonly RouteUpstream[]): string {
  const by_order = Map.groupBy(upstreams, ({ order }) => order);
  const orders = [...by_order.keys()].toSorted((a, b) => a - b).map((order) => by_order.get(order)!);
  return orders
    .map((shared) => {
      const sum = shared.reduce((all, { weight }) => all + weight, 0);
      const share = (weight: number) => (sum === 0 ? 0 : Math.round((weight / sum) * 1000) / 10);
      return shared
        .map(({ upstream, weight }) => (shared.length === 1 ? upstream : `${upstream} (${share(weight)} %)`))
        .join(' or ');
    })
    .join(', then ');
}

/** The upstreams of a rule, with its policy for unsupported 1-hour caches. */
export function formatRoute({
  upstreams,
  on_unsupported_cache: policy,
}: Pick<RoutingRule, 'upstreams' | 'on_unsupported_cache'>): string {
  const to = formatUpstreams(upstreams);
  return policy === undefined ? to : `${to} (on_unsupported_cache: ${policy})`;
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
