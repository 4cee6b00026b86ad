/** Requests that are over, as telemetry is told of them, and what it makes of them. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ErrorCode, StageError } from '../../../engine/base/contract/errors.ts';
import { FACTS, type FactPath } from '../../../engine/base/contract/facts.ts';
import type { AttemptRecord } from '../../../engine/base/contract/forwarding.ts';
import type { LimitStatus } from '../../../engine/base/contract/money.ts';
import type { EndedRequest } from '../../../engine/base/contract/telemetry.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { isInRatio, newTraceId } from '../../../engine/base/kit/net/trace-context.ts';
import { METRICS } from '../../../engine/domain/telemetry/catalogue/metrics.ts';
import { ATTRIBUTES, EVENTS, SPANS } from '../../../engine/domain/telemetry/catalogue/spans.ts';
import { MetricRegistry } from '../../../engine/domain/telemetry/metric-registry.ts';
import { ratioOf } from '../../../engine/domain/telemetry/requests/ending.ts';
import { createRequestTelemetry } from '../../../engine/domain/telemetry/requests/request-telemetry.ts';
import type { Attributes, FinishedSpan } from '../../../engine/domain/telemetry/spans.ts';
import { type Facts, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { RequestRecorder } from '../../../engine/pipeline/run/request-record.ts';

const NOON = Date.parse('2026-03-10T12:00:00Z');
const USD = 1_000_000_000;
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

function attempt(more: Partial<AttemptRecord> = {}): AttemptRecord {
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

function limit(more: Partial<LimitStatus> = {}): LimitStatus {
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

interface Ended {
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
function ended({ facts, attempts = [attempt()], shadows = [], ...more }: Ended = {}): EndedRequest {
  const all: Facts = { ...SERVED, ...facts };
  const notes = new RequestRecorder({ ...more.headers });
  notes.recordLimits([...(more.limits ?? [])], more.told_at ?? Number.MAX_SAFE_INTEGER);
  notes.error = more.error;
  let now = STARTED + 10;
  for (const record of attempts) {
    now += record.ms;
    notes.recordAttempt(record, now - record.ms);
  }
  return {
    peek: (path) => all[path as FactPath] as never,
    factAt: (index) => all[Object.keys(FACTS)[index] as FactPath],
    attempts,
    shadows,
    started_at: STARTED,
    ended_at: STARTED + 40,
    pipeline: { spec: { name: 'messages', match: { paths: more.paths ?? ['/v1/messages'] } } },
    notes,
  };
}

/** A request that a stage refused before it was routed. */
function refused(error: StageError, more: Ended = {}): EndedRequest {
  const gone = Object.keys(SERVED).filter((path) => /^(?:route|spend|upstream|usage)\./.test(path));
  const facts = Object.fromEntries(gone.map((path) => [path, undefined]));
  const outcome = { 'outcome.status': error.status, 'outcome.error': error.code, 'error.code': error.code };
  return ended({ attempts: [], error, ...more, facts: { ...facts, ...outcome, ...more.facts } });
}

