import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Operation } from '../../engine/base/contract/telemetry.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { beginTrace } from '../../engine/base/kit/net/trace-context.ts';
import type { MetricName } from '../../engine/domain/telemetry/catalogue/metrics.ts';
import { MetricRegistry } from '../../engine/domain/telemetry/metric-registry.ts';
import { createOperationTelemetry } from '../../engine/domain/telemetry/operations.ts';
import type { FinishedSpan } from '../../engine/domain/telemetry/spans.ts';

const RELOAD: Operation = {
  name: 'gateway.reload',
  attributes: { 'gateway.reload.result': 'in_force', 'gateway.reload.needs_restart': ['server.listen'] },
  began_at: 1_000_000,
  duration_ms: 25.5,
};

let spans: FinishedSpan[];
let sink: { active: boolean; take(taken: readonly FinishedSpan[]): void };
let metrics: MetricRegistry;
let clock: ReturnType<typeof frozenClock>;
let report: (operation: Operation) => void;

beforeEach(() => {
  spans = [];
  metrics = new MetricRegistry();
  clock = frozenClock('2026-03-10T12:00:00Z');
  const take = (taken: readonly FinishedSpan[]) => void spans.push(...taken);
  sink = { active: true, take };
  report = createOperationTelemetry({ sink, metrics, clock });
});

const counted = (name: MetricName) => [...metrics.seriesOf(name)].map(({ labels, sum }) => [labels, sum]);

describe('an operation', () => {
  it('belongs to the trace of its caller', () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00';
    report({ ...RELOAD, trace: beginTrace(traceparent) });
    report({ ...RELOAD, trace: beginTrace('nonsense') });
    const [{ trace_id, parent_span_id }, other] = spans as [FinishedSpan, FinishedSpan];
    assert.deepEqual([trace_id, parent_span_id], ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331']);
    assert.equal(other.parent_span_id, undefined);
  });

  it('that failed has the error in one word', () => {
    const attributes = { 'gateway.sign_in.outcome': 'refused' };
    report({ ...RELOAD, name: 'gateway.sign_in', attributes, error_type: 'group' });
    assert.equal(spans[0]!.failed, true);
    assert.deepEqual(spans[0]!.attributes, { 'gateway.sign_in.outcome': 'refused', 'error.type': 'group' });
    assert.deepEqual(counted('gateway.sign_ins'), [
      [{ 'gateway.sign_in.outcome': 'refused', 'error.type': 'group' }, 1],
    ]);
  });

  it('has no attribute that the catalogue does not know, and no long or unprintable text', () => {
    const attributes = {
      'gateway.admin.action': 'token.create',
      'gateway.admin.subject': `tok_1\n${'x'.repeat(10_000)}`,
      'enduser.email': 'anna@example.com',
      token: 'gw_secret',
    };
    report({ ...RELOAD, name: 'gateway.admin_change', attributes });
    assert.deepEqual(Object.keys(spans[0]!.attributes), ['gateway.admin.action', 'gateway.admin.subject']);
    assert.equal(spans[0]!.attributes['gateway.admin.subject'], `tok_1 ${'x'.repeat(94)}`);
    assert.deepEqual(counted('gateway.admin_changes'), [[{ 'gateway.admin.action': 'token.create' }, 1]]);
  });

  it('is counted where no span is wanted', () => {
    sink.active = false;
    report(RELOAD);
    assert.deepEqual(spans, []);
    assert.equal(counted('gateway.reloads').length, 1);
  });
});

it('a flood of operations makes fifty spans of a kind in a second, and all of it is counted', () => {
  const attempt: Operation = { ...RELOAD, name: 'gateway.session', attributes: {}, error_type: 'unknown' };
  for (let i = 0; i < 500; i++) report(attempt);
  report(RELOAD);
  assert.equal(spans.length, 51);
  assert.deepEqual(counted('gateway.sessions'), [[{ 'error.type': 'unknown' }, 500]]);
  assert.equal(counted('gateway.telemetry.dropped')[0]![1], 450);
  clock.advance(1000);
  report(attempt);
  assert.equal(spans.length, 52);
});
