import type { GatewayConfig, RouteUpstream, RoutingRuleConfig } from '../contract/config.ts';
import type { DropReason } from '../contract/forwarding.ts';
import { type Protocol, protocolOf } from '../contract/protocol.ts';
import { modelOf } from '../money/prices/known-models.ts';
import { cacheChoice } from '../upstreams/cache-lifetime.ts';

/** An upstream of the route of a request, and whether it can serve it. */
export interface UpstreamStep {
  readonly upstream: string;
  readonly upstream_model: string;
  readonly order: number;
  readonly weight: number;
  /** From 1, of those to be tried; absent where it is not asked. */
  readonly turn?: number;
  /** Why it is not asked. */
  readonly dropped?: DropReason;
  /** Whether it is asked all the same when all others have failed. */
  readonly is_last_resort?: true;
  /** The protocol that the request is translated into for it. */
  readonly translated_into?: Protocol;
  /** Whether the request would ask it for five minutes where the client asks for a prompt cache of an hour. */
  readonly cache_downgraded?: true;
}

type Facts = Readonly<Record<string, unknown>>;

/** The rule that decided for a request; `undefined` where none did. */
export function decidingRule({ routing }: GatewayConfig, facts: Facts): RoutingRuleConfig | undefined {
  return routing.rules.find(({ name }) => name === facts['route.rule']);
}

/** The upstreams of a request's route: those that can serve it in the order to be tried, then the others. None where there is one. */
export function upstreamSteps(config: GatewayConfig, facts: Facts): UpstreamStep[] {
  const candidates = facts['route.candidates'] as readonly string[] | undefined;
  if (candidates === undefined) return [];
  const rule = decidingRule(config, facts);
  const entries = rule?.upstreams ?? config.routing.default_upstreams;
  const entryOf = (name: string) => entries.find(({ upstream }) => upstream === name)!;
  const reasons = new Map(
    ((facts['route.dropped'] ?? []) as readonly string[]).map((text) => text.split(': ') as [string, DropReason]),
  );
  const about = (name: string) => stepOf(entryOf(name), config, facts, rule);
  return [
    ...candidates.map((name, index) => ({ ...about(name), turn: index + 1 })),
    ...entries.flatMap(({ upstream: name }): UpstreamStep[] => {
      const reason = reasons.get(name);
      if (reason === undefined || candidates.includes(name)) return [];
      const is_spare = reason === 'cache' && fateAt(name, config, facts, rule) !== 'refuse';
      if (is_spare) return [{ ...about(name), dropped: reason, is_last_resort: true }];
      // What would become of the request there never does.
      const { translated_into: _into, cache_downgraded: _cache, ...step } = about(name);
      return [{ ...step, dropped: reason }];
    }),
  ];
}

function stepOf(
  { upstream: name, order, weight }: RouteUpstream,
  config: GatewayConfig,
  facts: Facts,
  rule: RoutingRuleConfig | undefined,
): UpstreamStep {
  const { protocols } = config.upstreams.find((upstream) => upstream.name === name)!;
  const model = modelOf(config, String(facts['request.model']))!;
  const spoken = protocolOf(String(facts['request.protocol']));
  const is_translated = spoken !== undefined && !protocols.includes(spoken);
  return {
    upstream: name,
    upstream_model: model.upstream_ids[name] ?? model.id,
    order,
    weight,
    ...(is_translated && { translated_into: protocols[0]! }),
    ...(fateAt(name, config, facts, rule) === 'downgrade' && { cache_downgraded: true }),
  };
}

function fateAt(name: string, config: GatewayConfig, facts: Facts, rule: RoutingRuleConfig | undefined): string {
  const upstream = config.upstreams.find((each) => each.name === name)!;
  const model = modelOf(config, String(facts['request.model']))!;
  const keeps_hour = upstream.supports.prompt_cache_1h && model.supports.prompt_cache_1h;
  return cacheChoice(facts['cache.requested_ttl'] as string | undefined, keeps_hour, upstream, rule).fate;
}