function openScene(
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
  const sink = { active: true, take: (spans: readonly FinishedSpan[]) => void taken.push(spans) };
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

function spansOf(request: EndedRequest, ...scene: Parameters<typeof openScene>): readonly FinishedSpan[] {
  const { requestEnded, taken, logged } = openScene(...scene);
  requestEnded(request);
  if (logged.length > 0) throw (logged[0] as { err: Error }).err;
  return taken[0] ?? [];
}

function said(attributes: FinishedSpan['attributes']): Record<string, unknown> {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}

function eventsOf({ events }: FinishedSpan): [string, Record<string, unknown>][] {
  return events.map(({ name, attributes }) => [name, said(attributes)]);
}

describe('the spans of a request that was served', () => {
  it('have the names of newer conventions if gateway.yaml or the standard variable selects them', () => {
    const env = { OTEL_SEMCONV_STABILITY_OPT_IN: 'http, gen_ai_latest_experimental' };
    for (const [, answered] of [spansOf(ended(), { conventions: 'latest' }), spansOf(ended(), {}, { env })]) {
      const latest = said(answered!.attributes);
      assert.equal(latest['gen_ai.usage.cache_write.input_tokens'], 10);
      assert.equal(latest['gen_ai.usage.cache_creation.input_tokens'], undefined);
    }
  });

  it('have no tokens for an attempt without a response, rather than 0, but its charge', () => {
    const failed = attempt({ outcome: 'failed', status: 500, reason: 'exhausted' });
    const none = Object.fromEntries(
      ['input', 'output', 'cache_read_input', 'cache_write_5m_input', 'cache_write_1h_input'].map((kind) => [
        `usage.${kind}_tokens`,
        0,
      ]),
    );
    const [, unmetered] = spansOf(ended({ attempts: [failed], facts: { ...none, 'outcome.status': 500 } }));
    assert.equal(said(unmetered!.attributes)['gen_ai.usage.input_tokens'], undefined);
    const [, charged] = spansOf(ended({ attempts: [failed], facts: { 'outcome.status': 500 } }));
    assert.equal(said(charged!.attributes)['gen_ai.usage.input_tokens'], 120);
  });

  it('begin and end with the request and its attempts, and report the failed upstream and the reason', () => {
    const failed = attempt({ outcome: 'overloaded', status: 529, reason: 'next_overloaded', ms: 10 });
    const attempts = [failed, attempt({ n: 2, upstream: 'spare', ms: 15 })];
    const spans = spansOf(ended({ attempts, facts: { 'route.upstream': 'spare' } }));
    const [request, ...others] = spans;
    const told = spans.map(({ name, kind, began_at, ended_at, failed }) => {
      return { name, kind, from: began_at - NOON, to: ended_at - NOON, failed };
    });
    assert.deepEqual(told, [
      { name: 'POST /v1/messages', kind: 'server', from: 0, to: 40, failed: false },
      { name: 'chat coder-1', kind: 'client', from: 10, to: 20, failed: true },
      { name: 'chat coder-1', kind: 'client', from: 20, to: 40, failed: false },
    ]);
    for (const { parent_span_id } of others) assert.equal(parent_span_id, request!.span_id);
    const left = { 'gateway.upstream': 'main', 'gateway.fallback.reason': 'next_overloaded', 'gateway.attempt': 1 };
    assert.deepEqual(eventsOf(request!), [['gateway.fallback', left]]);
    assert.deepEqual([request!.attributes['gateway.fallback'], request!.attributes['gateway.attempts']], [true, 2]);
    assert.equal(others[1]!.attributes['gen_ai.response.time_to_first_chunk'], 0.025);
  });

  it('name the tightest limit and what is left of it', () => {
    const limits = [limit(), limit({ rule: 'team', window: 'month', scope: 'team', limit: 30 * USD })];
    const [request] = spansOf(ended({ limits }));
    const attributes = said(request!.attributes);
    assert.equal(attributes['gateway.budget.rule'], 'team');
    assert.equal(attributes['gateway.budget.remaining_usd'], 5);
    assert.ok(Math.abs((attributes['gateway.budget.used_ratio'] as number) - 25 / 30) < 1e-9);
    assert.deepEqual(request!.events, [], 'a limit with room decides nothing');
  });
});

it('a request that was rejected names the policy that hides the model', () => {
  const hidden = new StageError('model_not_found', 'Hidden.', { details: { model: 'coder-1', policy: 'interns' } });
  const [request] = spansOf(refused(hidden));
  const events = eventsOf(request!).map(([name, at]) => `${name} ${at['gateway.rule']}`);
  assert.deepEqual(events, ['gateway.decision interns', 'gateway.refused interns']);
});

const HOUR = 3600 * 1000;

describe('the metrics about requests', () => {
  it('count how each ended, what it cost and what it used', () => {
    const { requestEnded, series } = openScene();
    requestEnded(ended());
    requestEnded(refused(new StageError('forbidden', 'No.')));
    requestEnded(ended({ facts: { 'outcome.aborted': true } }));
    assert.deepEqual(series('gateway.requests'), {
      'messages coder-1 main 2xx answered': 1,
      'messages coder-1 4xx refused': 1,
      'messages coder-1 main 2xx aborted': 1,
    });
    assert.deepEqual(series('gateway.cost'), { 'messages coder-1 main': 0.01 });
    assert.deepEqual(series('gateway.tokens'), {
      'coder-1 main uncached_input': 20,
      'coder-1 main cache_read': 200,
      'coder-1 main cache_write_5m': 14,
      'coder-1 main cache_write_1h': 6,
      'coder-1 main output': 100,
    });
  });

  it('have durations: of the request, of its attempt, to the first byte, and of the gateway alone', () => {
    const { requestEnded, metrics } = openScene();
    requestEnded(ended());
    const seconds = (name: Parameters<typeof metrics.seriesOf>[0]) => metrics.seriesOf(name)[0]!.sum;
    assert.equal(seconds('http.server.request.duration'), 0.04);
    assert.equal(seconds('gen_ai.client.operation.duration'), 0.03);
    assert.equal(seconds('gen_ai.client.operation.time_to_first_chunk'), 0.025);
    assert.equal(seconds('gateway.overhead.duration'), 0.01);
  });

  it('have the team only if that is configured', () => {
    const { requestEnded, series } = openScene({ metrics: { interval_seconds: 60, team: true } });
    requestEnded(ended());
    assert.deepEqual(series('gateway.cost'), { 'messages coder-1 main payments': 0.005 });
  });

  it('distinguish 200 models if gateway.yaml names none, and only those that responded', () => {
    const { requestEnded, series } = openScene({}, { models: [], from_model_lists: true });
    for (let i = 0; i < 300; i++) {
      const facts = { 'request.model': `m-${i}` };
      const unknown = new StageError('model_not_found', 'None.', { details: { model: `never-${i}` } });
      requestEnded(refused(unknown, { facts: { 'request.model': `never-${i}` } }));
      requestEnded(ended({ facts }));
    }
    const names = Object.keys(series('gateway.requests'));
    assert.equal(names.filter((name) => /\bm-\d+/.test(name)).length, 200);
    assert.equal(names.filter((name) => /\bnever-/.test(name)).length, 0);
  });

  it('count fallbacks by the upstream that was left and why, attempts, and those that may be billed', () => {
    const { requestEnded, series } = openScene();
    const unanswered = { status: null, certainty: 'possibly_accepted', outcome: 'unanswered' } as const;
    requestEnded(
      ended({
        attempts: [attempt({ ...unanswered, reason: 'next_unconfirmed' }), attempt({ n: 2, upstream: 'spare' })],
        facts: { 'usage.possibly_billed_nano_usd': USD / 10, 'route.upstream': 'spare' },
      }),
    );
    assert.deepEqual(series('gateway.fallbacks'), { 'main next_unconfirmed': 1 });
    assert.deepEqual(series('gateway.attempts'), {
      'main unanswered next_unconfirmed': 1,
      'spare answered served': 1,
    });
    assert.deepEqual(series('gateway.unconfirmed_attempts'), { main: 1 });
    assert.deepEqual(series('gateway.cost.possible'), { 'coder-1 spare': 0.1 });
  });

  it('count what rules decided, and what those in shadow mode would have', () => {
    const { requestEnded, series } = openScene();
    requestEnded(ended({ facts: { 'route.rule': 'night' }, shadows: ['routing:later', 'spend:soon', 'screen'] }));
    requestEnded(refused(new StageError('rate_limit_exceeded', 'Wait.'), { facts: { 'request.limit_rule': 'calm' } }));
    requestEnded(ended({ attempts: [], facts: { 'policy.names': ['everyone'] } }));
    assert.deepEqual(series('gateway.decisions'), {
      'route night enforce routed': 1,
      'route later shadow matched': 1,
      'spend soon shadow matched': 1,
      'stage screen shadow matched': 1,
      'spend calm enforce refused': 1,
      'policy everyone enforce served': 1,
    });
    assert.deepEqual(series('gateway.refusals'), { 'messages rate_limit_exceeded calm': 1 });
  });
});

describe('the gauges of budgets', () => {
  const USER = 'defaults.user_daily_usd day';

  it('report the highest usage of each rule, and follow that counter down', () => {
    const { requestEnded, series } = openScene();
    const facts = { 'spend.reserved_nano_usd': 0, 'usage.cost_nano_usd': 0 };
    const use = (key: string, spent: number) =>
      requestEnded(ended({ facts, limits: [limit({ key, spent: spent * USD })] }));
    use('alice@example.com', 20);
    use('bob@example.com', 30);
    use('alice@example.com', 21);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.7 });
    assert.deepEqual(series('gateway.budget.remaining'), { [USER]: 15 });
    assert.deepEqual(series('gateway.budget.resets_in'), { [USER]: 12 * 3600 });
    use('bob@example.com', 22.5);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.55 });
  });

  it('count what a request cost, and no longer what was reserved for it, however requests overlap', () => {
    const { requestEnded, series, clock } = openScene();
    const began = clock.monotonic();
    const end = (told_at: number, spent: number, reserved: number, cost: number) => {
      clock.advance(1000);
      const facts = { 'spend.reserved_nano_usd': 5 * USD, 'usage.cost_nano_usd': cost * USD };
      const limits = [limit({ spent: spent * USD, reserved: reserved * USD })];
      requestEnded(ended({ facts, limits, told_at: began + told_at }));
    };
    // Three that were under way at once, each with 5 USD reserved, and one that begins when they are over.
    end(1, 20, 5, 1);
    assert.deepEqual(series('gateway.budget.remaining'), { [USER]: 29 });
    end(3, 20, 15, 1);
    end(2, 20, 10, 1);
    assert.deepEqual(series('gateway.budget.remaining'), { [USER]: 27 });
    end(3500, 23, 5, 2);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.5 });
  });

  it('forget a window that is over', () => {
    const { requestEnded, series, clock } = openScene();
    requestEnded(ended({ limits: [limit({ resets_at: NOON + HOUR })] }));
    clock.advance(HOUR);
    assert.deepEqual(series('gateway.budget.used_ratio'), {});
    requestEnded(ended({ limits: [limit({ resets_at: NOON + 25 * HOUR, spent: 0, reserved: 0 })] }));
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.0001 });
  });

  it('forget limits that a reload has changed, and no others', () => {
    const { requestEnded, series, reload } = openScene();
    const facts = { 'spend.reserved_nano_usd': 0, 'usage.cost_nano_usd': 0 };
    const use = (key: string, spent: number, most: number) =>
      requestEnded(ended({ facts, limits: [limit({ key, spent, reserved: 0, limit: most })] }));
    use('alice@example.com', 90, 100);
    reload({ models: [] });
    use('bob@example.com', 10, 100);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.9 });
    reload({ spend_limits: { defaults: { user_daily_usd: 1 } } as never });
    use('bob@example.com', 10, 1000);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.01 });
  });
});

