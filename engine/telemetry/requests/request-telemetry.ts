import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig, UpstreamConfig } from '../../contract/config.ts';
import type { DropReason } from '../../contract/forwarding.ts';
import type { Clock, Log } from '../../contract/services.ts';
import type { EndedRequest, Telemetry } from '../../contract/telemetry.ts';
import { isInRatio } from '../../kit/net/trace-context.ts';
import { placeOf } from '../../kit/net/tunnel.ts';
import { pathFinder } from '../../kit/path-patterns.ts';
import { type SecretSource, secretIn } from '../../kit/secret-names.ts';
import { configHash } from '../config-hash.ts';
import { CONVENTIONS, type Conventions, conventionsOf, providerOf } from '../conventions.ts';
import type { Metrics } from '../metric-registry.ts';
import type { FinishedSpan, SpanSink } from '../spans.ts';
import { countRequest } from './request-counts.ts';
import { attemptSpan, Budgets, requestEvents, requestSpan, type SpanParts } from './request-span.ts';

export interface RequestTelemetryOptions {
  readonly in_force: () => GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly sink: () => SpanSink;
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
  const hasRoomForUnknown = roomForUnknown();
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

  function whySampled(request: EndedRequest, ending: Ending, { ratio, slow_ms }: KnownConfiguration) {
    const always: SampledReason | undefined = alwaysSampled(ending, slow_ms);
    const is_known = request.peek('principal.id') !== undefined;
    if (always !== undefined && (is_known || hasRoomForUnknown(clock.monotonic()))) return always;
    return isInRatio(request.notes.trace.trace_id, ratio) ? 'ratio' : undefined;
  }

  function spansOf(parts: SpanParts): readonly FinishedSpan[] {
    const spans = [requestSpan(parts, requestEvents(parts))];
    for (let index = 0; index < parts.request.attempts.length; index++) spans.push(attemptSpan(parts, index));
    return spans;
  }

  function tell(request: EndedRequest): void {
    const known = knownNow();
    const ending = endingOf(request, known);
    // The answer of a client that has left is read on.
    const is_drained = request.peek('outcome.drained') === true;
    const ended_at = is_drained ? clock.monotonic() : (request.ended_at ?? clock.monotonic());
    budgets.note({
      limits: request.notes.limits,
      told_at: request.notes.limits_at,
      ended_at: clock.monotonic(),
      reserved: request.peek('spend.reserved_nano_usd') ?? 0,
      cost: request.peek('usage.cost_nano_usd') ?? 0,
    });
    countRequest(metrics, { request, ending, known, ended_at });
    const spans = sink();
    if (!spans.active) return;
    const sampled_reason = whySampled(request, ending, known);
    if (sampled_reason === undefined) return;
    const received_at = request.peek('request.received_at') ?? clock.now();
    const epoch = (monotonic: number) => received_at + (monotonic - request.started_at);
    const principal = pseudonymOf && request.peek('principal.id');
    const caller = principal === undefined ? undefined : pseudonymOf!(principal);
    spans.take(spansOf({ request, ending, known, epoch, ended_at, sampled_reason, caller }));
  }

  return {
    requestEnded(request) {
      try {
        tell(request);
      } catch (error) {
        const fields = { request_id: request.peek('request.id'), trace_id: request.notes.trace.trace_id };
        log.error({ err: error, ...fields }, 'telemetry could not be made of a request');
      }
    },
    keepsTrace: (trace_id) => sink().active && isInRatio(trace_id, knownNow().ratio),
    requestRejected(status, code) {
      metrics.add('gateway.rejected', { 'gateway.error.code': code, 'http.response.status_code': status });
    },
  };
}

/** Why a request has a trace: by the ratio, or whatever the ratio. */
export type SampledReason = 'ratio' | 'refused' | 'upstream_refused' | 'failed' | 'fallback' | 'downgraded' | 'slow';

/**
 * The ratio in force: that of gateway.yaml, else of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, else 1. What a sampler makes of
 * a parent does not count: any client could then fill the collector.
 */
export function ratioOf({ telemetry }: Pick<GatewayConfig, 'telemetry'>, env: NodeJS.ProcessEnv): number {
  const { ratio } = telemetry.sampling;
  if (ratio !== undefined) return ratio;
  const sampler = (env.OTEL_TRACES_SAMPLER ?? '').trim().replace(/^parentbased_/, '');
  if (sampler === 'always_off') return 0;
  if (sampler !== 'traceidratio') return 1;
  const argument = env.OTEL_TRACES_SAMPLER_ARG?.trim() ?? '';
  const given = argument === '' ? 1 : Number(argument);
  return given >= 0 && given <= 1 ? given : 1;
}

