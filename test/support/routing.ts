import type { GatewayConfig, RouteUpstream, RoutingRuleConfig } from '../../engine/base/contract/config.ts';

/** Upstreams of a route, to be tried in this order. */
export function inOrder(...names: readonly string[]): readonly RouteUpstream[] {
  return names.map((upstream, index) => ({ upstream, order: index + 1, weight: 1 }));
}

/** A `routing` section: these rules, else these upstreams in order. */
export function routingSection(
  rules: readonly RoutingRuleConfig[] = [],
  ...defaults: readonly string[]
): GatewayConfig['routing'] {
  const default_upstreams = inOrder(...(defaults.length === 0 ? ['main'] : defaults));
  return { default_upstreams, attempts: { max: 4, seconds: 280, unconfirmed: true }, rules };
}
