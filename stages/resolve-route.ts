import {
  type CacheLifetime,
  defineStage,
  type FactPath,
  type FactView,
  type ModelCaller,
  type ModelConfig,
  matchesGlob,
  type ResponseEvent,
  type Services,
  type StageContext,
  type TokenCounts,
} from '../engine/api.ts';
import { type RoutingRule, routingRules } from '../engine/base/rules/index.ts';
import { NO_TOKENS } from '../engine/domain/budget/index.ts';
import { definitionNamed, type PrivilegedChoice } from '../engine/domain/protocols/index.ts';
import {
  CACHE_FACTS,
  type Choice,
  type Choosing,
  callerOf,
  chooseCandidates,
  createAccessCheck,
  createModelRefuser,
  createPrivilegedCheck,
  createRoute,
  createSessionKeeper,
  factsFor,
  MODEL_FACTS,
  modelFacts,
  modelNotFound,
  type Needs,
  pricedAt,
  type Route,
  type RouteEntry,
  refusePrivilegedQuery,
  UPSTREAM_FACTS,
} from '../engine/domain/upstreams/index.ts';

interface CompiledRule extends Pick<RoutingRule, 'name' | 'mode'> {
  readonly holds: (facts: FactView) => boolean;
  readonly route: Route;
}

/** Facts that depend on the upstream of an attempt. */
const CANDIDATE_FACTS = [
  ...UPSTREAM_FACTS,
  ...CACHE_FACTS,
  'request.other_models',
] as const satisfies readonly FactPath[];

const READS = [
  'request.protocol',
  'request.model',
  'request.received_at',
  'principal.id',
  'principal.email',
  'principal.groups',
] as const;

const READS_IF_SET = [
  'request.alias',
  'request.session_key',
  'request.continues',
  'request.holds_state',
  'principal.token.group',
  'request.input_tokens_estimate',
  'request.max_tokens',
  'request.choices',
  'request.image_count',
  'cache.requested_ttl',
  'cache.effective_ttl',
  'route.upstream',
  'request.privileged_fields',
] as const;

const WRITES = [
  'route.estimate_nano_usd',
  'route.worst_case_nano_usd',
  'route.rule',
  'route.candidates',
  'route.dropped',
  ...MODEL_FACTS,
  ...CANDIDATE_FACTS,
] as const;

type RouteContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

/** State of a request whose route has several upstreams. */
interface Routed {
  readonly has_state_boundaries: boolean;
  /** Whether the next event may contain the id of a response that the upstream stores. */
  awaits_response_id: boolean;
}

/** Creates the routes of a pipeline; equal ones are shared. */
function routeMaker({ models, pipeline }: Services) {
  const surroundings = {
    upstream: (name: string) => models.upstream(name),
    translates: pipeline.stages.includes('translate'),
  };
  const known = new Map<string, Route>();
  return (upstreams: RoutingRule['upstreams'], rule?: Parameters<typeof createRoute>[2]): Route => {
    const route = createRoute(upstreams, surroundings, rule);
    if (!known.has(route.key)) known.set(route.key, route);
    return known.get(route.key)!;
  };
}

/** Compiles the routing rules. `rulesOf` caches the rules for a model: of hundreds, a request evaluates only those. */
function compileRules({ config, condition }: Services, routeTo: ReturnType<typeof routeMaker>) {
  const compiled = routingRules(config).map((rule) => {
    const { name, mode, models, logic, upstreams } = rule;
    return { name, mode, models, holds: condition(logic), route: routeTo(upstreams, rule) };
  });
  const by_model = new WeakMap<ModelConfig, typeof compiled>();
  const covers = ({ id }: ModelConfig, globs: readonly string[] = ['*']) => globs.some((glob) => matchesGlob(glob, id));
  return {
    routes: compiled.map(({ route }) => route),
    rulesOf(model: ModelConfig): readonly CompiledRule[] {
      const rules = by_model.get(model) ?? compiled.filter(({ models }) => covers(model, models));
      by_model.set(model, rules);
      return rules;
    },
  };
}

