import { nanoToUsd } from '../../../base/kit/money.ts';
import type { Metrics } from '../metric-registry.ts';
import { type EndedAttempt, type Ending, isUnconfirmed } from './ending.ts';

const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'];
const TOKENS = [
  ['usage.input_tokens', 'uncached_input'],
  ['usage.cache_read_input_tokens', 'cache_read'],
  ['usage.cache_write_5m_input_tokens', 'cache_write_5m'],
  ['usage.cache_write_1h_input_tokens', 'cache_write_1h'],
  ['usage.output_tokens', 'output'],
] as const;

/** Records a request in all request metrics. */
export function countRequest(metrics: Metrics, ending: Ending): void {
  const { outcome, status, error_code, protocol, model, upstream, known, request, attempts } = ending;
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
      'gateway.rule': ending.refused_by,
      'gateway.team': team,
    });
  }
  for (const { kind, rule, mode, outcome: decided } of ending.decisions) {
    metrics.add('gateway.decisions', {
      'gateway.decision.kind': kind,
      'gateway.rule': rule,
      'gateway.rule.mode': mode,
      'gateway.decision.outcome': decided,
    });
  }
  for (const { upstream: left, reason } of ending.fallbacks) {
    metrics.add('gateway.fallbacks', { 'gateway.upstream': left, 'gateway.fallback.reason': reason });
  }
  const at = { 'gateway.model': model, 'gateway.upstream': upstream };
  if (ending.downgraded) metrics.add('gateway.cache.downgrades', at);
  const [first] = attempts;
  if (first === undefined) return;
  if (first.began_at !== undefined) {
    const before = Math.max(0, first.began_at - request.started_at) / 1000;
    metrics.record('gateway.overhead.duration', { 'gateway.protocol': protocol }, before);
  }
  for (const attempt of attempts) countAttempt(metrics, ending, attempt);
  if (ending.usage === undefined) return;
  const cost = request.peek('usage.cost_nano_usd') ?? 0;
  const by_team = { 'gateway.protocol': protocol, ...at, 'gateway.team': team };
  if (cost > 0) metrics.add('gateway.cost', by_team, nanoToUsd(cost));
  const possible = request.peek('usage.possibly_billed_nano_usd') ?? 0;
  if (possible > 0) metrics.add('gateway.cost.possible', at, nanoToUsd(possible));
  for (const [fact, type] of TOKENS) {
    const tokens = request.peek(fact) ?? 0;
    if (tokens > 0) metrics.add('gateway.tokens', { ...at, 'gateway.token.type': type }, tokens);
  }
  // No usage for token counting, or if nothing was sent.
  const last = attempts.at(-1)!;
  if (protocol !== 'count_tokens' && last.record.outcome === 'answered') countModelUsage(metrics, ending, last);
}

function operationLabels({ operation }: Ending, { provider, record }: EndedAttempt) {
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': provider,
    'gen_ai.request.model': record.upstream_model,
  };
}

function countAttempt(metrics: Metrics, ending: Ending, attempt: EndedAttempt): void {
  const { record, began_at, ended_at, error } = attempt;
  const { upstream, outcome, reason } = record;
  metrics.add('gateway.attempts', {
    'gateway.upstream': upstream,
    'gateway.attempt.outcome': outcome,
    'gateway.attempt.reason': reason,
  });
  if (isUnconfirmed(record)) metrics.add('gateway.unconfirmed_attempts', { 'gateway.upstream': upstream });
  if (began_at === undefined) return;
  const labels = { ...operationLabels(ending, attempt), 'error.type': error };
  metrics.record(ending.known.conventions.duration, labels, Math.max(0, ended_at - began_at) / 1000);
}

function countModelUsage(metrics: Metrics, ending: Ending, attempt: EndedAttempt): void {
  const { request, known, usage } = ending;
  const { conventions } = known;
  const labels = operationLabels(ending, attempt);
  const ttfb = request.peek('upstream.ttfb_ms');
  if (ttfb !== undefined && request.peek('request.stream') === true) {
    metrics.record(conventions.first_chunk, labels, ttfb / 1000);
  }
  const { input, output, cache_read, cache_write } = usage!;
  if (!conventions.counts_tokens) {
    metrics.record('gen_ai.client.token.usage', { ...labels, 'gen_ai.token.type': 'input' }, input);
    metrics.record('gen_ai.client.token.usage', { ...labels, 'gen_ai.token.type': 'output' }, output);
    return;
  }
  metrics.add('gen_ai.client.inference.usage.input_tokens', labels, input);
  metrics.add('gen_ai.client.inference.usage.output_tokens', labels, output);
  metrics.add('gen_ai.client.inference.usage.cache_read.input_tokens', labels, cache_read);
  metrics.add('gen_ai.client.inference.usage.cache_write.input_tokens', labels, cache_write);
}
