import type { EndedRequest } from '../../contract/telemetry.ts';
import { nanoToUsd } from '../../kit/money.ts';
import { operationOf } from '../conventions.ts';
import type { Metrics } from '../metric-registry.ts';
import { attemptEnd, brokenBy, decisionsOf, errorOfAttempt, refusedBy, usageOf } from './request-span.ts';
import type { Ending, KnownConfiguration } from './request-telemetry.ts';

interface Counted {
  readonly request: EndedRequest;
  readonly ending: Ending;
  readonly known: KnownConfiguration;
  /** On the monotonic clock. */
  readonly ended_at: number;
}

const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'];
/** By the fact that tells how many there were. */
const TOKENS = [
  ['usage.input_tokens', 'uncached_input'],
  ['usage.cache_read_input_tokens', 'cache_read'],
  ['usage.cache_write_5m_input_tokens', 'cache_write_5m'],
  ['usage.cache_write_1h_input_tokens', 'cache_write_1h'],
  ['usage.output_tokens', 'output'],
] as const;

/** Counts a request in all metrics about requests. */
export function countRequest(metrics: Metrics, counted: Counted): void {
  const { request, ending, known } = counted;
  const { outcome, status, error_code, protocol, model, upstream, fallbacks, unconfirmed, downgraded } = ending;
  const team = known.tells_team ? ending.team : undefined;
  metrics.add('gateway.requests', {
    'gateway.protocol': protocol,
    'gateway.model': model,
    'gateway.upstream': upstream,
    'gateway.status_class': CLASSES[Math.floor(status / 100) - 1],
    'gateway.outcome': outcome,
    'gateway.team': team,
  });
  const duration = {
    'http.request.method': ending.method,
    'http.route': ending.route,
    'http.response.status_code': status,
    'error.type': outcome === 'failed' ? (error_code ?? String(status)) : undefined,
  };
  metrics.record('http.server.request.duration', duration, ending.duration_ms / 1000);
  if (error_code !== undefined) {
    metrics.add('gateway.refusals', {
      'gateway.protocol': protocol,
      'gateway.error.code': error_code,
      'gateway.rule': refusedBy(request),
      'gateway.team': team,
    });
  }
  for (const { kind, rule, mode, outcome: decided } of decisionsOf(request)) {
    metrics.add('gateway.decisions', {
      'gateway.decision.kind': kind,
      'gateway.rule': rule,
      'gateway.rule.mode': mode,
      'gateway.decision.outcome': decided,
    });
  }
  for (const { upstream: left, reason } of fallbacks) {
    metrics.add('gateway.fallbacks', { 'gateway.upstream': left, 'gateway.fallback.reason': reason });
  }
  if (downgraded) metrics.add('gateway.cache.downgrades', { 'gateway.model': model, 'gateway.upstream': upstream });
  if (request.attempts.length === 0) return;
  countAttempts(metrics, counted, unconfirmed > 0);
  countUsage(metrics, counted, team);
}

function countAttempts(
  metrics: Metrics,
  { request, ending, known, ended_at }: Counted,
  some_unconfirmed: boolean,
): void {
  const { attempts, notes } = request;
  const first = notes.attempt_times[0];
  if (first !== undefined) {
    const labels = { 'gateway.protocol': ending.protocol };
    metrics.record('gateway.overhead.duration', labels, Math.max(0, first.began_at - request.started_at) / 1000);
  }
  const broken_by = brokenBy(request, ending.outcome);
  for (let index = 0; index < attempts.length; index++) {
    const attempt = attempts[index]!;
    const { upstream, outcome, reason, certainty } = attempt;
    metrics.add('gateway.attempts', {
      'gateway.upstream': upstream,
      'gateway.attempt.outcome': outcome,
      'gateway.attempt.reason': reason,
    });
    if (some_unconfirmed && certainty === 'possibly_accepted' && outcome !== 'gone') {
      metrics.add('gateway.unconfirmed_attempts', { 'gateway.upstream': upstream });
    }
    const began_at = notes.attempt_times[index]?.began_at;
    if (began_at === undefined) continue;
    const is_last = index === attempts.length - 1;
    const labels = {
      'gen_ai.operation.name': operationOf(ending.protocol),
      'gen_ai.provider.name': providerAt(known, request, index),
      'gen_ai.request.model': attempt.upstream_model,
      'error.type': errorOfAttempt(attempt, is_last ? broken_by : undefined),
    };
    const seconds = Math.max(0, attemptEnd(request, index, ended_at) - began_at) / 1000;
    metrics.record(known.conventions.duration, labels, seconds);
  }
}

function providerAt({ upstreams }: KnownConfiguration, request: EndedRequest, index: number): string | undefined {
  const { attempts } = request;
  const protocol = index === attempts.length - 1 ? request.peek('route.protocol') : undefined;
  return upstreams.get(attempts[index]!.upstream)?.provider(protocol ?? request.peek('request.protocol') ?? '');
}

function countUsage(metrics: Metrics, { request, ending, known }: Counted, team: string | undefined): void {
  const { protocol, model, upstream } = ending;
  const output = request.peek('usage.output_tokens');
  if (output === undefined) return;
  const at = { 'gateway.model': model, 'gateway.upstream': upstream };
  const cost = request.peek('usage.cost_nano_usd') ?? 0;
  if (cost > 0) {
    metrics.add('gateway.cost', { 'gateway.protocol': protocol, ...at, 'gateway.team': team }, nanoToUsd(cost));
  }
  const possible = request.peek('usage.possibly_billed_nano_usd') ?? 0;
  if (possible > 0) metrics.add('gateway.cost.possible', at, nanoToUsd(possible));
  for (const [fact, type] of TOKENS) {
    const tokens = request.peek(fact) ?? 0;
    if (tokens > 0) metrics.add('gateway.tokens', { ...at, 'gateway.token.type': type }, tokens);
  }
  // Nothing was used where tokens were only counted, or nothing left.
  if (protocol !== 'count_tokens') countModelUsage(metrics, { request, known });
}

function countModelUsage(metrics: Metrics, { request, known }: Pick<Counted, 'request' | 'known'>): void {
  const last = request.attempts.length - 1;
  const attempt = request.attempts[last]!;
  const usage = usageOf(request);
  if (attempt.outcome !== 'answered' || usage === undefined) return;
  const { conventions } = known;
  const labels = {
    'gen_ai.operation.name': operationOf(request.peek('request.protocol') ?? ''),
    'gen_ai.provider.name': providerAt(known, request, last),
    'gen_ai.request.model': attempt.upstream_model,
  };
  const ttfb = request.peek('upstream.ttfb_ms');
  if (ttfb !== undefined && request.peek('request.stream') === true) {
    metrics.record(conventions.first_chunk, labels, ttfb / 1000);
  }
  if (!conventions.counts_tokens) {
    metrics.record('gen_ai.client.token.usage', { ...labels, 'gen_ai.token.type': 'input' }, usage.input);
    metrics.record('gen_ai.client.token.usage', { ...labels, 'gen_ai.token.type': 'output' }, usage.output);
    return;
  }
  metrics.add('gen_ai.client.inference.usage.input_tokens', labels, usage.input);
  metrics.add('gen_ai.client.inference.usage.output_tokens', labels, usage.output);
  metrics.add('gen_ai.client.inference.usage.cache_read.input_tokens', labels, usage.cache_read);
  metrics.add('gen_ai.client.inference.usage.cache_write.input_tokens', labels, usage.cache_write);
}
