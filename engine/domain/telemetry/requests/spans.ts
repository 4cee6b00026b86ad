import type { ErrorDetails } from '../../../base/contract/errors.ts';
import { FACTS } from '../../../base/contract/facts.ts';
import type { EndedRequest } from '../../../base/contract/telemetry.ts';
import { isNanoUsd, nanoToUsd } from '../../../base/kit/money.ts';
import type { Attributes, AttributeValue, FinishedSpan, SpanEvent } from '../spans.ts';
import { remainingUsd, tightestOf, usedRatio } from './budgets.ts';
import { type EndedAttempt, isUnconfirmed, type RequestEnding } from './ending.ts';

/** Span data of a sampled request, beside its ending. */
export interface Sampled {
  readonly reason: string;
  /** Pseudonym of the caller, with `telemetry.caller: pseudonym`. */
  readonly caller: string | undefined;
  /** Converts a time on the monotonic clock to milliseconds since the epoch. */
  epoch(monotonic: number): number;
}

/** The spans of a request and its attempts. */
export function spansOf(ending: RequestEnding, sampled: Sampled): readonly FinishedSpan[] {
  const { request, attempts } = ending;
  const { trace } = request.notes;
  const common = { trace_id: trace.trace_id, trace_state: trace.trace_state };
  const whole: FinishedSpan = {
    ...common,
    name: `${ending.method} ${ending.route}`,
    kind: 'server',
    span_id: trace.span_id,
    parent_span_id: trace.parent_span_id,
    began_at: sampled.epoch(request.started_at),
    ended_at: sampled.epoch(ending.ended_at),
    attributes: requestAttributes(ending, sampled),
    events: requestEvents(ending, sampled),
    failed: ending.outcome === 'failed',
  };
  const of_attempts = attempts.map((attempt): FinishedSpan => {
    const { record, began_at = request.started_at, ended_at, error } = attempt;
    return {
      ...common,
      name: `${ending.operation} ${record.upstream_model}`,
      kind: 'client',
      span_id: trace.attemptSpanId(record.n),
      parent_span_id: trace.span_id,
      began_at: sampled.epoch(began_at),
      ended_at: sampled.epoch(ended_at),
      attributes: attemptAttributes(ending, attempt),
      events: NO_EVENTS,
      failed: error !== undefined,
    };
  });
  return [whole, ...of_attempts];
}

/** Facts that are span attributes unchanged; route facts only if the request reached an upstream. */
const FACT_ATTRIBUTES = Object.entries(FACTS).flatMap(([path, { attribute }], index) => {
  const is_of_route = /^(?:route|translation)\.|^outcome\.rewrites$/.test(path);
  return attribute === undefined ? [] : [{ attribute, index, is_money: isNanoUsd(path), is_of_route }];
});

function requestAttributes(ending: RequestEnding, { reason, caller }: Sampled): Attributes {
  const { request, known, outcome, status, error_code, model, upstream, attempts } = ending;
  const { address } = known;
  const attributes: Record<string, AttributeValue | undefined> = {
    'http.request.method': ending.method,
    'http.route': ending.route,
    'http.response.status_code': status,
    'url.scheme': address.scheme,
    'server.address': address.host,
    'server.port': address.port,
    'user_agent.name': fitting(request.peek('request.client.name'), PRODUCT),
    'user_agent.version': fitting(request.peek('request.client.version'), VERSION),
    'gateway.protocol': ending.protocol,
    'gateway.outcome': outcome,
    'gateway.pipeline': request.pipeline.spec.name,
    'gateway.config.hash': known.hash,
    'gateway.sampled.reason': reason === 'ratio' ? undefined : reason,
    'gateway.model': model,
    'gateway.model.unknown': model === undefined ? unknownModel(request.peek('request.model')) : undefined,
  };
  for (const { attribute, index, is_money, is_of_route } of FACT_ATTRIBUTES) {
    const value = is_of_route && upstream === undefined ? undefined : request.factAt(index);
    if (value !== undefined) attributes[attribute] = is_money ? nanoToUsd(value as number) : (value as AttributeValue);
  }
  if (caller !== undefined) {
    attributes['enduser.id'] = caller;
    attributes['gen_ai.conversation.id'] = fitting(request.peek('request.session_id'), UUID);
  }
  if (upstream !== undefined) {
    const replaced = request.peek('outcome.replaced');
    attributes['gateway.replaced'] = replaced && Object.keys(replaced);
    attributes['gateway.attempts'] = attempts.length > 1 ? attempts.length : undefined;
    attributes['gateway.fallback'] = ending.fallbacks.length > 0 || undefined;
    attributes['gateway.unconfirmed_attempts'] = request.attempts.filter(isUnconfirmed).length || undefined;
    const requested = request.peek('cache.requested_ttl');
    if (requested !== undefined && requested !== 'none') {
      attributes['gateway.cache.requested'] = requested;
      attributes['gateway.cache.effective'] = request.peek('cache.effective_ttl');
      attributes['gateway.cache.downgraded'] = ending.downgraded || undefined;
    }
  }
  const cost_from = request.peek('usage.provenance')?.cost;
  if (typeof cost_from === 'string' && cost_from !== 'upstream') attributes['gateway.cost.source'] = cost_from;
  const tightest = tightestOf(request.notes.limits);
  if (tightest !== undefined) {
    attributes['gateway.budget.rule'] = tightest.rule;
    attributes['gateway.budget.window'] = tightest.window;
    attributes['gateway.budget.used_ratio'] = usedRatio(tightest);
    attributes['gateway.budget.remaining_usd'] = remainingUsd(tightest);
  }
  if (outcome === 'failed') attributes['error.type'] = error_code ?? String(status);
  if (outcome === 'aborted') attributes['gateway.aborted'] = true;
  if (request.shadows.length > 0) attributes['gateway.shadow'] = request.shadows;
  return attributes;
}

