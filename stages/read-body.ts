import type { IncomingHttpHeaders } from 'node:http';
import { defineStage, type Services, type StageContext, StageError } from '../engine/api.ts';
import { jsonTypeProblem } from '../engine/base/kit/index.ts';
import {
  grantedIn,
  limitHeaders,
  limitInForce,
  limitsAtOnce,
  NO_CHANGES,
  RUN_TIME_RULE,
  refuseForLimits,
} from '../engine/domain/budget/index.ts';
import {
  type BodyFacts,
  byPath,
  type OtherBody,
  readBodyFacts,
  readOtherBody,
  sessionKey,
  wantsCallState,
} from '../engine/domain/protocols/index.ts';
import {
  modelNames,
  NO_MODEL,
  requestedWindow,
  servedNames,
  sharesSessions,
} from '../engine/domain/upstreams/index.ts';

const CALLER = [
  'principal.id',
  'principal.email',
  'principal.groups',
  'principal.team',
  'principal.project',
  'principal.token.id',
] as const;

const WRITES = [
  'request.limit_rule',
  'request.body_bytes',
  'request.model',
  'request.alias',
  'request.max_tokens',
  'request.stream',
  'request.choices',
  'request.tool_count',
  'request.tools',
  'request.server_tool_uses',
  'request.output_bounds',
  'request.iterations',
  'request.compacts',
  'request.message_count',
  'request.image_count',
  'request.unproven_reasoning',
  'request.session_key',
  'request.names_session',
  'request.continues',
  'request.holds_state',
  'request.input_tokens_estimate',
  'request.input_tokens_max',
  'request.context_window',
  'request.cache.ttl',
  'cache.requested_ttl',
  'request.service_tier',
  'request.speed',
  'request.inference_geo',
  'request.privileged_fields',
] as const;

type BodyContext = StageContext<'request.protocol', (typeof CALLER)[number], (typeof WRITES)[number]>;

/** The amounts in errors about concurrency limits, which reserve nothing. */
const NEEDS = { amount_nano_usd: 0, most_nano_usd: 0, tokens: 0 };

/** Enforces limits on concurrent requests in this process, before bodies are read. `check-budget` enforces them across replicas. */
function limitConcurrency({ config, condition, facts, limits_in_force, clock }: Services) {
  const limitsOf = limitsAtOnce(config, condition);
  if (limitsOf === undefined) return undefined;
  const { status = 429, advice, time_zone = 'UTC' } = config.spend_limits ?? {};
  const style = { status, advice, headers: limitHeaders(config.server.profile.header_prefix), time_zone };

  return async (ctx: BodyContext): Promise<void> => {
    const user = ctx.get('principal.email');
    if (user === undefined) return;
    const keys = {
      user,
      team: ctx.get('principal.team'),
      project: ctx.get('principal.project'),
      token: ctx.get('principal.token.id'),
    };
    for (const limit of limitsOf(keys, ctx.get('principal.groups') ?? [], () => facts(ctx))) {
      const slot = `${limit.scope} ${limit.key}`;
      if (ctx.claimSlot(slot, limit.limit)) continue;
      // If the limit cannot be read, the ledger decides: it has a policy for database outages.
      const found = await limits_in_force.changes(limit).catch(() => undefined);
      const changes = found ?? NO_CHANGES;
      const [set, granted] = [changes.set?.amount ?? null, grantedIn(changes)];
      const amount = found === undefined ? Number.POSITIVE_INFINITY : limitInForce(limit.limit, { set, granted })!;
      if (await ctx.waitForSlot(slot, amount)) continue;
      const rule = set === null ? limit.rule : RUN_TIME_RULE;
      ctx.set('request.limit_rule', rule);
      const taken = { limit: amount, spent: 0, reserved: amount, in_flight: amount, most: amount, resets_at: null };
      const refused = { ...limit, rule, ...taken, ...(granted > 0 && { granted }), changes };
      ctx.recordLimits([refused]);
      throw refuseForLimits([refused], NEEDS, style, clock.now());
    }
  };
}

/** Raises invalid_encoding, and invalid_request with status 415. */
function refuseOtherThanJson(headers: StageContext['headers']): void {
  switch (jsonTypeProblem((headers as IncomingHttpHeaders)['content-type'])) {
    case 'type': {
      const problem = 'The request body must be JSON, sent with "content-type: application/json".';
      throw new StageError('invalid_request', problem, { status: 415 });
    }
    case 'charset': {
      const problem =
        'The request body must be UTF-8: send it with "content-type: application/json", without a charset.';
      throw new StageError('invalid_encoding', problem);
    }
  }
}

/** Sets the session facts. A request without a session belongs to a session of its caller. */
function setSession(ctx: BodyContext, { key, is_named, continues }: NonNullable<BodyFacts['session']>): void {
  const caller = ctx.get('principal.id');
  const session = key ?? (caller === undefined ? undefined : sessionKey('caller', caller));
  if (session !== undefined) ctx.set('request.session_key', session);
  ctx.set('request.names_session', is_named);
  if (continues !== undefined) ctx.set('request.continues', continues);
}

