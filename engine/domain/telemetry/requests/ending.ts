/** An ended request, evaluated once for spans and metrics. @module */
import type { GatewayConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import type { AttemptRecord, DropReason } from '../../../base/contract/forwarding.ts';
import type { EndedRequest } from '../../../base/contract/telemetry.ts';
import { placeOf } from '../../../base/kit/net/tunnel.ts';
import { pathFinder } from '../../../base/kit/path-patterns.ts';
import { configHash } from '../config-hash.ts';
import { CONVENTIONS, conventionsOf, operationOf, providerOf } from '../conventions.ts';

/** Precomputed values of a configuration. */
export type KnownConfiguration = ReturnType<typeof learnConfiguration>;

export function learnConfiguration(config: GatewayConfig, env: NodeJS.ProcessEnv) {
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
    isModelLabel: modelLabels(config),
    upstreams: new Map(config.upstreams.map((upstream) => [upstream.name, learnUpstream(upstream)])),
    /** Order of the upstreams by routing rule; several can share a position. */
    places: new Map(
      routes.map(({ name, upstreams }) => [name, new Map(upstreams.map(({ upstream, order }) => [upstream, order]))]),
    ),
  };
}

/** Not parent-based, because any client could then fill the collector. */
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

/** Limit on label values: callers choose the ids, and labels stay until the process ends. */
const MODEL_LABELS_MAX = 200;

/** Whether a model id may be a label; without a section `models`, only the first that responded. */
function modelLabels({ models, from_model_lists }: GatewayConfig): (id: string, answered: boolean) => boolean {
  const labels = new Set(models.map(({ id }) => id));
  if (!from_model_lists) return (id) => labels.has(id);
  return (id, answered) => {
    if (answered && labels.size < MODEL_LABELS_MAX) labels.add(id);
    return labels.has(id);
  };
}

function addressOf(base_url: string) {
  const url = new URL(base_url);
  return { scheme: url.protocol.slice(0, -1), ...placeOf(url) };
}

function learnUpstream({ base_url, region }: UpstreamConfig) {
  const address = addressOf(base_url);
  const providers = new Map<string, string>();
  return {
    address,
    region,
    /** `gen_ai.provider.name`, by protocol. */
    provider(protocol: string): string {
      const known = providers.get(protocol) ?? providerOf(address.host, protocol);
      providers.set(protocol, known);
      return known;
    },
  };
}

type RequestOutcome = 'answered' | 'refused' | 'upstream_refused' | 'failed' | 'aborted';

/** A fallback: the request left or skipped an upstream. */
interface Fallback {
  readonly upstream: string;
  readonly reason: string;
  /** Number of the failed attempt; absent for a skipped upstream. */
  readonly attempt: number | undefined;
}

interface Decision {
  readonly kind: 'route' | 'access' | 'spend' | 'policy' | 'token_group' | 'stage';
  readonly rule: string;
  readonly mode: 'enforce' | 'shadow';
  readonly outcome: 'routed' | 'refused' | 'served' | 'matched';
}

/** An attempt, for spans and metrics; times on the monotonic clock. */
export type EndedAttempt = ReturnType<typeof attemptsOf>[number];

export type RequestEnding = ReturnType<typeof requestEndingOf>;

/** @param ended_at end of the response, disconnect of the client, or end of reading, on the monotonic clock */
export function requestEndingOf(request: EndedRequest, known: KnownConfiguration, ended_at: number) {
  const status = request.peek('outcome.status') ?? 499;
  const model = request.peek('request.model');
  const protocol = request.peek('request.protocol') ?? 'none';
  const outcome = outcomeOf(request, status);
  return {
    request,
    known,
    outcome,
    status,
    error_code: request.peek('outcome.error'),
    protocol,
    operation: operationOf(protocol),
    method: request.peek('request.method') ?? 'GET',
    route: routeOf(request),
    /** Absent for a model that gateway.yaml lacks. */
    model: model !== undefined && known.isModelLabel(model, status < 400) ? model : undefined,
    upstream: request.peek('route.upstream'),
    team: request.peek('principal.team'),
    duration_ms: request.peek('outcome.duration_ms') ?? 0,
    ended_at,
    attempts: attemptsOf(request, known, outcome === 'failed', protocol, ended_at),
    fallbacks: findFallbacks(request, known),
    downgraded: request.peek('cache.downgraded') === true,
    /** Without limits that were not exceeded. */
    decisions: decisionsOf(request),
    refused_by: refusedBy(request),
    usage: usageOf(request),
  };
}

