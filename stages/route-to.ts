import {
  defineStage,
  type ModelCaller,
  type ModelConfig,
  type StageContext,
  StageError,
  type TokenCounts,
  usdToNano,
} from '../engine/api.ts';
import { NO_TOKENS, textsOf } from '../engine/domain/budget/index.ts';
import { isForm, type PrivilegedChoice } from '../engine/domain/protocols/index.ts';
import {
  type Choosing,
  callerOf,
  chooseCandidates,
  createAccessCheck,
  createPrivilegedCheck,
  createRoute,
  MODEL_FACTS,
  modelFacts,
  modelNotFound,
  type Needs,
  NO_MODEL,
  refusePrivilegedQuery,
  UPSTREAM_FACTS,
} from '../engine/domain/upstreams/index.ts';

const READS = [
  'request.protocol',
  'request.model',
  'request.received_at',
  'request.input_tokens_estimate',
  'request.input_tokens_max',
  'principal.email',
  'principal.groups',
] as const;

const READS_IF_SET = [
  'request.alias',
  'request.choices',
  'request.max_tokens',
  'request.privileged_fields',
  'principal.token.group',
] as const;

const WRITES = [
  'route.estimate_nano_usd',
  'route.worst_case_nano_usd',
  'route.per_request_nano_usd',
  'request.other_models',
  ...MODEL_FACTS,
  ...UPSTREAM_FACTS,
] as const;

type RouteContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

export default defineStage({
  name: 'route-to',
  version: 1,
  summary: 'Sends requests of other APIs, such as embeddings or files, to one upstream, and checks the models in them.',
  options: {
    type: 'object',
    additionalProperties: false,
    required: ['upstream'],
    properties: {
      upstream: {
        type: 'string',
        minLength: 1,
        'x-ref': 'upstream',
        description: 'Name of the upstream in gateway.yaml.',
      },
      per_request_usd: {
        type: 'number',
        minimum: 0,
        maximum: 1_000_000,
        'x-amount': 'usd',
        description:
          'Cost of one request in USD, where the response does not report usage in priced tokens. It is reserved before the request is sent, and is the cost in the ledger.',
      },
      unknown_cost: {
        enum: ['refuse', 'allow'],
        default: 'refuse',
        description:
          'What happens to a request of unknown cost: without a priced model and without per_request_usd. refuse: it is rejected. allow: it is sent and costs nothing in the ledger, so no spend limit counts it.',
      },
    },
  },
  examples: [
    { title: 'Price by model, as for embeddings', yaml: '- stage: route-to\n  options: { upstream: main }' },
    {
      title: 'A price per request where responses report no usage',
      yaml: '- stage: route-to\n  options: { upstream: main, per_request_usd: 0.05 }',
    },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  raises: ['model_not_found', 'invalid_request', 'forbidden', 'upstream_unavailable'],
  needs: ['raw-body', 'database'],
  check({ per_request_usd, unknown_cost }) {
    return unknown_cost === 'allow' && per_request_usd !== undefined
      ? ['`unknown_cost: allow` has no effect with `per_request_usd`: remove it']
      : [];
  },
  create({ upstream: name, per_request_usd, unknown_cost }, services) {
    const { config, models, clock, ledger } = services;
    const upstream = models.upstream(name);
    const route = createRoute([{ upstream: name, order: 1, weight: 1 }], {
      upstream: (each) => models.upstream(each),
      translates: false,
    });
    const per_request = per_request_usd === undefined ? undefined : usdToNano(per_request_usd);
    const checkAccess = createAccessCheck(services);
    const checkPrivileged = createPrivilegedCheck(config, models);
    const choosing: Choosing = { states: services.upstreams, now: () => clock.now(), random: Math.random };

    /** The requested model; `NO_MODEL` for a request without one. Raises model_not_found and invalid_request. */
    function modelOf(ctx: RouteContext, caller: ModelCaller): ModelConfig {
      const id = ctx.get('request.model');
      const model = models.charged(id);
      const called = ctx.get('request.alias') ?? id;
      if (model === undefined) throw modelNotFound(called, undefined);
      if (model === NO_MODEL) return model;
      const refusal = models.refusal(caller, model);
      if (refusal !== undefined) throw modelNotFound(called, refusal);
      const there = model.upstream_ids[name] ?? model.id;
      if (there !== called && isForm(ctx.headers)) {
        const why = `form bodies are sent unchanged, and the upstream "${name}" knows the model "${called}" as "${there}"`;
        throw new StageError(
          'invalid_request',
          `model: ${why}; use a model that has the same name here and at the upstream.`,
          { details: { param: 'model' } },
        );
      }
      return model;
    }

    /** Further models in the request, such as those of the requests in a batch. */
    function othersOf(ctx: RouteContext, caller: ModelCaller, model: ModelConfig): readonly string[] {
      refusePrivilegedQuery(ctx.url, upstream);
      const privileged = ctx.get('request.privileged_fields') as Readonly<Record<string, PrivilegedChoice>> | undefined;
      if (privileged === undefined) return [];
      const called = ctx.get('request.alias') ?? model.id;
      const at = ctx.get('request.received_at');
      return checkPrivileged(privileged, { caller, model, called, upstream, at, servesThere: () => true });
    }

    function refuseUnknownCost(model: ModelConfig): void {
      if (model !== NO_MODEL || per_request !== undefined || unknown_cost === 'allow') return;
      throw new StageError(
        'forbidden',
        'The cost of this request is unknown, so it was not sent. An administrator can set its cost: `per_request_usd` of the stage route-to.',
      );
    }

    /** Sets the worst-case and the typical cost. */
    function setCosts(ctx: RouteContext, caller: ModelCaller, model: ModelConfig): void {
      const texts = textsOf(ctx);
      const tokens: TokenCounts = {
        ...NO_TOKENS,
        input: Math.min(ctx.get('request.input_tokens_estimate'), model.context_window * texts),
        output: model.max_output_tokens * texts,
      };
      const by_tokens = models.cost(model, tokens, { upstream: name, at: ctx.get('request.received_at') });
      const worst = Math.max(by_tokens, per_request ?? 0);
      ctx.set('route.worst_case_nano_usd', worst);
      const usual = model === NO_MODEL ? worst : (ledger.typicalCost(caller.email, model.id) ?? worst);
      ctx.set('route.estimate_nano_usd', Math.min(worst, usual));
      if (per_request !== undefined) ctx.set('route.per_request_nano_usd', per_request);
    }

    return {
      request(ctx) {
        const caller = callerOf(ctx);
        const model = modelOf(ctx, caller);
        if (model !== NO_MODEL) {
          const about = modelFacts(model);
          for (const path of MODEL_FACTS) if (about[path] !== undefined) ctx.set(path, about[path]);
        }
        refuseUnknownCost(model);
        setCosts(ctx, caller, model);
        const others = othersOf(ctx, caller, model);
        const needs: Needs = {
          ...{ tokens: 0, model: model.id, session_key: undefined, continues: undefined, holds_state: false },
          cache_ttl: 'none',
        };
        const entries = route.entries(model, ctx.get('request.protocol'));
        const { candidates } = chooseCandidates(route, entries, needs, choosing);
        const { facts } = candidates[0]!;
        ctx.candidates = candidates;
        for (const path of UPSTREAM_FACTS) if (facts[path] !== undefined) ctx.set(path, facts[path]);
        if (others.length > 0) ctx.set('request.other_models', others);
        checkAccess?.(ctx, model, others);
        return undefined;
      },
    };
  },
});
