import type { GatewayConfig, ModelConfig, RouteUpstream, RoutingRuleConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { Candidate } from '../../base/contract/forwarding.ts';
import type { CacheLifetime, FactView, ModelCaller, ModelCatalog, ModelRefusal } from '../../base/contract/services.ts';
import { factView } from '../../base/rules/fact-view.ts';
import type { Loaded, PipelineSpec } from '../../base/source/spec.ts';
import { createManagedPolicies } from '../../domain/policies/managed-policies.ts';
import { createModelCatalog } from '../../domain/upstreams/models.ts';
import { type Choosing, chooseCandidates, createRoute, modelFacts, type Route } from '../../domain/upstreams/routes.ts';
import { routingSteps } from './dry-run.ts';

type Facts = Readonly<Record<string, unknown>>;

/** States of upstreams that all work. */
const NOTHING_KNOWN: Choosing = {
  states: {
    closed: () => undefined,
    begin: () => ({ tell() {}, leave() {} }),
    takeRetry: () => undefined,
    active: () => 0,
    share: () => 1,
    affinity: () => undefined,
    settle() {},
    list: () => [],
  },
  now: () => 0,
  random: () => 0,
};

export function callerOf(facts: Facts): ModelCaller {
  const group = facts['principal.token.group'] as string | undefined;
  return {
    token_group: group,
    groups: (facts['principal.groups'] as readonly string[] | undefined) ?? [],
    email: (facts['principal.email'] as string | undefined) ?? '',
  };
}

export function formatRefusal(refusal: ModelRefusal, id: string): string {
  if (refusal.by === 'policy') return `the policy ${refusal.policy} does not list ${id}`;
  if (refusal.by === 'list') return `no upstream lists ${id}`;
  if (refusal.token_group === undefined) return 'the caller is not in any token group';
  return `the token group ${refusal.token_group} may not use ${id}`;
}

interface NoRoute {
  readonly code: string;
  readonly message: string;
}

/** The facts that `resolve-route` would write now for a past request, or its error. */
export function pastRoute(loaded: Loaded, config: GatewayConfig, pipeline: PipelineSpec, facts: Facts): Routed {
  const id = String(facts['request.model']);
  const catalog = createModelCatalog(config, createManagedPolicies(config, loaded.policies));
  const model = catalog.find(id);
  if (model === undefined) return { refusal: { code: 'model_not_found', message: `there is no model ${id}` } };
  const refused = catalog.refusal(callerOf(facts), model);
  if (refused !== undefined) {
    return { refusal: { code: 'model_not_found', message: formatRefusal(refused, id) } };
  }
  const matched = routingSteps(loaded, config, viewOf({ ...facts, ...modelFacts(model) })).find(
    ({ held, mode }) => held && mode === 'enforce',
  );
  const rule = config.routing.rules.find(({ name }) => name === matched?.name);
  return createPastRoutes(config, catalog, pipeline)(model, rule, facts);
}

type Routed = { readonly wrote: Facts } | { readonly refusal: NoRoute };

/** Creates a function that routes past requests by a rule, or by the default; it caches routes. */
export function createPastRoutes(
  config: GatewayConfig,
  catalog: ModelCatalog,
  pipeline: PipelineSpec,
): (model: ModelConfig, rule: RoutingRuleConfig | undefined, facts: Facts) => Routed {
  const surroundings = { upstream: (name: string) => catalog.upstream(name), translates: translates(pipeline) };
  const routes = new Map<RoutingRuleConfig | undefined, Route>();
  return (model, rule, facts) => {
    const entries = rule?.upstreams ?? config.routing.default_upstreams;
    const route = routes.get(rule) ?? createRoute(entries, surroundings, rule);
    routes.set(rule, route);
    try {
      return { wrote: routeFacts(choose(route, model, facts), entries, { model, rule }) };
    } catch (error) {
      if (!(error instanceof StageError)) throw error;
      return { refusal: { code: error.code, message: error.message } };
    }
  };
}

function routeFacts(
  chosen: ReturnType<typeof choose>,
  entries: readonly RouteUpstream[],
  { model, rule }: { readonly model: ModelConfig; readonly rule: RoutingRuleConfig | undefined },
): Facts {
  const placeOf = ({ upstream }: Candidate) => entries.findIndex((entry) => entry.upstream === upstream.name);
  // Session affinity is unknown: session keys are not recorded. Upstreams of one order keep their order in the file.
  const able = chosen.candidates.slice(0, chosen.candidates.length - chosen.spare);
  const inOrder = able.toSorted(
    (a, b) => entries[placeOf(a)]!.order - entries[placeOf(b)]!.order || placeOf(a) - placeOf(b),
  );
  return {
    ...modelFacts(model),
    ...set(inOrder[0]!.facts),
    'route.rule': rule?.name ?? 'default',
    ...(entries.length > 1 && { 'route.candidates': inOrder.map(({ upstream }) => upstream.name) }),
    ...(chosen.dropped && { 'route.dropped': chosen.dropped }),
  };
}

function choose(route: ReturnType<typeof createRoute>, model: ModelConfig, facts: Facts) {
  const count = (fact: string) => Number(facts[fact] ?? 0);
  const needs = {
    // As in resolve-route: the tokens of an image are unknown.
    tokens: count('request.image_count') > 0 ? 0 : count('request.input_tokens_estimate') + count('request.max_tokens'),
    cache_ttl: (facts['cache.requested_ttl'] ?? 'none') as CacheLifetime,
    session_key: undefined,
    model: model.id,
    continues: undefined,
    holds_state: false,
  };
  return chooseCandidates(route, route.places(model, String(facts['request.protocol'])), needs, NOTHING_KNOWN);
}

function translates({ stages }: PipelineSpec): boolean {
  return stages.some(({ definition, mode }) => definition.name === 'translate' && mode === 'enforce');
}

const viewOf = (facts: Facts): FactView => factView(Object.entries(facts));

const set = (facts: Facts): Facts =>
  Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