const NEVER = { sampling: { ratio: 0, slow_seconds: 120 } };

function reasonOf(request: EndedRequest): unknown {
  const { requestEnded, taken } = openScene(NEVER);
  requestEnded(request);
  return taken[0] && said(taken[0][0]!.attributes)['gateway.sampled.reason'];
}

const error = (code: ErrorCode) => new StageError(code, 'No.');

describe('at a ratio of 0 a request has a trace', () => {
  const failed = attempt({ status: 529, outcome: 'overloaded', reason: 'exhausted' });
  const by_upstream = attempt({ status: 400, outcome: 'caller', reason: 'fail_caller' });
  const dropped = (reason: string) => ended({ facts: { 'route.dropped': [`main: ${reason}`] } });
  const broken = ended({ error: error('upstream_failed'), facts: { 'outcome.error': 'upstream_failed' } });
  const cases: readonly (readonly [what: string, request: EndedRequest, reason: string | undefined])[] = [
    ['that the gateway refused', refused(error('forbidden')), 'refused'],
    ['that failed', ended({ attempts: [failed], facts: { 'outcome.status': 529 } }), 'failed'],
    [
      'that its upstream refused',
      ended({ attempts: [by_upstream], facts: { 'outcome.status': 400 } }),
      'upstream_refused',
    ],
    ['whose upstream was passed over because of its breaker', dropped('open'), 'fallback'],
    ['whose prompt is cached for less than asked', ended({ facts: { 'cache.downgraded': true } }), 'downgraded'],
    ['that took long', ended({ facts: { 'outcome.duration_ms': 120_000 } }), 'slow'],
    ['whose answer broke off that had begun well', broken, 'failed'],
    ['but not one for which an upstream could not serve', dropped('context_window'), undefined],
    ['nor one that was served', ended(), undefined],
    ['nor one whose client left', ended({ error: error('bad_http'), facts: { 'outcome.aborted': true } }), undefined],
  ];
  for (const [what, request, reason] of cases) it(what, () => assert.equal(reasonOf(request), reason));

  it('a response that broke off is an error of the request and of its attempt', () => {
    const { requestEnded, taken } = openScene();
    requestEnded(broken);
    for (const span of taken[0]!) {
      assert.deepEqual([span.failed, span.attributes['error.type']], [true, 'upstream_failed']);
    }
    assert.equal(taken[0]!.length, 2);
  });
});

