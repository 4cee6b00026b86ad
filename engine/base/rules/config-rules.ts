import type { GatewayConfig, RouteUpstream, RoutingRuleConfig } from '../contract/config.ts';
import { matchesGlob } from '../kit/glob.ts';

/** An entry of `routing.rules`, with its keys combined into one condition. */
export interface RoutingRule extends RoutingRuleConfig {
  readonly pointer: string;
  /** JSON-Logic; `true` for a rule without a condition. */
  readonly logic: unknown;
}

/** The entries of `routing.rules`, in order, those in shadow mode included. */
export function routingRules({ routing: { rules } }: GatewayConfig): readonly RoutingRule[] {
  return rules.map((rule, index) => ({
    ...rule,
    pointer: `/routing/rules/${index}`,
    logic: allOf([
      modelCondition(rule.models),
      equals('principal.email', rule.user),
      equals('principal.team', rule.team),
      rule.group === undefined ? undefined : { in: [rule.group, { var: 'principal.groups' }] },
      equals('principal.project', rule.project),
      // The fact is in lower case.
      equals('request.region', rule.region?.toLowerCase()),
      rule.when,
    ]),
  }));
}

/** An entry of `access.rules`: requests for which `logic` is true are rejected. */
export interface AccessRule extends Pick<RoutingRule, 'pointer' | 'name' | 'mode' | 'logic'> {
  readonly message: string;
  covers(id: string): boolean;
}

/** The entries of `access.rules`, in order, those in shadow mode included. */
export function accessRules({ access: { rules } }: GatewayConfig): readonly AccessRule[] {
  return rules.map(({ name, mode, models, when, message }, index) => ({
    ...{ name, mode, pointer: `/access/rules/${index}`, logic: allOf([modelCondition(models), when]) },
    message: message ?? `The access rule "${name}" of this gateway does not allow this request.`,
    covers: (id) => models?.some((glob) => matchesGlob(glob, id)) ?? true,
  }));
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

function allOf(conditions: readonly unknown[]): unknown {
  const written = conditions.filter((condition) => condition !== undefined);
  if (written.length === 0) return true;
  return written.length === 1 ? written[0] : { and: written };
}

function equals(path: string, value: string | undefined): unknown {
  return value === undefined ? undefined : { '===': [{ var: path }, value] };
}

function modelCondition(globs: readonly string[] | undefined): unknown {
  const matches = globs?.map((glob) =>
    glob.includes('*') ? { glob: [{ var: 'request.model' }, glob] } : equals('request.model', glob),
  );
  return matches?.length === 1 ? matches[0] : matches && { or: matches };
}
