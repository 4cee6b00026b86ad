import type { EndedRequest } from '../../contract/telemetry.ts';
import { nanoToUsd } from '../../kit/money.ts';
import { CONVERSATION } from '../conventions.ts';
import type { Attributes, AttributeValue, FinishedSpan, SpanEvent } from '../spans.ts';
import type { Ending } from './ending.ts';
import type { KnownConfiguration } from './known-configuration.ts';
import { remainingUsd, tightestOf, usedRatio } from './limits.ts';
import { productName, productVersion, sessionId, unknownModel } from './texts.ts';

/** What a span of a request is made of. */
export interface SpanParts {
  readonly request: EndedRequest;
  readonly ending: Ending;
  readonly known: KnownConfiguration;
  /** Milliseconds since the epoch of a time on the monotonic clock. */
  readonly epoch: (monotonic: number) => number;
  readonly ended_at: number;
  readonly sampled_reason: string;
  /** Pseudonym of the caller, where callers are told apart. */
  readonly caller: string | undefined;
}

/** The span of a request. */
export function requestSpan(parts: SpanParts, events: readonly SpanEvent[]): FinishedSpan {
  const { request, ending, epoch, ended_at } = parts;
  const { trace } = request.notes;
  return {
    name: `${ending.method} ${ending.route}`,
    kind: 'server',
    trace_id: trace.trace_id,
    span_id: trace.span_id,
    parent_span_id: trace.parent_span_id,
    parent_is_remote: trace.parent_span_id !== undefined,
    trace_state: trace.trace_state,
    began_at: epoch(request.started_at),
    ended_at: epoch(ended_at),
    attributes: attributesOf(parts),
    events,
    failed: ending.outcome === 'failed',
  };
}

/** As money is written in attributes. */
export function usdOf(nano_usd: number | undefined): number | undefined {
  return nano_usd === undefined ? undefined : nanoToUsd(nano_usd);
}

/** Adds an attribute that has a value: encoders would write others as empty values. */
export function put(attributes: Record<string, AttributeValue>, name: string, value: AttributeValue | undefined): void {
  if (value !== undefined) attributes[name] = value;
}

function attributesOf(parts: SpanParts): Attributes {
  const { request, ending, known, sampled_reason } = parts;
  const { address } = known;
  const attributes: Record<string, AttributeValue> = {
    'http.request.method': ending.method,
    'http.route': ending.route,
    'http.response.status_code': ending.status,
    'url.scheme': address.scheme,
    'server.address': address.host,
    'server.port': address.port,
    'gateway.protocol': ending.protocol,
    'gateway.outcome': ending.outcome,
    'gateway.pipeline': request.pipeline.spec.name,
    'gateway.config.hash': known.hash,
  };
  put(attributes, 'gateway.request_id', request.peek('request.id'));
  if (sampled_reason !== 'ratio') attributes['gateway.sampled.reason'] = sampled_reason;
  addCaller(attributes, parts);
  addRoute(attributes, parts);
  addMoney(attributes, request);
  if (ending.outcome !== 'answered' || request.shadows.length > 0) addTrouble(attributes, parts);
  return attributes;
}

function addCaller(attributes: Record<string, AttributeValue>, { request, ending, caller }: SpanParts): void {
  put(attributes, 'user_agent.name', productName(request.peek('request.client.name')));
  put(attributes, 'user_agent.version', productVersion(request.peek('request.client.version')));
  put(attributes, 'gateway.team', ending.team);
  put(attributes, 'gateway.project', request.peek('principal.project'));
  put(attributes, 'gateway.token_group', request.peek('principal.token.group'));
  put(attributes, 'gateway.caller.kind', request.peek('principal.kind'));
  if (caller === undefined) return;
  attributes['enduser.id'] = caller;
  put(attributes, CONVERSATION, sessionId(request.peek('request.session_id')));
}

function addRoute(attributes: Record<string, AttributeValue>, { request, ending }: SpanParts): void {
  const { attempts } = request;
  if (ending.model !== undefined) attributes['gateway.model'] = ending.model;
  else put(attributes, 'gateway.model.unknown', unknownModel(request.peek('request.model')));
  if (ending.upstream === undefined) return;
  attributes['gateway.upstream'] = ending.upstream;
  put(attributes, 'gateway.route.rule', request.peek('route.rule'));
  put(attributes, 'gateway.route.candidates', request.peek('route.candidates'));
  put(attributes, 'gateway.route.dropped', request.peek('route.dropped'));
  put(attributes, 'gateway.translation.losses', request.peek('translation.losses'));
  put(attributes, 'gateway.rewrites', request.peek('outcome.rewrites'));
  const replaced = request.peek('outcome.replaced');
  put(attributes, 'gateway.replaced', replaced && Object.keys(replaced));
  if (attempts.length > 1) attributes['gateway.attempts'] = attempts.length;
  if (ending.fallbacks.length > 0) attributes['gateway.fallback'] = true;
  if (ending.unconfirmed > 0) attributes['gateway.unconfirmed_attempts'] = ending.unconfirmed;
  const requested = request.peek('cache.requested_ttl');
  if (requested === undefined || requested === 'none') return;
  attributes['gateway.cache.requested'] = requested;
  put(attributes, 'gateway.cache.effective', request.peek('cache.effective_ttl'));
  if (ending.downgraded) attributes['gateway.cache.downgraded'] = true;
}

function addMoney(attributes: Record<string, AttributeValue>, request: EndedRequest): void {
  const cost_from = request.peek('usage.provenance')?.cost;
  put(attributes, 'gateway.cost_usd', usdOf(request.peek('usage.cost_nano_usd')));
  if (typeof cost_from === 'string' && cost_from !== 'upstream') attributes['gateway.cost.source'] = cost_from;
  put(attributes, 'gateway.possibly_billed_usd', usdOf(request.peek('usage.possibly_billed_nano_usd')));
  put(attributes, 'gateway.reserved_usd', usdOf(request.peek('spend.reserved_nano_usd')));
  put(attributes, 'gateway.unreserved', request.peek('spend.unreserved'));
  const tightest = tightestOf(request.notes.limits);
  if (tightest === undefined) return;
  attributes['gateway.budget.rule'] = tightest.rule;
  attributes['gateway.budget.window'] = tightest.window;
  attributes['gateway.budget.used_ratio'] = usedRatio(tightest);
  attributes['gateway.budget.remaining_usd'] = remainingUsd(tightest);
}

function addTrouble(attributes: Record<string, AttributeValue>, { request, ending }: SpanParts): void {
  const { outcome, error_code, status } = ending;
  if (outcome === 'failed') attributes['error.type'] = error_code ?? String(status);
  put(attributes, 'gateway.error.code', error_code);
  put(attributes, 'gateway.error.stage', request.peek('error.stage'));
  if (outcome === 'aborted') attributes['gateway.aborted'] = true;
  put(attributes, 'gateway.drained', request.peek('outcome.drained'));
  if (request.shadows.length > 0) attributes['gateway.shadow'] = request.shadows;
}