export default defineStage({
  name: 'read-body',
  version: 1,
  summary: 'Reads the request body into memory and sets the facts that rules may use.',
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [{ title: 'No options', yaml: '- stage: read-body' }],
  reads: ['request.protocol'],
  readsIfSet: CALLER,
  writes: WRITES,
  raises: [
    'invalid_request',
    'invalid_json',
    'invalid_encoding',
    'body_too_large',
    'request_timeout',
    'rate_limit_exceeded',
    'overloaded',
    'bad_http',
  ],
  needs: ['raw-body', 'database'],
  create(_options, services) {
    const { models } = services;
    const refuseBusyCaller = limitConcurrency(services);
    const isModel = modelNames(models);
    const served_names = servedNames(services.config);
    const base_path = new URL(services.config.server.public_url).pathname.replace(/\/+$/, '');
    // State of tool calls is remembered by session.
    const wants_session = sharesSessions(services.config) || wantsCallState(services.config);
    const wants_tools = services.pipeline.facts_read.has('request.tools');

    /** Sets the model facts. The routing stage rejects unknown models. */
    function setModel(ctx: BodyContext, called: string): void {
      const model = models.find(called, ctx.get('principal.groups'))?.id ?? called;
      ctx.set('request.model', model);
      if (model !== called) ctx.set('request.alias', called);
    }

    /** Sets the facts of a request to another API, such as embeddings. It has no prompt to cache. */
    function setOtherFacts(ctx: BodyContext, facts: OtherBody): void {
      if (facts.model === undefined) ctx.set('request.model', NO_MODEL.id);
      else setModel(ctx, facts.model);
      ctx.set('request.stream', facts.stream);
      ctx.set('request.choices', facts.choices);
      ctx.set('request.input_tokens_estimate', facts.input_tokens_estimate);
      ctx.set('request.input_tokens_max', facts.input_tokens_max);
      ctx.set('request.iterations', 1);
      ctx.set('request.cache.ttl', 'none');
      ctx.set('cache.requested_ttl', 'none');
      setServed(ctx, Object.fromEntries(facts.privileged.map(({ rule, value }) => [rule.name, value])));
      if (facts.privileged.length > 0) ctx.set('request.privileged_fields', byPath(facts.privileged));
    }

    function setServed(ctx: BodyContext, { service_tier, speed, inference_geo }: BodyFacts['served']): void {
      if (service_tier !== undefined && served_names.has(service_tier)) ctx.set('request.service_tier', service_tier);
      if (speed !== undefined && served_names.has(speed)) ctx.set('request.speed', speed);
      if (inference_geo !== undefined && served_names.has(inference_geo))
        ctx.set('request.inference_geo', inference_geo);
    }

    function setModelFacts(ctx: BodyContext, facts: BodyFacts): void {
      setModel(ctx, facts.model);
      if (facts.max_tokens !== undefined) ctx.set('request.max_tokens', facts.max_tokens);
      ctx.set('request.stream', facts.stream);
      ctx.set('request.choices', facts.choices);
      ctx.set('request.tool_count', facts.tool_count);
      if (wants_tools) ctx.set('request.tools', facts.tool_names());
      ctx.set('request.server_tool_uses', facts.server_tool_uses);
      ctx.set('request.output_bounds', facts.output_bounds);
      ctx.set('request.iterations', facts.iterations ?? 0);
      ctx.set('request.compacts', facts.compacts);
      ctx.set('request.message_count', facts.message_count);
      ctx.set('request.image_count', facts.image_count);
      if (facts.unproven_reasoning !== undefined) ctx.set('request.unproven_reasoning', facts.unproven_reasoning);
      ctx.set('request.holds_state', facts.holds_state);
      if (wants_session) setSession(ctx, facts.session!);
      ctx.set('request.input_tokens_estimate', facts.input_tokens_estimate);
      ctx.set('request.input_tokens_max', facts.input_tokens_max);
      const context_window = requestedWindow(ctx.headers);
      if (context_window !== undefined) ctx.set('request.context_window', context_window);
      ctx.set('request.cache.ttl', facts.cache_ttl);
      ctx.set('cache.requested_ttl', facts.cache_requested);
      setServed(ctx, facts.served);
      if (facts.privileged !== undefined) ctx.set('request.privileged_fields', facts.privileged);
    }

    return {
      async request(ctx) {
        const protocol = ctx.get('request.protocol');
        const is_other_api = protocol === 'none';
        if (!is_other_api) refuseOtherThanJson(ctx.headers);
        if (refuseBusyCaller !== undefined) await refuseBusyCaller(ctx);
        const body = await ctx.readBody();
        ctx.set('request.body_bytes', body.bytes.length);
        if (is_other_api) setOtherFacts(ctx, await readOtherBody(ctx.headers, body, isModel));
        else {
          const session_headers = wants_session ? ctx.headers : undefined;
          setModelFacts(ctx, await readBodyFacts(protocol, body, { isModel, session_headers, base_path }));
        }
        return undefined;
      },
    };
  },
});
