import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { EndedRequest, Telemetry } from '../../../base/contract/telemetry.ts';
import { nanoToUsd } from '../../../base/kit/money.ts';
import { isInRatio } from '../../../base/kit/net/trace-context.ts';
import { type SecretSource, secretIn } from '../../../base/kit/secret-names.ts';
import type { Metrics, TelemetrySurroundings } from '../metric-registry.ts';
import { type SpanSink, spansPerSecond } from '../spans.ts';
import { Budgets } from './budgets.ts';
import {
  type EndedAttempt,
  isUnconfirmed,
  type KnownConfiguration,
  learnConfiguration,
  type RequestEnding,
  requestEndingOf,
} from './ending.ts';
import { spansOf } from './spans.ts';

export function createRequestTelemetry(
  options: TelemetrySurroundings & { readonly in_force: () => GatewayConfig; readonly sink: SpanSink },
): Omit<Telemetry, 'operation'> {
  const { in_force, env, sink, metrics, clock, log } = options;
  const budgets = new Budgets(metrics, () => clock.now());
  const hasRoomForUnknown = spansPerSecond(UNKNOWN_CALLERS_PER_SECOND);
  let known: KnownConfiguration | undefined;
  let pseudonymOf: ReturnType<typeof createPseudonyms> | undefined;

  function knownNow(): KnownConfiguration {
    const config = in_force();
    if (known?.config !== config) {
      if (!isDeepStrictEqual(known?.config.spend_limits, config.spend_limits)) budgets.clear();
      known = learnConfiguration(config, env);
      pseudonymOf = known.tells_caller ? createPseudonyms(config, env) : undefined;
    }
    return known;
  }

  function whySampled(ending: RequestEnding): SampledReason | undefined {
    const { request, known } = ending;
    const always = alwaysSampled(ending);
    const is_known = request.peek('principal.id') !== undefined;
    if (always !== undefined && (is_known || hasRoomForUnknown(clock.monotonic()))) return always;
    return isInRatio(request.notes.trace.trace_id, known.ratio) ? 'ratio' : undefined;
  }

  function reportRequest(request: EndedRequest): void {
    const now = clock.monotonic();
    // The response of a disconnected client may be read to its end.
    const is_drained = request.peek('outcome.drained') === true;
    const ending = requestEndingOf(request, knownNow(), is_drained ? now : (request.ended_at ?? now));
    budgets.note({
      limits: request.notes.limits,
      limits_at: request.notes.limits_at,
      ended_at: now,
      reserved: request.peek('spend.reserved_nano_usd') ?? 0,
      cost: request.peek('usage.cost_nano_usd') ?? 0,
    });
    countRequest(metrics, ending);
    if (!sink.active) return;
    const reason = whySampled(ending);
    if (reason === undefined) return;
    const received_at = request.peek('request.received_at') ?? clock.now();
    const epoch = (monotonic: number) => received_at + (monotonic - request.started_at);
    const principal = pseudonymOf && request.peek('principal.id');
    const caller = principal === undefined ? undefined : pseudonymOf!(principal);
    sink.take(spansOf(ending, { epoch, reason, caller }));
  }

  return {
    requestEnded(request) {
      try {
        reportRequest(request);
      } catch (error) {
        const fields = { request_id: request.peek('request.id'), trace_id: request.notes.trace.trace_id };
        log.error({ err: error, ...fields }, 'telemetry could not be made of a request');
      }
    },
    keepsTrace: (trace_id) => sink.active && isInRatio(trace_id, knownNow().ratio),
    requestRejected(status, code) {
      metrics.add('gateway.rejected', { 'gateway.error.code': code, 'http.response.status_code': status });
    },
  };
}

type SampledReason = 'ratio' | 'refused' | 'upstream_refused' | 'failed' | 'fallback' | 'downgraded' | 'slow';

/** Why a request is sampled regardless of the ratio; `undefined` if the ratio decides. */
function alwaysSampled({
  outcome,
  fallbacks,
  downgraded,
  duration_ms,
  known,
}: RequestEnding): SampledReason | undefined {
  if (outcome !== 'answered' && outcome !== 'aborted') return outcome;
  if (fallbacks.length > 0) return 'fallback';
  if (downgraded) return 'downgraded';
  return duration_ms >= known.slow_ms ? 'slow' : undefined;
}

/** Requests without a credential must not fill the span queue. */
const UNKNOWN_CALLERS_PER_SECOND = 20;

/** A guessed secret reveals the caller, so short secrets are not used as a key. */
const SECRET_MIN_CHARS = 16;
const KEY_BYTES = 32;
const PSEUDONYM_CHARS = 22;
const KEPT_MAX = 10_000;

/** A keyed hash, equal on all gateways with the same secrets; without a long enough one the key is of this process. */
function createPseudonyms(config: GatewayConfig, env: SecretSource): (principal_id: string) => string {
  const key = keyOf(config, env);
  const known = new Map<string, string>();
  return (principal_id) => {
    const kept = known.get(principal_id);
    if (kept !== undefined) return kept;
    const made = createHmac('sha256', key).update(principal_id).digest('base64url').slice(0, PSEUDONYM_CHARS);
    if (known.size >= KEPT_MAX) known.clear();
    known.set(principal_id, made);
    return made;
  };
}

function keyOf({ auth, upstreams }: GatewayConfig, env: SecretSource): Uint8Array {
  const names = [
    auth?.session.signing_key_env,
    auth?.oidc?.client_secret_env,
    auth?.oidc?.private_key_env,
    ...upstreams.flatMap(({ api_key_env, auth_token_env }) => [api_key_env, auth_token_env]),
  ];
  const secrets = names.flatMap((name) => (name === undefined ? [] : (secretIn(name, env) ?? [])));
  const secret = secrets.find(({ length }) => length >= SECRET_MIN_CHARS);
  if (secret === undefined) return randomBytes(KEY_BYTES);
  return new Uint8Array(hkdfSync('sha256', secret, '', 'appscli telemetry: pseudonyms of callers', KEY_BYTES));
}

const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'];
const TOKENS = [
  ['usage.input_tokens', 'uncached_input'],
  ['usage.cache_read_input_tokens', 'cache_read'],
  ['usage.cache_write_5m_input_tokens', 'cache_write_5m'],
  ['usage.cache_write_1h_input_tokens', 'cache_write_1h'],
  ['usage.output_tokens', 'output'],
] as const;

function countRequest(metrics: Metrics, ending: RequestEnding): void {
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

function operationLabels({ operation }: RequestEnding, { provider, record }: EndedAttempt) {
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': provider,
    'gen_ai.request.model': record.upstream_model,
  };
}

function countAttempt(metrics: Metrics, ending: RequestEnding, attempt: EndedAttempt): void {
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

function countModelUsage(metrics: Metrics, ending: RequestEnding, attempt: EndedAttempt): void {
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
