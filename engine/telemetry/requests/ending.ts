import type { DropReason } from '../../contract/forwarding.ts';
import type { EndedRequest } from '../../contract/telemetry.ts';
import { pathFinder } from '../../kit/path-patterns.ts';
import type { KnownConfiguration } from './known-configuration.ts';
import type { SampledReason } from './sampling.ts';

/** How a request ended. */
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
  /** The code of the gateway's own error. */
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

/** Works out how a request ended. */
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

/** The path of the pipeline that the request's path fits. */
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
