/** Trace headers at upstreams with `propagate: join`, and how the audit record leads to that trace. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { auditRecord } from '../support/state.ts';
import { openTelemetryScene } from './scene.ts';

const SPAN_ID = 'b7ad6b7169203331';
const STATE = 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7';
const TRACE = ['TraceState', STATE, 'b3', '1-2-1', 'x-datadog-trace-id', '77'];
const BAGGAGE = ['baggage', 'user=planted-in-baggage', 'uberctx-user', 'planted-in-baggage'];

const scene = use(() => openTelemetryScene({ telemetry: { propagate: 'join', sampling: { ratio: 0.5 } } }));

/** The trace headers that upstreams got of a request, and its audit record. */
async function askWith(model: string, more: readonly string[]) {
  const { gateway, upstream } = scene;
  upstream.requests.length = 0;
  // A retry of the client is sent to each upstream once, and a new session has no upstream of its own.
  const own = ['x-stainless-retry-count', '1', 'x-claude-code-session-id', crypto.randomUUID()];
  const headers = bearer(gateway.token, [...own, ...more]);
  const response = await send(gateway.url, { headers, body: messagesBody({ model }) });
  assert.equal(response.status, 200, response.text);
  const about = /^(trace|b3|x-datadog|baggage|uberctx)/;
  const tracing = upstream.requests.map((request) =>
    Object.entries(request.headers)
      .filter(([name]) => about.test(name))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
  return { tracing, record: record as Readonly<Record<string, unknown>> };
}

test('an upstream gets a traceparent where the client sent none, and no state without a parent', async () => {
  const { tracing, record } = await askWith('coder-1', ['tracestate', STATE]);
  const [[[name, value], ...more]] = tracing as [[[string, unknown]]];
  assert.deepEqual([name, more], ['traceparent', []]);
  assert.match(String(value), new RegExp(`^00-${record.trace_id}-[0-9a-f]{16}-0[01]$`));
});

for (const [trace_id, sampled] of [
  [`${'0'.repeat(31)}1`, '01'],
  [`ffffffff${'0'.repeat(24)}`, '00'],
] as const) {
  test(`an upstream gets a traceparent of its attempt in the trace of the client, with the flags ${sampled}`, async () => {
    const sent = ['traceparent', `00-${trace_id}-${SPAN_ID}-0${1 - Number(sampled)}`, ...TRACE, ...BAGGAGE];
    const { tracing, record } = await askWith('pair-1', sent);
    const spans = tracing.map(([parent, state, ...more]) => {
      assert.deepEqual([parent![0], state, more], ['traceparent', ['tracestate', STATE], []]);
      const [, version, id, span_id, flags] = /^(..)-(.{32})-(.{16})-(..)$/.exec(String(parent![1])) ?? [];
      assert.deepEqual([version, id, flags], ['00', trace_id, sampled]);
      return span_id;
    });
    const { server, attempts } = await scene.spansOf({ trace_id }, 2);
    assert.equal(server.parent_span_id, SPAN_ID);
    const of_attempts = attempts.map(({ span_id }) => span_id);
    assert.deepEqual(of_attempts, spans, 'upstreams received the spans of the attempts');
    assert.equal(record.trace_id, trace_id, 'its record leads to its trace');
    const dropped = ['traceparent', 'b3', 'x-datadog-trace-id', 'baggage', 'uberctx-user'];
    assert.deepEqual(record.dropped_headers, dropped);
  });
}
