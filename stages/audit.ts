import { type AttemptRecord, type AuditRecord, defineStage, nanoToUsd, type StageContext } from '../engine/api.ts';
import { RECORDED_FACTS } from '../engine/audit/index.ts';

const READS = ['request.id', 'request.method', 'request.path', 'request.protocol', 'request.received_at'] as const;

const READS_IF_SET = [
  'request.client.address',
  'request.region',
  'request.body_bytes',
  'request.alias',
  'request.choices',
  'request.image_count',
  'request.max_tokens',
  'request.tool_count',
  'request.message_count',
  'request.input_tokens_estimate',
  'request.input_tokens_max',
  'request.cache.ttl',
  'cache.requested_ttl',
  'cache.effective_ttl',
  'cache.downgraded',
  'principal.groups',
  'principal.token.name',
  'principal.token.group',
  'route.estimate_nano_usd',
  'route.worst_case_nano_usd',
  'request.agent',
  'request.client.name',
  'request.client.version',
  'request.session_id',
  'request.other_models',
  'request.service_tier',
  'request.speed',
  'request.inference_geo',
  'request.dropped_headers',
  'request.model',
  'request.stream',
  'principal.id',
  'principal.email',
  'principal.team',
  'principal.project',
  'principal.token.id',
  'route.upstream',
  'route.protocol',
  'route.upstream_model',
  'route.rule',
  'route.candidates',
  'route.dropped',
  'spend.rule',
  'request.limit_rule',
  'spend.reserved_nano_usd',
  'spend.unreserved',
  'translation.losses',
  'upstream.status',
  'upstream.attempts',
  'upstream.ttfb_ms',
  'upstream.retry',
  'upstream.certainty',
  'upstream.request_id',
  'upstream.error_rewritten',
  'usage.input_tokens',
  'usage.output_tokens',
  'usage.cache_read_input_tokens',
  'usage.cache_write_5m_input_tokens',
  'usage.cache_write_1h_input_tokens',
  'usage.billed',
  'usage.provenance',
  'usage.cost_nano_usd',
  'usage.possibly_billed_nano_usd',
  'outcome.status',
  'outcome.error',
  'outcome.aborted',
  'outcome.drained',
  'outcome.duration_ms',
  'outcome.rewrites',
  'outcome.replaced',
  'outcome.shadow',
  'error.stage',
] as const;

/** Longest model identifier that is kept: it is whatever the client sent, and records wait in memory while the store is away. */
const MODEL_LENGTH_MAX = 200;

type AuditContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], never>;

/** What rules may have looked at, so that a decision can be followed later. Left out where it is not known. */
function describeInputs(ctx: AuditContext): AuditRecord {
  const estimate = ctx.get('route.estimate_nano_usd');
  const worst_case = ctx.get('route.worst_case_nano_usd');
  return {
    received_at: new Date(ctx.get('request.received_at')).toISOString(),
    address: ctx.get('request.client.address'),
    region: ctx.get('request.region'),
    groups: ctx.get('principal.groups'),
    token_name: ctx.get('principal.token.name'),
    token_group: ctx.get('principal.token.group'),
    body_bytes: ctx.get('request.body_bytes'),
    alias: ctx.get('request.alias')?.slice(0, MODEL_LENGTH_MAX),
    choices: ctx.get('request.choices'),
    image_count: ctx.get('request.image_count'),
    max_tokens: ctx.get('request.max_tokens'),
    tool_count: ctx.get('request.tool_count'),
    message_count: ctx.get('request.message_count'),
    input_tokens_estimate: ctx.get('request.input_tokens_estimate'),
    input_tokens_max: ctx.get('request.input_tokens_max'),
    cache_ttl: ctx.get('request.cache.ttl'),
    cache_requested_ttl: ctx.get('cache.requested_ttl'),
    ...describeDowngrade(ctx),
    other_models: ctx.get('request.other_models'),
    service_tier: ctx.get('request.service_tier'),
    speed: ctx.get('request.speed'),
    inference_geo: ctx.get('request.inference_geo'),
    dropped_headers: ctx.get('request.dropped_headers'),
    agent: ctx.get('request.agent'),
    estimate_usd: estimate === undefined ? undefined : nanoToUsd(estimate),
    worst_case_usd: worst_case === undefined ? undefined : nanoToUsd(worst_case),
  };
}

/** That a shorter lifetime of the prompt cache was asked for than the client asked for; nothing elsewhere. */
function describeDowngrade(ctx: AuditContext): AuditRecord {
  if (ctx.get('cache.downgraded') !== true) return {};
  return { cache_effective_ttl: ctx.get('cache.effective_ttl'), cache_downgraded: true };
}

/** What is out of the ordinary about the bill: as what it was billed, that more was reported than is possible, or nothing. */
function describeBill(ctx: AuditContext): AuditRecord {
  const billed = ctx.get('usage.billed');
  const clamped = ctx.get('usage.provenance')?.cost === 'clamped';
  const unknown = ctx.get('usage.provenance')?.input === 'unknown';
  return { ...(billed && { billed }), ...(clamped && { clamped }), ...(unknown && { usage: 'unknown' }) };
}