/** The first enforced rule that matches, and the matching rules in shadow mode above it. */
function findRule(rules: readonly CompiledRule[], facts: FactView) {
  let shadows: CompiledRule[] | undefined;
  for (const rule of rules) {
    if (!rule.holds(facts)) continue;
    if (rule.mode === 'enforce') return { rule, shadows };
    shadows ??= [];
    shadows.push(rule);
  }
  return { rule: undefined, shadows };
}

interface RequestedTokens {
  readonly input: number;
  readonly output: number | undefined;
  readonly choices: number;
}

export default defineStage({
  name: 'resolve-route',
  version: 1,
  summary: 'Decides which upstream serves the requested model for this caller.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [
    { title: 'Route by the rules of gateway.yaml', yaml: '- stage: resolve-route' },
    { title: 'Under another name in diagnostics', yaml: '- stage: resolve-route\n  id: route' },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  raises: ['model_not_found', 'invalid_request', 'forbidden', 'upstream_unavailable'],
  needs: ['raw-body', 'database'],
  create(_options, services) {
    const { models, config, clock, ledger } = services;
    const routeTo = routeMaker(services);
    const { routes: of_rules, rulesOf } = compileRules(services, routeTo);
    const default_upstream = config.routing.default_upstreams[0]!.upstream;
    const default_route = routeTo(config.routing.default_upstreams);
    const checkPrivileged = createPrivilegedCheck(config, models);
    const checkAccess = createAccessCheck(services);
    const refuseModel = createModelRefuser(config, services.log);
    const sessions = createSessionKeeper(services.upstreams);
    const routes = [default_route, ...of_rules];
    const keeps_responses =
      definitionNamed(services.pipeline.protocol)?.kept.responses === true &&
      routes.some((route) => route.has_state_boundaries);
    const choosing: Choosing = { states: services.upstreams, now: () => clock.now(), random: Math.random };

    /** The upstreams of a route that serve the model. Raises model_not_found. */
    function servingEntries(route: Route, model: ModelConfig, protocol: string, called: string): readonly RouteEntry[] {
      const all = route.entries(model, protocol);
      const isServing = ({ upstream }: RouteEntry) => models.isServedAt(model, upstream.name);
      if (all.every(isServing)) return all;
      const entries = all.filter(isServing);
      if (entries.length > 0) return entries;
      throw modelNotFound(called, { by: 'upstream', upstream: all[0]!.upstream.name });
    }

    /** Sets the costs, at the price of the default upstream: rules that choose the upstream may read them. */
    function setCosts(ctx: RouteContext, caller: ModelCaller, model: ModelConfig, requested: RequestedTokens): void {
      const { context_window, max_output_tokens } = model;
      const tokens: TokenCounts = {
        ...NO_TOKENS,
        input: Math.min(requested.input, context_window),
        output: Math.min(requested.output ?? max_output_tokens, max_output_tokens) * requested.choices,
      };
      const priced_as = { upstream: pricedAt(model, default_upstream), at: ctx.get('request.received_at') };
      const is_free = ctx.get('request.protocol') === 'count_tokens';
      const worst_case = is_free ? 0 : models.cost(model, tokens, priced_as);
      const usual = ledger.typicalCost(caller.email, model.id) ?? worst_case;
      ctx.set('route.worst_case_nano_usd', worst_case);
      ctx.set('route.estimate_nano_usd', Math.min(worst_case, usual));
    }

    /** A check of an upstream against the privileged fields of the request; `undefined` when there are none. */
    function privilegedCheck(ctx: RouteContext, caller: ModelCaller, model: ModelConfig): Needs['checkPrivileged'] {
      const fields = ctx.get('request.privileged_fields') as Readonly<Record<string, PrivilegedChoice>> | undefined;
      if (fields === undefined) {
        return ctx.url.includes('?') ? ({ upstream }) => refusePrivilegedQuery(ctx.url, upstream) ?? [] : undefined;
      }
      const facts = services.facts(ctx);
      const routeOf = (other: ModelConfig) =>
        findRule(rulesOf(other), factsFor(facts, other)).rule?.route ?? default_route;
      const called = ctx.get('request.alias') ?? model.id;
      const at = ctx.get('request.received_at');
      return ({ upstream }: RouteEntry) => {
        refusePrivilegedQuery(ctx.url, upstream);
        const servesThere = (other: ModelConfig) =>
          routeOf(other).upstreams.has(upstream.name) && models.isServedAt(other, upstream.name);
        return checkPrivileged(fields, { caller, model, called, upstream, at, servesThere });
      };
    }

    function setCandidates(
      ctx: RouteContext,
      { has_state_boundaries }: Route,
      { candidates, spare, dropped }: Choice,
    ): void {
      ctx.set(
        'route.candidates',
        candidates.slice(0, candidates.length - spare).map(({ upstream }) => upstream.name),
      );
      if (dropped !== undefined) ctx.set('route.dropped', dropped);
      const awaits_response_id = has_state_boundaries && keeps_responses && ctx.body?.value('store') !== false;
      ctx.state = { has_state_boundaries, awaits_response_id } satisfies Routed;
    }

    function keepResponseId(ctx: RouteContext, { data }: ResponseEvent): void {
      const routed = ctx.state as Routed | undefined;
      if (!routed?.awaits_response_id) return;
      routed.awaits_response_id = false;
      sessions.keepStored(data, ctx.get('route.upstream')!);
    }

    return {
      request(ctx) {
        const id = ctx.get('request.model');
        const model = models.find(id);
        const called = ctx.get('request.alias') ?? id;
        if (model === undefined) throw refuseModel(called, undefined);
        const caller = callerOf(ctx);
        const refusal = models.refusal(caller, model);
        if (refusal !== undefined) throw refuseModel(called, refusal);

        const about = modelFacts(model);
        for (const path of MODEL_FACTS) if (about[path] !== undefined) ctx.set(path, about[path]);
        const requested: RequestedTokens = {
          input: ctx.get('request.input_tokens_estimate') ?? 0,
          output: ctx.get('request.max_tokens'),
          choices: ctx.get('request.choices') ?? 1,
        };
        setCosts(ctx, caller, model, requested);
        const rules = rulesOf(model);
        const { rule, shadows } = rules.length === 0 ? {} : findRule(rules, services.facts(ctx));
        const route = rule?.route ?? default_route;
        const other = shadows?.find((shadow) => shadow.route !== route);
        if (other !== undefined) ctx.recordShadow(`routing:${other.name}`);
        ctx.set('route.rule', rule?.name ?? 'default');
        const caller_id = ctx.get('principal.id');
        const needs: Needs = {
          // The tokens of an image are unknown.
          tokens: ctx.get('request.image_count') ? 0 : requested.input + (requested.output ?? 0),
          cache_ttl: (ctx.get('cache.requested_ttl') ?? 'none') as CacheLifetime,
          model: id,
          session_key: ctx.get('request.session_key'),
          by: caller_id === undefined ? undefined : { caller: caller_id },
          continues: ctx.get('request.continues'),
          holds_state: ctx.get('request.holds_state') ?? false,
          checkPrivileged: privilegedCheck(ctx, caller, model),
        };
        const entries = servingEntries(route, model, ctx.get('request.protocol'), called);
        const { candidates, spare, dropped } = chooseCandidates(route, entries, needs, choosing);
        ctx.candidates = candidates;
        const { facts } = candidates[0]!;
        for (const path of CANDIDATE_FACTS) if (facts[path] !== undefined) ctx.set(path, facts[path]);
        checkAccess?.(ctx, model, facts['request.other_models']);
        if (entries.length > 1) setCandidates(ctx, route, { candidates, spare, dropped });
        return undefined;
      },
      // Session affinity: this upstream now has the prompts of the session cached.
      response(ctx, { status }) {
        const routed = ctx.state as Routed | undefined;
        if (routed === undefined || status >= 300) return;
        sessions.keep({
          upstream: ctx.get('route.upstream')!,
          session_key: ctx.get('request.session_key'),
          model: ctx.get('request.model'),
          continues: ctx.get('request.continues'),
          cache_ttl: ctx.get('cache.effective_ttl'),
          has_state_boundaries: routed.has_state_boundaries,
        });
      },
      ...(keeps_responses && { event: keepResponseId }),
    };
  },
});
