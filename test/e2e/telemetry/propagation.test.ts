/** Trace headers at upstreams, and how the audit record leads to that trace. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { bootGateway, gatewayConfig, mainUpstream } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { startCollector } from '../../support/telemetry/collector.ts';
import { use } from '../../support/use.ts';
import { ask, type Response } from '../support/client.ts';
import { auditRecord } from '../support/state.ts';

const OTHER_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN_ID = 'b7ad6b7169203331';
const STATE = 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7';
const TRACE = ['TraceState', STATE, 'b3', '1-2-1', 'x-datadog-trace-id', '77'];
const BAGGAGE = ['baggage', 'user=planted-in-baggage', 'uberctx-user', 'planted-in-baggage'];

const main = use(startUpstream);
const spare = use(startUpstream);
const collector = use(startCollector);
const gateway = use(() =>
  bootGateway({
    upstream_url: main.url,
    config: withPropagation(1),
    env: { OTEL_BSP_SCHEDULE_DELAY: '100' },
  }),
);

function withPropagation(ratio: number) {
  return {
    upstreams: [mainUpstream(main.url), { ...mainUpstream(spare.url), name: 'spare' }],
    routing: { default_upstreams: ['main', 'spare'], rules: [] },
    telemetry: { propagate: 'join', sampling: { ratio }, otlp: { endpoint: collector.endpoint } },
  };
}

/** Sends a request with these headers through a gateway that samples at this ratio, and asserts its response. */
async function askWith(ratio: number, headers: readonly string[], token = gateway.token): Promise<Response> {
  await writeFile(gateway.config_file, JSON.stringify(gatewayConfig(main.url, withPropagation(ratio))));
  await gateway.reload();
  main.requests.length = 0;
  spare.requests.length = 0;
  const response = await ask(gateway.url, token, {}, headers);
  assert.equal(response.status, 200, response.text);
  return response;
}

function tracing({ requests }: ScriptedUpstream): (readonly [string, unknown])[] {
  assert.equal(requests.length, 1);
  const about = /^(trace|b3|x-datadog|baggage|uberctx)/;
  return Object.entries(requests[0]!.headers)
    .filter(([name]) => about.test(name))
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

async function recordOf({ headers }: Response): Promise<Readonly<Record<string, unknown>>> {
  const row = await auditRecord(gateway.database, String(headers['x-gateway-request-id']));
  return row.record as Readonly<Record<string, unknown>>;
}

describe('an upstream gets', () => {
  test('joins a traceparent with propagate: join where the client sent none, and reports a dropped one', async () => {
    const response = await askWith(0, ['tracestate', STATE]);
    const { trace_id } = await recordOf(response);
    const [[name, value], ...more] = tracing(main) as [readonly [string, unknown]];
    assert.deepEqual([name, more], ['traceparent', []], 'a state without a parent is of no trace');
    assert.match(String(value), new RegExp(`^00-${trace_id}-[0-9a-f]{16}-00$`));
  });

  test('a traceparent of the attempt with propagate: join, in the trace of the client', async () => {
    main.script = answerJson({ type: 'error', error: { type: 'overloaded_error', message: 'busy' } }, 503);
    const headers = ['traceparent', `00-${OTHER_ID}-${SPAN_ID}-00`, ...TRACE, ...BAGGAGE];
    // The sessions of this user stay where they were served.
    const token = await gateway.newToken({ user: 'moved@example.com' });
    const response = await askWith(1, headers, token);
    main.script = answerJson(message());
    const spans = [main, spare].map((upstream) => {
      const [parent, state, ...more] = tracing(upstream);
      assert.deepEqual([parent![0], state, more], ['traceparent', ['tracestate', STATE], []]);
      const [, version, trace_id, span_id, flags] = /^(..)-(.{32})-(.{16})-(..)$/.exec(String(parent![1])) ?? [];
      assert.deepEqual([version, trace_id, flags], ['00', OTHER_ID, '01']);
      return span_id;
    });
    const { server, attempts } = await collector.request('the request', ({ trace_id }) => trace_id === OTHER_ID, 2);
    assert.equal(server.parent_span_id, SPAN_ID);
    const of_attempts = attempts.map(({ span_id }) => span_id);
    assert.deepEqual(of_attempts, spans, 'upstreams received the spans of the attempts');
    const { dropped_headers, trace_id } = await recordOf(response);
    assert.equal(trace_id, OTHER_ID, 'its record leads to its trace');
    assert.deepEqual(dropped_headers, ['traceparent', 'b3', 'x-datadog-trace-id', 'baggage', 'uberctx-user']);
  });
});