const UNKNOWN_CALLERS_PER_SECOND = 20;

/**
 * Makes the function that says whether there is still room in this second for the trace of a refused request of nobody known:
 * whoever sends requests without a credential must not fill the queue for spans.
 */
export function roomForUnknown(): (now_ms: number) => boolean {
  let second = 0;
  let taken = 0;
  return (now_ms) => {
    const now = Math.floor(now_ms / 1000);
    if (now !== second) {
      second = now;
      taken = 0;
    }
    return ++taken <= UNKNOWN_CALLERS_PER_SECOND;
  };
}

/** Who can guess the secret can find out who is meant, so short ones make no key. */
const SECRET_MIN_CHARS = 16;
const KEY_BYTES = 32;
const PSEUDONYM_CHARS = 22;
const KEPT_MAX = 10_000;

/**
 * Makes pseudonyms of callers: a keyed hash of `principal.id`, the same on all gateways with the same secrets. The key is derived
 * from the first of: the signing key of sessions, the secret of the OIDC client, the credentials of upstreams; it changes with
 * that secret. Where none is long enough, it is one of this process alone.
 */
export function createPseudonyms(config: GatewayConfig, env: SecretSource): (principal_id: string) => string {
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

export type RequestOutcome = 'answered' | 'refused' | 'upstream_refused' | 'failed' | 'aborted';

/** A request went on without an upstream, as that one failed or could not be asked. */
export interface Fallback {
  readonly upstream: string;
  readonly reason: string;
  /** Number of the attempt that failed; absent where it was not asked. */
  readonly attempt: number | undefined;
}

/** What spans and metrics both need of a request, worked out once. */
export interface Ending {
  readonly outcome: RequestOutcome;
  readonly status: number;
  readonly error_code: string | undefined;
  readonly protocol: string;
  readonly method: string;
  readonly route: string;
  /** Absent where gateway.yaml has no such model. */
  readonly model: string | undefined;
  readonly upstream: string | undefined;
  readonly team: string | undefined;
  readonly duration_ms: number;
  readonly fallbacks: readonly Fallback[];
  readonly unconfirmed: number;
  readonly downgraded: boolean;
}

const NO_FALLBACKS: readonly Fallback[] = [];

/** Reasons to go on without an upstream that are no trouble of its own, but lie in the request. */
const BY_REQUEST: ReadonlySet<string> = new Set<DropReason>([
  'protocol',
  'context_window',
  'cache',
  'state_boundary',
  'decisive',
]);

export function endingOf(request: EndedRequest, known: KnownConfiguration): Ending {
  const { attempts } = request;
  const status = request.peek('outcome.status') ?? 499;
  const error_code = request.peek('outcome.error');
  const model = request.peek('request.model');
  return {
    outcome: outcomeOf(request, status),
    status,
    error_code,
    protocol: request.peek('request.protocol') ?? 'none',
    method: request.peek('request.method') ?? 'GET',
    route: routeOf(request),
    model: model !== undefined && known.tellsModel(model, status < 400) ? model : undefined,
    upstream: request.peek('route.upstream'),
    team: request.peek('principal.team'),
    duration_ms: request.peek('outcome.duration_ms') ?? 0,
    fallbacks: findFallbacks(request, known),
    unconfirmed: countUnconfirmed(attempts),
    downgraded: request.peek('cache.downgraded') === true,
  };
}

/** Why a request has a trace whatever the ratio; `undefined` where the ratio decides. */
export function alwaysSampled(
  { outcome, fallbacks, downgraded, duration_ms }: Ending,
  slow_ms: number,
): SampledReason | undefined {
  if (outcome !== 'answered' && outcome !== 'aborted') return outcome;
  if (fallbacks.length > 0) return 'fallback';
  if (downgraded) return 'downgraded';
  return duration_ms >= slow_ms ? 'slow' : undefined;
}

function outcomeOf(request: EndedRequest, status: number): RequestOutcome {
  if (request.peek('outcome.aborted') === true) return 'aborted';
  const { error } = request.notes;
  // What breaks off an answer has the status of the answer.
  if (error !== undefined) return error.status >= 500 ? 'failed' : 'refused';
  if (status < 400) return 'answered';
  if (status >= 500) return 'failed';
  return request.attempts.length > 0 ? 'upstream_refused' : 'refused';
}

const finders = new WeakMap<readonly string[], ReturnType<typeof pathFinder>>();

function routeOf(request: EndedRequest): string {
  const { paths } = request.pipeline.spec.match;
  if (paths.length === 1) return paths[0]!;
  const find = finders.get(paths) ?? pathFinder(paths);
  finders.set(paths, find);
  return find(request.peek('request.path') ?? '') ?? paths[0] ?? '';
}

function countUnconfirmed(attempts: EndedRequest['attempts']): number {
  let count = 0;
  for (const { certainty, outcome } of attempts) if (certainty === 'possibly_accepted' && outcome !== 'gone') count++;
  return count;
}

function findFallbacks(request: EndedRequest, { places }: KnownConfiguration): readonly Fallback[] {
  const { attempts } = request;
  const dropped = request.peek('route.dropped');
  if (attempts.length < 2 && dropped === undefined) return NO_FALLBACKS;
  const found: Fallback[] = [];
  for (const { n, upstream, reason } of attempts) {
    if (reason.startsWith('next_')) found.push({ upstream, reason, attempt: n });
  }
  const used = attempts.at(-1)?.upstream;
  const place = used === undefined ? undefined : places.get(request.peek('route.rule') ?? 'default');
  if (dropped === undefined || place === undefined) return found;
  const last = place.get(used!) ?? Number.POSITIVE_INFINITY;
  for (const entry of dropped) {
    const end = entry.lastIndexOf(': ');
    const [upstream, reason] = [entry.slice(0, end), entry.slice(end + 2)];
    const is_before = (place.get(upstream) ?? Number.POSITIVE_INFINITY) <= last;
    if (is_before && !BY_REQUEST.has(reason)) found.push({ upstream, reason, attempt: undefined });
  }
  return found;
}

/** Where something listens, in the words of the conventions. */
export interface Address {
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
}

export interface KnownUpstream {
  readonly address: Address;
  readonly region: string | undefined;
  /** `gen_ai.provider.name`, by the protocol in which it is asked. */
  provider(protocol: string): string;
}

/** What is worked out ahead of a configuration, for every request that it serves. */
export interface KnownConfiguration {
  readonly config: GatewayConfig;
  readonly hash: string;
  readonly conventions: Conventions;
  /** Part of all traces that are sent, by the identifier of the trace. */
  readonly ratio: number;
  readonly slow_ms: number;
  readonly tells_team: boolean;
  readonly tells_caller: boolean;
  readonly address: Address;
  /** Whether metrics tell a model apart by its id; where gateway.yaml names none, the first so many that answered. */
  tellsModel(id: string, answered: boolean): boolean;
  readonly upstreams: ReadonlyMap<string, KnownUpstream>;
  /** By routing rule, the place of each upstream in it; several can share one. */
  readonly places: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

export function learnConfiguration(config: GatewayConfig, env: NodeJS.ProcessEnv): KnownConfiguration {
  const { telemetry, routing, server } = config;
  const routes = [{ name: 'default', upstreams: routing.default_upstreams }, ...routing.rules];
  return {
    config,
    hash: configHash(config),
    conventions: CONVENTIONS[conventionsOf(config, env)],
    ratio: ratioOf(config, env),
    slow_ms: telemetry.sampling.slow_seconds * 1000,
    tells_team: telemetry.metrics.team,
    tells_caller: telemetry.caller === 'pseudonym',
    address: addressOf(server.public_url),
    tellsModel: modelsTold(config),
    upstreams: new Map(config.upstreams.map((upstream) => [upstream.name, learnUpstream(upstream)])),
    places: new Map(
      routes.map(({ name, upstreams }) => [name, new Map(upstreams.map(({ upstream, order }) => [upstream, order]))]),
    ),
  };
}

/** Callers choose the ids, and each is a label for as long as the gateway runs. */
const TOLD_MAX = 200;

function modelsTold({ models, from_model_lists }: GatewayConfig): KnownConfiguration['tellsModel'] {
  const told = new Set(models.map(({ id }) => id));
  if (!from_model_lists) return (id) => told.has(id);
  return (id, answered) => {
    if (answered && told.size < TOLD_MAX) told.add(id);
    return told.has(id);
  };
}

function addressOf(base_url: string): Address {
  const url = new URL(base_url);
  return { scheme: url.protocol.slice(0, -1), ...placeOf(url) };
}

function learnUpstream({ base_url, region }: UpstreamConfig): KnownUpstream {
  const address = addressOf(base_url);
  const providers = new Map<string, string>();
  return {
    address,
    region,
    provider(protocol) {
      const known = providers.get(protocol) ?? providerOf(address.host, protocol);
      providers.set(protocol, known);
      return known;
    },
  };
}