function attemptAttributes(ending: RequestEnding, attempt: EndedAttempt): Attributes {
  const { record, is_last, upstream, protocol } = attempt;
  const { request } = ending;
  const choices = request.peek('request.choices');
  const has_answered = record.outcome === 'answered';
  return {
    'gen_ai.operation.name': ending.operation,
    'gen_ai.request.model': record.upstream_model,
    'gen_ai.provider.name': attempt.provider,
    'gen_ai.request.max_tokens': request.peek('request.max_tokens'),
    'gen_ai.request.stream': request.peek('request.stream'),
    'gen_ai.request.choice.count': choices === 1 ? undefined : choices,
    'server.address': upstream?.address.host,
    'server.port': upstream?.address.port,
    'gateway.upstream.region': upstream?.region,
    'gateway.upstream': record.upstream,
    'gateway.attempt': record.n,
    'gateway.attempt.reason': record.reason,
    'http.response.status_code': record.status ?? undefined,
    'gateway.upstream.request_id': fitting(record.upstream_request_id, UPSTREAM_ID),
    'gateway.upstream.protocol': protocol === ending.protocol ? undefined : protocol,
    'error.type': attempt.error,
    'gateway.attempt.sends': record.sends === 1 ? undefined : record.sends,
    'gateway.attempt.outcome': has_answered ? undefined : record.outcome,
    'gateway.attempt.certainty': has_answered ? undefined : record.certainty,
    ...(is_last && has_answered && answerAttributes(request)),
    ...(is_last && usageAttributes(ending, has_answered)),
    // Earlier attempts may have a cost, too.
    'gateway.cost_usd':
      is_last && request.attempts.length === 1 ? usdOf(request.peek('usage.cost_nano_usd')) : undefined,
  };
}

function answerAttributes(request: EndedRequest): Attributes {
  const ttfb_ms = request.peek('upstream.ttfb_ms');
  const seconds = ttfb_ms === undefined ? undefined : ttfb_ms / 1000;
  const is_stream = request.peek('request.stream') === true;
  const model = fitting(request.peek('usage.answered_model'), MODEL_NAME) ?? request.peek('route.upstream_model');
  return {
    'gen_ai.response.model': model,
    'gen_ai.response.time_to_first_chunk': is_stream && model !== undefined ? seconds : undefined,
    'gateway.time_to_first_byte': is_stream ? undefined : seconds,
  };
}

function usageAttributes({ usage, protocol, known }: RequestEnding, has_answered: boolean): Attributes {
  // Without a response usage is unknown, which is not 0.
  if (usage === undefined || protocol === 'count_tokens') return {};
  if (!has_answered && usage.input + usage.output === 0) return {};
  return {
    'gen_ai.usage.input_tokens': usage.input,
    'gen_ai.usage.output_tokens': usage.output,
    'gen_ai.usage.cache_read.input_tokens': usage.cache_read || undefined,
    [known.conventions.cache_write]: usage.cache_write || undefined,
  };
}

function usdOf(nano_usd: number | undefined): number | undefined {
  return nano_usd === undefined ? undefined : nanoToUsd(nano_usd);
}

const NO_EVENTS: readonly SpanEvent[] = [];

