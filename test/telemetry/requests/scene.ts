/** Requests that are over, as telemetry is told of them, and what it makes of them. */
import type { StageError } from '../../../engine/contract/errors.ts';
import type { FactPath } from '../../../engine/contract/facts.ts';
import type { AttemptRecord } from '../../../engine/contract/forwarding.ts';
import type { LimitStatus } from '../../../engine/contract/money.ts';
import type { EndedRequest } from '../../../engine/contract/telemetry.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { KeptNotes } from '../../../engine/run/request-notes.ts';
import { type Facts, stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { MetricRegistry } from '../../../engine/telemetry/metric-registry.ts';
import { createRequestTelemetry } from '../../../engine/telemetry/requests/request-telemetry.ts';
import type { FinishedSpan } from '../../../engine/telemetry/spans.ts';

export const NOON = Date.parse('2026-03-10T12:00:00Z');
export const USD = 1_000_000_000;
/** Of the request's head, on the monotonic clock. */
const STARTED = 5000;

/** A request for coder-1 that main answered after 40 ms. */
const SERVED: Facts = {
  'request.id': 'req-1',
  'request.method': 'POST',
  'request.path': '/v1/messages',
  'request.protocol': 'messages',
  'request.received_at': NOON,
  'request.model': 'coder-1',
  'request.stream': true,
  'request.max_tokens': 500,
  'request.client.name': 'coder-cli',
  'request.client.version': '2.1.0',
  'principal.id': 'user:alice@example.com',
  'principal.email': 'alice@example.com',
  'principal.kind': 'access_token',
  'principal.team': 'payments',
  'principal.token.group': 'engineers',
  'route.upstream': 'main',
  'route.protocol': 'messages',
  'route.upstream_model': 'coder-1',
  'route.rule': 'default',
  'spend.reserved_nano_usd': USD / 100,
  'upstream.status': 200,
  'upstream.attempts': 1,
  'upstream.ttfb_ms': 25,
  'usage.input_tokens': 10,
  'usage.output_tokens': 50,
  'usage.cache_read_input_tokens': 100,
  'usage.cache_write_5m_input_tokens': 7,
  'usage.cache_write_1h_input_tokens': 3,
  'usage.cost_nano_usd': USD / 200,
  'usage.provenance': { cost: 'upstream' },
  'outcome.status': 200,
  'outcome.aborted': false,
  'outcome.duration_ms': 40,
};

export function attempt(more: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    n: 1,
    upstream: 'main',
    upstream_model: 'coder-1',
    certainty: 'answered',
    status: 200,
    outcome: 'answered',
    reason: 'served',
    sends: 1,
    ms: 25,
    ...more,
  };
}

/** A daily limit of 50 USD of which 20 are spent and 5 reserved. */
export function limit(more: Partial<LimitStatus> = {}): LimitStatus {
  return {
    scope: 'user',
    key: 'alice@example.com',
    window: 'day',
    unit: 'nano_usd',
    rule: 'defaults.user_daily_usd',
    limit: 50 * USD,
    spent: 20 * USD,
    reserved: 5 * USD,
    in_flight: 1,
    most: 5 * USD,
    resets_at: NOON + 12 * 3600 * 1000,
    ...more,
  };
}

export interface Ended {
  /** What is different about the facts; `undefined` for one that is not there. */
  readonly facts?: Facts;
  readonly attempts?: readonly AttemptRecord[];
  readonly shadows?: readonly string[];
  readonly limits?: readonly LimitStatus[];
  /** When they were told, on the monotonic clock; after all that has ended. */
  readonly told_at?: number;
  readonly error?: StageError;
  readonly headers?: Readonly<Record<string, string>>;
  readonly paths?: readonly string[];
}

/** A request that is over; attempts begin 10 ms after its head, one after the other. */
export function ended({ facts, attempts = [attempt()], shadows = [], ...more }: Ended = {}): EndedRequest {
  const all: Facts = { ...SERVED, ...facts };
  const notes = new KeptNotes({ ...more.headers });
  notes.limitsTold([...(more.limits ?? [])], more.told_at ?? Number.MAX_SAFE_INTEGER);
  notes.error = more.error;
  let now = STARTED + 10;
  for (const record of attempts) {
    now += record.ms;
    notes.attemptEnded(record, now - record.ms);
  }
  return {
    peek: (path) => all[path as FactPath] as never,
    attempts,
    shadows,
    started_at: STARTED,
    ended_at: STARTED + 40,
    pipeline: { spec: { name: 'messages', match: { paths: more.paths ?? ['/v1/messages'] } } },
    notes,
  };
}

/** A request that a stage refused before it was routed. */
export function refused(error: StageError, more: Ended = {}): EndedRequest {
  const gone = Object.keys(SERVED).filter((path) => /^(?:route|spend|upstream|usage)\./.test(path));
  const facts = Object.fromEntries(gone.map((path) => [path, undefined]));
  const outcome = { 'outcome.status': error.status, 'outcome.error': error.code, 'error.code': error.code };
  return ended({ attempts: [], error, ...more, facts: { ...facts, ...outcome, ...more.facts } });
}

/** What telemetry makes of requests. */
export function openScene(
  telemetry: Partial<ReturnType<typeof stageConfig>['telemetry']> = {},
  { env = {}, ...sections }: Partial<ReturnType<typeof stageConfig>> & { readonly env?: NodeJS.ProcessEnv } = {},
) {
  const base = stageConfig(sections);
  let config = { ...base, telemetry: { ...base.telemetry, ...telemetry } };
  const metrics = new MetricRegistry(NOON);
  const taken: (readonly FinishedSpan[])[] = [];
  const logged: object[] = [];
  const clock = frozenClock(NOON);
  const log = { ...console, error: (fields: object) => logged.push(fields) } as never;
  const sink = () => ({ active: true, take: (spans: readonly FinishedSpan[]) => taken.push(spans) });
  const told = createRequestTelemetry({ in_force: () => config, env, sink, metrics, clock, log });
  /** The series of a metric, as `label=value` by name and what it counts. */
  const series = (name: Parameters<typeof metrics.seriesOf>[0]) =>
    Object.fromEntries(
      (metrics.measure().find((one) => one.name === name)?.series ?? []).map(({ labels, sum, count }) => [
        Object.values(labels).join(' '),
        count > 0 ? count : sum,
      ]),
    );
  const reload = (changed: Partial<typeof config>) => {
    config = { ...config, ...changed };
  };
  return { ...told, taken, logged, series, metrics, clock, reload };
}

/** The spans of one request. */
export function spansOf(request: EndedRequest, ...scene: Parameters<typeof openScene>): readonly FinishedSpan[] {
  const { requestEnded, taken, logged } = openScene(...scene);
  requestEnded(request);
  if (logged.length > 0) throw (logged[0] as { err: Error }).err;
  return taken[0] ?? [];
}

/** What is said of a span, without what is not there. */
export function said(attributes: FinishedSpan['attributes']): Record<string, unknown> {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}