describe('the ratio', () => {
  it('is that of gateway.yaml, else of the standard variables', () => {
    const of = (ratio: number | undefined, env: NodeJS.ProcessEnv) => {
      const sampling = { slow_seconds: 1, ...(ratio !== undefined && { ratio }) };
      return ratioOf({ telemetry: { sampling } } as never, env);
    };
    const tenth = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.1' };
    assert.equal(of(undefined, {}), 1);
    assert.equal(of(undefined, tenth), 0.1);
    assert.equal(of(0.5, tenth), 0.5);
    assert.equal(of(undefined, { OTEL_TRACES_SAMPLER: 'always_off' }), 0);
    assert.equal(of(undefined, { OTEL_TRACES_SAMPLER: 'parentbased_always_on' }), 1);
    assert.equal(of(undefined, { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: 'half' }), 1);
  });

  it('decides by the trace, alike in all replicas, whether the caller sampled it or not', () => {
    const { requestEnded, taken } = openScene({ sampling: { ratio: 0.3, slow_seconds: 30 } });
    const ids = Array.from({ length: 200 }, newTraceId);
    for (const [at, id] of ids.entries()) {
      requestEnded(ended({ headers: { traceparent: `00-${id}-b7ad6b7169203331-0${at % 2}` } }));
    }
    const sampled = ids.filter((id) => isInRatio(id, 0.3));
    assert.ok(sampled.length > 0 && sampled.length < ids.length);
    const traces = taken.map(([request]) => request!.trace_id);
    assert.deepEqual(traces, sampled);
  });
});