function outcomeOf(request: EndedRequest, status: number): RequestOutcome {
  if (request.peek('outcome.aborted') === true) return 'aborted';
  const { error } = request.notes;
  // A response that breaks off keeps its status.
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

function attemptsOf(
  request: EndedRequest,
  { upstreams }: KnownConfiguration,
  has_failed: boolean,
  asked_in: string,
  ended_at: number,
) {
  const { attempts, notes } = request;
  return attempts.map((record, index) => {
    const is_last = index === attempts.length - 1;
    const upstream = upstreams.get(record.upstream);
    // The route facts are those of the last upstream.
    const protocol = is_last ? (request.peek('route.protocol') ?? asked_in) : asked_in;
    const times = notes.attempt_times[index];
    return {
      ...{ record, is_last, upstream, protocol },
      provider: upstream?.provider(protocol),
      /** `error.type`, one word of a small closed set; `undefined` for a complete response. */
      error: errorOf(record, is_last && has_failed ? notes.error?.code : undefined),
      began_at: times?.began_at,
      /** For the attempt that served: end of its response. */
      ended_at: record.outcome === 'answered' ? ended_at : (times?.ended_at ?? ended_at),
    };
  });
}

function errorOf({ outcome, status }: AttemptRecord, broken_by: string | undefined): string | undefined {
  if (outcome !== 'answered') return outcome === 'gone' ? undefined : outcome;
  return status !== null && status >= 400 ? String(status) : broken_by;
}

/** Whether an attempt is unanswered but possibly accepted. */
export function isUnconfirmed({ certainty, outcome }: AttemptRecord): boolean {
  return certainty === 'possibly_accepted' && outcome !== 'gone';
}

const NO_FALLBACKS: readonly Fallback[] = [];

/** Reasons to skip an upstream that lie in the request, not in the upstream. */
const BY_REQUEST: ReadonlySet<string> = new Set<DropReason>([
  'protocol',
  'context_window',
  'cache',
  'state_boundary',
  'privileged',
]);

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

/** Kinds of rules by the prefix of a match in shadow mode. */
const SHADOWS: Readonly<Record<string, Decision['kind']>> = { routing: 'route', access: 'access', spend: 'spend' };

function decisionsOf(request: EndedRequest): readonly Decision[] {
  const found: Decision[] = [];
  const add = (kind: Decision['kind'], name: unknown, outcome: Decision['outcome']) => {
    if (typeof name === 'string') found.push({ kind, rule: name, mode: 'enforce', outcome });
  };
  const rule = request.peek('route.rule');
  if (rule !== 'default') add('route', rule, 'routed');
  add('spend', limitOf(request), 'refused');
  for (const name of request.peek('policy.names') ?? []) add('policy', name, 'served');
  const { policy, token_group, access_rule } = request.notes.error?.details ?? {};
  add('access', access_rule, 'refused');
  add('policy', policy, 'refused');
  add('token_group', token_group, 'refused');
  for (const name of request.shadows) found.push(shadowOf(name));
  return found;
}

function shadowOf(name: string): Decision {
  const [prefix = '', ...rest] = name.split(':');
  const kind = rest.length > 0 && Object.hasOwn(SHADOWS, prefix) ? SHADOWS[prefix] : undefined;
  const rule = kind === undefined ? name : rest.join(':');
  return { kind: kind ?? 'stage', rule, mode: 'shadow', outcome: 'matched' };
}

function limitOf(request: EndedRequest): string | undefined {
  return request.peek('spend.rule') ?? request.peek('request.limit_rule');
}

function refusedBy(request: EndedRequest): string | undefined {
  const { policy, token_group, access_rule } = request.notes.error?.details ?? {};
  const by = limitOf(request) ?? policy ?? token_group ?? access_rule;
  return typeof by === 'string' ? by : undefined;
}

/** By the conventions: `input` includes cached tokens; `undefined` if nothing was metered. */
function usageOf(request: EndedRequest) {
  const output = request.peek('usage.output_tokens');
  if (output === undefined) return undefined;
  const cache_read = request.peek('usage.cache_read_input_tokens') ?? 0;
  const cache_write =
    (request.peek('usage.cache_write_5m_input_tokens') ?? 0) + (request.peek('usage.cache_write_1h_input_tokens') ?? 0);
  const input = (request.peek('usage.input_tokens') ?? 0) + cache_read + cache_write;
  return { input, output, cache_read, cache_write };
}