function requestEvents(ending: RequestEnding, { epoch }: Sampled): readonly SpanEvent[] {
  const { request, decisions, fallbacks, upstream, error_code, ended_at } = ending;
  const { attempt_times } = request.notes;
  const decided_at = epoch(attempt_times[0]?.began_at ?? ended_at);
  const events: SpanEvent[] = decisions.map(({ kind, rule, mode, outcome }) => ({
    name: 'gateway.decision',
    at: decided_at,
    attributes: {
      'gateway.decision.kind': kind,
      'gateway.rule': rule,
      'gateway.rule.mode': mode,
      'gateway.decision.outcome': outcome,
      'gateway.upstream': outcome === 'routed' ? upstream : undefined,
    },
  }));
  if (ending.downgraded) {
    const attributes = {
      'gateway.cache.requested': request.peek('cache.requested_ttl'),
      'gateway.cache.effective': request.peek('cache.effective_ttl'),
      'gateway.cache.downgrade.reason': 'upstream_unsupported',
      'gateway.upstream': upstream,
    };
    events.push({ name: 'gateway.cache.downgraded', at: decided_at, attributes });
  }
  for (const { upstream: left, reason, attempt } of fallbacks) {
    const at = attempt === undefined ? decided_at : epoch(attempt_times[attempt - 1]?.ended_at ?? ended_at);
    const attributes = { 'gateway.upstream': left, 'gateway.fallback.reason': reason, 'gateway.attempt': attempt };
    events.push({ name: 'gateway.fallback', at, attributes });
  }
  if (error_code !== undefined) {
    for (const attributes of refusals(ending))
      events.push({ name: 'gateway.refused', at: epoch(ended_at), attributes });
  }
  return events;
}

/** One event for each exceeded limit, the one of the error message first. */
function refusals({ request, error_code, refused_by }: RequestEnding): readonly Attributes[] {
  const { error, limits } = request.notes;
  const common = { 'gateway.error.code': error_code, 'gateway.error.stage': request.peek('error.stage') };
  const details = error?.details ?? {};
  const { exceeded } = details;
  const first = { ...common, 'gateway.rule': refused_by, ...limitAttributes(details) };
  if (!Array.isArray(exceeded)) return [first];
  const others = (exceeded as readonly ErrorDetails[]).slice(1).map((detail) => {
    const status = limits.find(({ rule, window }) => rule === detail.rule && window === detail.window);
    return {
      ...common,
      'gateway.rule': textOf(detail.rule),
      ...limitAttributes(detail),
      ...(status && {
        'gateway.limit.spent': nanoToUsd(status.spent),
        'gateway.limit.held': nanoToUsd(status.reserved),
      }),
    };
  });
  return [first, ...others];
}

/** A limit as in error details, without its key. */
function limitAttributes(details: ErrorDetails): Attributes {
  const { scope, window, limit_usd, spent_usd, reserved_usd, needed_usd, unit } = details;
  if (window === undefined) return {};
  const is_money = limit_usd !== undefined;
  return {
    'gateway.limit.scope': textOf(scope),
    'gateway.limit.window': textOf(window),
    'gateway.limit.unit': is_money ? 'usd' : textOf(unit),
    'gateway.limit.limit': numberOf(is_money ? limit_usd : details.limit),
    'gateway.limit.spent': numberOf(is_money ? spent_usd : details.used),
    'gateway.limit.held': numberOf(is_money ? reserved_usd : details.reserved),
    'gateway.limit.needed': numberOf(is_money ? needed_usd : details.needed),
    'gateway.limit.resets_at': textOf(details.resets_at),
  };
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : undefined);
const numberOf = (value: unknown) => (typeof value === 'number' ? value : undefined);

/** Product names of user agents; a longer text, more digits or other characters are no product name. */
const PRODUCT = /^(?=.{1,30}$)[A-Za-z][A-Za-z_.-]*\d{0,2}[A-Za-z_.-]*$/;
const VERSION = /^\d{1,6}(?:\.\d{1,6}){0,3}(?:[.+-][0-9A-Za-z.-]{1,20})?$/;
const MODEL_NAME = /^[\w][\w./:@+-]{0,99}$/;
/** Session ids: a UUID identifies no person. */
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const UPSTREAM_ID = /^[\w.:/+=-]{1,100}$/;
/** Prefixes and formats of access tokens, session tokens and provider keys. */
const CREDENTIAL = /^(?:sk|pk|gw|key|tok|token|bearer|eyJ)[-_.]|[\w-]{20,}\.[\w-]{20,}\.|[A-Za-z0-9_-]{40,}/i;

function fitting(text: string | undefined, form: RegExp): string | undefined {
  return text !== undefined && form.test(text) ? text : undefined;
}

function unknownModel(text: string | undefined): string | undefined {
  const name = fitting(text, MODEL_NAME);
  return name === undefined || name.includes('@') || CREDENTIAL.test(name) ? undefined : name;
}