it('a flood of requests without a credential has 20 traces in a second, and is counted in full', () => {
  const { requestEnded, taken, series, clock } = openScene(NEVER);
  const flood = () => {
    for (let i = 0; i < 100; i++) {
      requestEnded(refused(error('credential_missing'), { facts: { 'principal.id': undefined } }));
    }
  };
  flood();
  assert.equal(taken.length, 20);
  clock.advance(1000);
  flood();
  assert.equal(taken.length, 40);
  for (let i = 0; i < 100; i++) requestEnded(refused(error('spend_limit_exceeded')));
  assert.equal(taken.length, 140);
  assert.equal(series('gateway.refusals')['messages credential_missing'], 200);
});

it('telemetry that fails costs the request nothing and is logged', () => {
  const { requestEnded, logged } = openScene();
  const broken = { ...ended(), attempts: undefined } as unknown as EndedRequest;
  assert.doesNotThrow(() => requestEnded(broken));
  assert.equal(logged.length, 1);
});

const RATE_DETAILS = {
  rule: 'r',
  window: 'minute',
  scope: 'user',
  unit: 'requests',
  limit: 1,
  used: 1,
  reserved: 0,
  needed: 1,
  resets_at: '2026-03-10T12:01:00.000Z',
};

/** Requests that between them make everything that is made of requests. */
const REQUESTS = [
  ended({ limits: [limit()], shadows: ['routing:later', 'spend:soon', 'a-stage'], facts: { 'route.rule': 'night' } }),
  ended({ facts: { 'request.session_id': '2d0cd5ae-5f27-4b1c-9d3e-111111111111', 'principal.project': 'shop' } }),
  ended({
    attempts: [
      attempt({
        status: null,
        certainty: 'possibly_accepted',
        outcome: 'unanswered',
        reason: 'next_unconfirmed',
        sends: 2,
      }),
      attempt({ n: 2, upstream: 'spare', upstream_model: 'coder-1@2026', upstream_request_id: 'req_9' }),
    ],
    facts: {
      'request.stream': false,
      'request.choices': 2,
      'route.upstream': 'spare',
      'route.protocol': 'chat',
      'route.candidates': ['main', 'spare'],
      'route.dropped': ['main: open'],
      'translation.losses': ['top_k'],
      'cache.requested_ttl': '1h',
      'cache.effective_ttl': '5m',
      'cache.downgraded': true,
      'outcome.rewrites': ['model'],
      'outcome.replaced': { redact: 2 },
      'outcome.drained': true,
      'outcome.aborted': true,
      'spend.unreserved': true,
      'usage.possibly_billed_nano_usd': 1000,
      'usage.provenance': { cost: 'learned' },
    },
  }),
  refused(
    new StageError('rate_limit_exceeded', 'Wait.', {
      details: RATE_DETAILS,
    }),
    {
      facts: { 'spend.rule': 'r', 'error.stage': 'check-budget', 'request.model': 'coder-9' },
    },
  ),
  refused(new StageError('upstream_unavailable', 'Away.')),
  refused(new StageError('model_not_found', 'None.', { details: { token_group: 'engineers' } })),
  ended({ facts: { 'policy.names': ['everyone'], 'request.protocol': 'none' }, attempts: [] }),
  ended({ facts: Object.fromEntries(Object.entries(FACTS).flatMap(attributeFact)) }),
];

