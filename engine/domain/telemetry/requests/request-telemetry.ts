import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import type { EndedRequest, Telemetry } from '../../../base/contract/telemetry.ts';
import { isInRatio } from '../../../base/kit/net/trace-context.ts';
import { type SecretSource, secretIn } from '../../../base/kit/secret-names.ts';
import type { Metrics } from '../metric-registry.ts';
import { type SpanSink, spansPerSecond } from '../spans.ts';
import { Budgets } from './budgets.ts';
import { countRequest } from './counts.ts';
import { type Ending, endingOf, type KnownConfiguration, learnConfiguration } from './ending.ts';
import { spansOf } from './spans.ts';

interface RequestTelemetryOptions {
  readonly in_force: () => GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly sink: SpanSink;
  readonly metrics: Metrics;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly log: Log;
}

export function createRequestTelemetry({
  in_force,
  env,
  sink,
  metrics,
  clock,
  log,
}: RequestTelemetryOptions): Pick<Telemetry, 'requestEnded' | 'keepsTrace' | 'requestRejected'> {
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

  function whySampled(ending: Ending): SampledReason | undefined {
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
    const ending = endingOf(request, knownNow(), is_drained ? now : (request.ended_at ?? now));
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
function alwaysSampled({ outcome, fallbacks, downgraded, duration_ms, known }: Ending): SampledReason | undefined {
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

/**
 * Pseudonyms of callers: a keyed hash of `principal.id`, equal on all gateways with the same secrets. The key is derived from the first
 * of these secrets: signing key of sessions, secret of the OIDC client, credentials of upstreams. It changes with that secret. If none is
 * long enough, the key is random for this process.
 */
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
