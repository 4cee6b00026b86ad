import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ErrorCode, StageError } from '../../../engine/contract/errors.ts';
import type { EndedRequest } from '../../../engine/contract/telemetry.ts';
import { isInRatio, newTraceId } from '../../../engine/kit/net/trace-context.ts';
import { ratioOf } from '../../../engine/telemetry/requests/sampling.ts';
import { attempt, ended, openScene, refused, said } from './scene.ts';

const NEVER = { sampling: { ratio: 0, slow_seconds: 120 } };

function reasonOf(request: EndedRequest): unknown {
  const { requestEnded, taken } = openScene(NEVER);
  requestEnded(request);
  return taken[0] && said(taken[0][0]!.attributes)['gateway.sampled.reason'];
}

const error = (code: ErrorCode) => new StageError(code, 'No.');

describe('at a ratio of 0 a request has a trace', () => {
  const cases: Readonly<Record<string, EndedRequest>> = {
    refused: refused(error('spend_limit_exceeded')),
    upstream_refused: ended({
      attempts: [attempt({ status: 400, outcome: 'caller', reason: 'fail_caller' })],
      facts: { 'outcome.status': 400 },
    }),
    failed: refused(error('upstream_unavailable')),
    fallback: ended({
      attempts: [
        attempt({ status: 529, outcome: 'overloaded', reason: 'next_overloaded' }),
        attempt({ n: 2, upstream: 'spare' }),
      ],
    }),
    downgraded: ended({ facts: { 'cache.downgraded': true } }),
    slow: ended({ facts: { 'outcome.duration_ms': 120_000 } }),
  };
  for (const [reason, request] of Object.entries(cases)) {
    it(`where it is ${reason}, and says so`, () => assert.equal(reasonOf(request), reason));
  }

  it('where its upstream was passed over because of its breaker, and not where that could not serve such a request', () => {
    const dropped = (reason: string) => ended({ facts: { 'route.dropped': [`main: ${reason}`] } });
    assert.equal(reasonOf(dropped('open')), 'fallback');
    assert.equal(reasonOf(dropped('context_window')), undefined);
  });

  it('where an answer broke off that had begun well', () => {
    const broken = { error: error('upstream_failed'), facts: { 'outcome.error': 'upstream_failed' } };
    assert.equal(reasonOf(ended(broken)), 'failed');
    const { requestEnded, taken } = openScene();
    requestEnded(ended(broken));
    const [request, served] = taken[0]!;
    for (const span of [request!, served!]) {
      assert.deepEqual([span.failed, span.attributes['error.type']], [true, 'upstream_failed']);
    }
  });

  it('and else none: neither where it was served, nor where its client left', () => {
    assert.equal(reasonOf(ended()), undefined);
    const left = error('bad_http');
    assert.equal(reasonOf(ended({ error: left, facts: { 'outcome.aborted': true } })), undefined);
  });
});

describe('the ratio', () => {
  it('decides by the identifier of the trace, alike in all gateways, whatever the caller says of its own', () => {
    const ids = Array.from({ length: 200 }, newTraceId);
    for (const flags of ['00', '01']) {
      const { requestEnded, taken } = openScene({ sampling: { ratio: 0.3, slow_seconds: 120 } });
      for (const id of ids) requestEnded(ended({ headers: { traceparent: `00-${id}-00f067aa0ba902b7-${flags}` } }));
      assert.deepEqual(
        taken.map(([request]) => request!.trace_id),
        ids.filter((id) => isInRatio(id, 0.3)),
      );
    }
  });

  it('is that of gateway.yaml, else what the standard variables say', () => {
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