function attributeFact([path, fact]: [string, (typeof FACTS)[FactPath]]): [string, unknown][] {
  const [text] = 'values' in fact ? fact.values : ['text'];
  const values = { string: text, number: 1, boolean: true, strings: [text], object: {} };
  return 'attribute' in fact ? [[path, values[fact.kind]]] : [];
}

describe('whatever is reported about requests', () => {
  for (const conventions of ['1.41', 'latest'] as const) {
    it(`is in the catalogue, with the names of the conventions ${conventions}`, () => {
      const { requestEnded, requestRejected, taken, logged, metrics } = openScene({ conventions, caller: 'pseudonym' });
      for (const request of REQUESTS) requestEnded(request);
      requestRejected(404, 'path_not_found');
      assert.deepEqual(logged, []);
      const told = new Set<string>();
      const check = (attributes: Attributes, known: readonly string[], where: string) => {
        for (const [name, value] of Object.entries(attributes)) {
          if (value === undefined) continue;
          told.add(name);
          assert.ok(known.includes(name), `${where} has ${name}`);
          const spec = ATTRIBUTES[name]!;
          assert.ok(spec !== undefined && (spec.conventions ?? conventions) === conventions, name);
          const kind = Array.isArray(value) ? 'strings' : typeof value;
          assert.equal(kind, spec.kind === 'double' ? 'number' : spec.kind, name);
          if (spec.values !== undefined) assert.ok(spec.values.includes(value as string), `${name}: ${value}`);
        }
      };
      for (const span of taken.flat()) {
        const spec = SPANS[span.kind === 'server' ? 'request' : 'attempt']!;
        check(span.attributes, spec.attributes, span.name);
        for (const event of span.events) {
          assert.ok(spec.events.includes(event.name), event.name);
          check(event.attributes, EVENTS[event.name]!.attributes, event.name);
        }
      }
      for (const { name, spec, series } of metrics.measure()) {
        assert.ok((spec.conventions ?? conventions) === conventions, name);
        for (const { labels } of series) {
          for (const label of Object.keys(labels))
            assert.ok((METRICS[name].labels as readonly string[]).includes(label));
        }
      }
      const promised = [SPANS.request!, SPANS.attempt!, ...Object.values(EVENTS)].flatMap(
        ({ attributes }) => attributes,
      );
      const never = promised.filter(
        (name) => !told.has(name) && (ATTRIBUTES[name]!.conventions ?? conventions) === conventions,
      );
      assert.deepEqual([...new Set(never)], [], 'the catalogue promises what nothing tells');
    });
  }
});