/** Every attempt, where the first was not the only one or did not serve; the other fields tell all about one that did. */
function describeAttempts({ attempts }: AuditContext): readonly AttemptRecord[] | undefined {
  const [first] = attempts;
  return first === undefined || (attempts.length === 1 && first.outcome === 'answered') ? undefined : attempts;
}

/** What is kept of a request: who, what, by which decisions, with which result. No text of anybody's prompt. */
function describe(ctx: AuditContext, now: number): AuditRecord {
  const cost = ctx.get('usage.cost_nano_usd');
  const possibly_billed = ctx.get('usage.possibly_billed_nano_usd');
  const reserved = ctx.get('spend.reserved_nano_usd');
  const ttfb = ctx.get('upstream.ttfb_ms');
  return {
    at: new Date(now).toISOString(),
    request_id: ctx.get('request.id'),
    trace_id: ctx.trace.trace_id,
    user: ctx.get('principal.email') ?? null,
    principal: ctx.get('principal.id') ?? null,
    token_id: ctx.get('principal.token.id') ?? null,
    team: ctx.get('principal.team') ?? null,
    project: ctx.get('principal.project') ?? null,
    protocol: ctx.get('request.protocol'),
    method: ctx.get('request.method'),
    path: ctx.get('request.path'),
    model: ctx.get('request.model')?.slice(0, MODEL_LENGTH_MAX) ?? null,
    stream: ctx.get('request.stream') ?? null,
    upstream: ctx.get('route.upstream') ?? null,
    upstream_protocol: ctx.get('route.protocol'),
    upstream_model: ctx.get('route.upstream_model'),
    route_rule: ctx.get('route.rule') ?? null,
    candidates: ctx.get('route.candidates'),
    dropped: ctx.get('route.dropped'),
    spend_rule: ctx.get('spend.rule') ?? ctx.get('request.limit_rule') ?? null,
    reserved_usd: reserved === undefined ? undefined : nanoToUsd(reserved),
    unreserved: ctx.get('spend.unreserved'),
    status: ctx.get('outcome.status') ?? null,
    upstream_status: ctx.get('upstream.status') ?? null,
    sends: ctx.get('upstream.attempts'),
    attempts: describeAttempts(ctx),
    retry: ctx.get('upstream.retry'),
    certainty: ctx.get('upstream.certainty'),
    upstream_request_id: ctx.get('upstream.request_id') ?? null,
    ...(ctx.get('upstream.error_rewritten') && { error_rewritten: true }),
    error: ctx.get('outcome.error') ?? null,
    stage: ctx.get('error.stage') ?? null,
    aborted: ctx.get('outcome.aborted') ?? ctx.aborted,
    drained: ctx.get('outcome.drained'),
    rewrites: ctx.get('outcome.rewrites') ?? [],
    replaced: ctx.get('outcome.replaced'),
    losses: ctx.get('translation.losses'),
    shadow: ctx.get('outcome.shadow'),
    input_tokens: ctx.get('usage.input_tokens'),
    output_tokens: ctx.get('usage.output_tokens'),
    cache_read_tokens: ctx.get('usage.cache_read_input_tokens'),
    cache_write_5m_tokens: ctx.get('usage.cache_write_5m_input_tokens'),
    cache_write_1h_tokens: ctx.get('usage.cache_write_1h_input_tokens'),
    ...describeBill(ctx),
    cost_usd: cost === undefined ? undefined : nanoToUsd(cost),
    cost_from: ctx.get('usage.provenance')?.cost as string | undefined,
    possibly_billed_usd: possibly_billed === undefined ? undefined : nanoToUsd(possibly_billed),
    ttfb_ms: ttfb === undefined ? undefined : Math.round(ttfb),
    duration_ms: Math.round(ctx.get('outcome.duration_ms') ?? 0),
    client: ctx.get('request.client.name') ?? null,
    client_version: ctx.get('request.client.version') ?? null,
    session_id: ctx.get('request.session_id') ?? null,
    ...describeInputs(ctx),
  };
}

export default defineStage({
  name: 'audit',
  version: 1,
  place: 'finally',
  summary:
    'Records every request, refused ones included, in the audit table and as JSON lines, without any prompt text.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      table: { type: 'boolean', default: true, description: 'Whether records go to the audit_log table.' },
      json_lines: {
        type: 'string',
        minLength: 1,
        description: 'File that records are appended to, one JSON object per line; "-" is standard output.',
      },
    },
  },
  examples: [
    { title: 'Record in the database', yaml: '- stage: audit' },
    { title: 'Record in a file as well', yaml: '- stage: audit\n  options: { json_lines: audit.jsonl }' },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  needs: ['database'],
  check: ({ table, json_lines }) =>
    table || json_lines !== undefined ? [] : ['with "table: false" and no "json_lines" nothing is recorded anywhere'],
  create({ table, json_lines }, { audit, clock, decisions }) {
    return {
      finally(ctx) {
        const record = { ...describe(ctx, clock.now()), ...decisions(ctx, RECORDED_FACTS) };
        if (table) audit.write(record);
        if (json_lines !== undefined) audit.appendLine(json_lines, record);
      },
    };
  },
});
