import type { AttemptRecord } from '../../contract/forwarding.ts';
import type { EndedRequest } from '../../contract/telemetry.ts';
import { addModelAnswer, addModelUsage, modelRequestAttributes, operationOf } from '../conventions.ts';
import type { Attributes, AttributeValue, FinishedSpan } from '../spans.ts';
import { put, type SpanParts, usdOf } from './request-span.ts';
import { answeredModel, upstreamId } from './texts.ts';
import { usageOf } from './usage.ts';

/** What went wrong with an attempt, in a word of a small closed set; `undefined` where it served and nothing broke it off. */
export function errorOfAttempt({ outcome, status }: AttemptRecord, broken_by: string | undefined): string | undefined {
  if (outcome !== 'answered') return outcome === 'gone' ? undefined : outcome;
  if (status !== null && status >= 400) return String(status);
  return broken_by;
}

/** What broke off the answer that the last attempt began. */
export function brokenBy({ notes, attempts }: EndedRequest, outcome: string): string | undefined {
  return outcome === 'failed' && attempts.at(-1)?.outcome === 'answered' ? notes.error?.code : undefined;
}

/** When an attempt ended on the monotonic clock: the one that served with its answer. */
export function attemptEnd({ attempts, notes }: EndedRequest, index: number, ended_at: number): number {
  const times = notes.attempt_times[index];
  return attempts[index]!.outcome === 'answered' || times === undefined ? ended_at : times.ended_at;
}

/** The span of an attempt. @param index from 0 */
export function attemptSpan(parts: SpanParts, index: number): FinishedSpan {
  const { request, ending, epoch, ended_at } = parts;
  const { trace, attempt_times } = request.notes;
  const attempt = request.attempts[index]!;
  const is_last = index === request.attempts.length - 1;
  const error = errorOfAttempt(attempt, is_last ? brokenBy(request, ending.outcome) : undefined);
  const operation = operationOf(ending.protocol);
  return {
    name: `${operation} ${attempt.upstream_model}`,
    kind: 'client',
    trace_id: trace.trace_id,
    span_id: trace.attemptSpanId(attempt.n),
    parent_span_id: trace.span_id,
    parent_is_remote: false,
    trace_state: trace.trace_state,
    began_at: epoch(attempt_times[index]?.began_at ?? request.started_at),
    ended_at: epoch(attemptEnd(request, index, ended_at)),
    attributes: attributesOf(parts, attempt, { operation, error, is_last }),
    events: NO_EVENTS,
    failed: error !== undefined,
  };
}

const NO_EVENTS: FinishedSpan['events'] = [];

function attributesOf(
  { request, ending, known }: SpanParts,
  attempt: AttemptRecord,
  { operation, error, is_last }: { operation: string; error: string | undefined; is_last: boolean },
): Attributes {
  const { conventions } = known;
  const upstream = known.upstreams.get(attempt.upstream);
  // The route's facts are those of the upstream that was asked last.
  const protocol = is_last ? (request.peek('route.protocol') ?? ending.protocol) : ending.protocol;
  const attributes = modelRequestAttributes({
    operation,
    provider: upstream?.provider(protocol),
    model: attempt.upstream_model,
    max_tokens: request.peek('request.max_tokens'),
    stream: request.peek('request.stream'),
    choices: request.peek('request.choices'),
  });
  if (upstream !== undefined) {
    attributes['server.address'] = upstream.address.host;
    attributes['server.port'] = upstream.address.port;
    put(attributes, 'gateway.upstream.region', upstream.region);
  }
  attributes['gateway.upstream'] = attempt.upstream;
  attributes['gateway.attempt'] = attempt.n;
  attributes['gateway.attempt.reason'] = attempt.reason;
  put(attributes, 'http.response.status_code', attempt.status ?? undefined);
  put(attributes, 'gateway.upstream.request_id', upstreamId(attempt.upstream_request_id));
  if (protocol !== ending.protocol) attributes['gateway.upstream.protocol'] = protocol;
  if (error !== undefined) attributes['error.type'] = error;
  if (attempt.sends !== 1) attributes['gateway.attempt.sends'] = attempt.sends;
  const has_answered = attempt.outcome === 'answered';
  if (!has_answered) {
    attributes['gateway.attempt.outcome'] = attempt.outcome;
    attributes['gateway.attempt.certainty'] = attempt.certainty;
  }
  if (!is_last) return attributes;
  if (has_answered) addAnswer(attributes, request);
  const usage = usageOf(request);
  // What did not answer has told no usage: no tokens are not the same as 0.
  const is_metered = has_answered || (usage !== undefined && usage.input + usage.output > 0);
  if (is_metered && usage !== undefined && ending.protocol !== 'count_tokens') {
    addModelUsage(attributes, usage, conventions);
  }
  // Of several attempts, those before it may have cost something too.
  if (request.attempts.length === 1) put(attributes, 'gateway.cost_usd', usdOf(request.peek('usage.cost_nano_usd')));
  return attributes;
}

function addAnswer(attributes: Record<string, AttributeValue>, request: EndedRequest): void {
  const ttfb_ms = request.peek('upstream.ttfb_ms');
  const seconds = ttfb_ms === undefined ? undefined : ttfb_ms / 1000;
  const is_stream = request.peek('request.stream') === true;
  const model = answeredModel(request.peek('usage.answered_model')) ?? request.peek('route.upstream_model');
  if (model !== undefined) addModelAnswer(attributes, model, is_stream ? seconds : undefined);
  if (!is_stream) put(attributes, 'gateway.time_to_first_byte', seconds);
}