describe('data that telemetry never contains', () => {
  const SECRET = 'PLANTED-hunter2-sk-live-0123456789abcdef';

  it('is not there, whichever fact it is planted in that clients decide over', () => {
    const planted = Object.fromEntries(
      Object.entries(FACTS)
        .filter(([path]) =>
          /^(?:request\.(?!limit_rule|protocol|method|id|received_at|stream)|principal\.(?!kind|team|project|token\.group))/.test(
            path,
          ),
        )
        .filter(([, { kind }]) => kind === 'string' || kind === 'strings')
        .map(([path, { kind }]) => [path, kind === 'string' ? SECRET : [SECRET]]),
    );
    const headers = { traceparent: `00-${SECRET}-b-01`, baggage: SECRET, tracestate: SECRET, authorization: SECRET };
    for (const caller of ['none', 'pseudonym'] as const) {
      const { requestEnded, taken, metrics } = openScene({ caller });
      requestEnded(ended({ facts: planted, headers, paths: ['/v1/messages', '/v1/models/*'] }));
      requestEnded(
        refused(new StageError('model_not_found', SECRET, { details: { model: SECRET } }), { facts: planted }),
      );
      assert.equal(taken.length, 2);
      assert.ok(!JSON.stringify([taken, metrics.measure()]).includes('hunter2'));
    }
  });

  it('is who the caller is: a pseudonym distinguishes callers where that is wanted, alike in all replicas', () => {
    const env = { UPSTREAM_KEY: 'a-long-enough-secret-of-an-upstream' };
    const upstreams = stageConfig().upstreams.map((upstream) => ({ ...upstream, api_key_env: 'UPSTREAM_KEY' }));
    const idOf = (principal: string, key = env.UPSTREAM_KEY) => {
      const scene = [{ caller: 'pseudonym' as const }, { env: { UPSTREAM_KEY: key }, upstreams }] as const;
      return spansOf(ended({ facts: { 'principal.id': principal } }), ...scene)[0]!.attributes['enduser.id'];
    };
    assert.match(String(idOf('user:alice@example.com')), /^[\w-]{22}$/);
    assert.equal(idOf('user:alice@example.com'), idOf('user:alice@example.com'));
    assert.notEqual(idOf('user:alice@example.com'), idOf('user:bob@example.com'));
    assert.notEqual(idOf('user:alice@example.com'), idOf('user:alice@example.com', 'another-secret-of-an-upstream'));
    assert.equal(spansOf(ended())[0]!.attributes['enduser.id'], undefined);
  });
});
