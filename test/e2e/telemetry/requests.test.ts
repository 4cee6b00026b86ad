/** Traces of requests, what they cost and which rule decided, as spans and metrics that a collector got. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defaultTextMapSetter, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type { ReceivedSpan } from '../../support/telemetry/collector.ts';
import { use } from '../../support/use.ts';
import { DOLLAR_TOKENS } from '../money/dollar-models.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { newParent, openTelemetryScene } from './scene.ts';

const scene = use(openTelemetryScene);

function assertHas(attributes: ReceivedSpan['attributes'], wanted: ReceivedSpan['attributes']): void {
  const found = Object.fromEntries(Object.keys(wanted).map((name) => [name, attributes[name]]));
  assert.deepEqual(found, wanted, JSON.stringify(attributes));
}

test('a served request: its span in the trace of its caller, tokens with cached ones among the input, and cost', async () => {
  const user = await scene.gateway.newToken({ user: 'ann@example.com', team: 'red', project: 'apollo' });
  const asked = await scene.ask(user, {});
  const { server, attempts } = await scene.spansOf(asked);
  assert.deepEqual([server.name, server.parent_span_id], ['POST /v1/messages', asked.parent_span_id]);
  // 100 new, 10 and 20 written for five minutes and an hour, 2000 read, 40 of output.
  const cost = (100 * 3 + 10 * 3.75 + 20 * 6 + 2000 * 0.3 + 40 * 15) / 1e6;
  assertHas(server.attributes, {
    'http.request.method': 'POST',
    'http.route': '/v1/messages',
    'http.response.status_code': 200,
    'gateway.request_id': String(asked.response.headers['x-gateway-request-id']),
    'gateway.protocol': 'messages',
    'gateway.cost_usd': cost,
    'gateway.team': 'red',
    'gateway.project': 'apollo',
  });
  assertHas(attempts[0]!.attributes, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.usage.input_tokens': 2130,
    'gen_ai.usage.output_tokens': 40,
    'gen_ai.usage.cache_read.input_tokens': 2000,
    'gen_ai.usage.cache_creation.input_tokens': 30,
    'gateway.cost_usd': cost,
  });
  const dollars = await scene.collector.point('gateway.cost', ({ labels }) => labels['gateway.model'] === 'coder-1');
  assert.deepEqual([dollars.monotonic, dollars.value], [true, cost]);
  const input = await scene.collector.point('gen_ai.client.token.usage', ({ labels }) => {
    return labels['gen_ai.token.type'] === 'input' && labels['gen_ai.request.model'] === 'coder-1';
  });
  assert.deepEqual([input.kind, input.count, input.value], ['histogram', 1, 2130]);
});

test('the rejecting rule, with scope, window, limit, spent and reserved amounts, and reset time', async () => {
  const contractor = await scene.gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  const ask = () => scene.ask(contractor, { model: 'dollar-1', max_tokens: DOLLAR_TOKENS });
  for (const _ of [1, 2]) assert.equal((await ask()).response.status, 200);
  const asked = await ask();
  assert.equal(asked.response.status, 429);
  const { server } = await scene.spansOf(asked, 0);
  const [refused, ...others] = server.events.filter(({ name }) => name === 'gateway.refused');
  assert.deepEqual(others, []);
  assertHas(refused!.attributes, {
    'gateway.error.code': 'spend_limit_exceeded',
    'gateway.rule': 'contractors',
    'gateway.limit.scope': 'user',
    'gateway.limit.window': 'week',
    'gateway.limit.unit': 'usd',
    'gateway.limit.limit': 2,
    'gateway.limit.spent': 2,
    'gateway.limit.held': 0,
    'gateway.limit.needed': 1,
  });
  const resets_at = Date.parse(String(refused!.attributes['gateway.limit.resets_at']));
  assert.equal(resets_at, Date.parse(asked.response.json().error.resets_at), "it is the response's");
  const decisions = server.events.filter(({ name }) => name === 'gateway.decision');
  const decision = decisions.find(({ attributes }) => attributes['gateway.decision.kind'] === 'spend')!;
  assertHas(decision.attributes, {
    'gateway.rule': 'contractors',
    'gateway.rule.mode': 'enforce',
    'gateway.decision.outcome': 'refused',
  });
  const { labels } = await scene.collector.point('gateway.refusals');
  assertHas(labels, { 'gateway.error.code': 'spend_limit_exceeded', 'gateway.rule': 'contractors' });
});

async function askWith(headers: readonly string[]): Promise<string> {
  const { url, token } = scene.gateway;
  // Another model than that of the test that counts tokens.
  const body = messagesBody({ model: 'spare-1' });
  const response = await send(url, { headers: bearer(token, headers), body });
  return String(response.headers['x-gateway-request-id']);
}

describe('the trace of a request', () => {
  const spansOf = (id: string) =>
    scene.collector.request(`request ${id}`, ({ attributes }) => attributes['gateway.request_id'] === id);

  test("is the one of a client with an OpenTelemetry SDK, whose span is the parent of the gateway's", async () => {
    const exporter = new OTLPTraceExporter({ url: scene.collector.endpoint });
    const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter })] });
    const span = provider.getTracer('client').startSpan('turn', { kind: SpanKind.CLIENT });
    const headers: Record<string, string> = {};
    const context = trace.setSpan(ROOT_CONTEXT, span);
    new W3CTraceContextPropagator().inject(context, headers, defaultTextMapSetter);
    const id = await askWith(Object.entries(headers).flat());
    span.end();
    await provider.shutdown();

    const { server, attempts } = await spansOf(id);
    assert.equal(server.trace_id, span.spanContext().traceId);
    assert.equal(server.parent_span_id, span.spanContext().spanId);
    const turn = await scene.collector.span("the client's", ({ name }) => name === 'turn');
    assert.deepEqual([attempts[0]!.trace_id, attempts[0]!.parent_span_id], [turn.trace_id, server.span_id]);
    // The gateway's own may end a little after the client has its response.
    assert.ok(turn.began_at <= server.began_at && server.began_at <= turn.ended_at, 'one began within the other');
  });

  test('of the start of the gateway is one of its own', async () => {
    const start = await scene.collector.span('the start', ({ name }) => name === 'gateway.start');
    assert.deepEqual([start.kind, start.parent_span_id], ['internal', undefined]);
  });

  test('is a new one where the caller sends no valid traceparent', async () => {
    const { header, trace_id } = newParent();
    for (const traceparent of [header.slice(0, -1), header.replace(/^00/, 'ff')]) {
      const { server } = await spansOf(await askWith(['traceparent', traceparent, 'tracestate', 'a=b']));
      assert.notEqual(server.trace_id, trace_id, traceparent);
      assert.deepEqual([server.parent_span_id, server.trace_state], [undefined, ''], traceparent);
    }
    const twice = await spansOf(await askWith(['traceparent', header, 'traceparent', newParent().header]));
    assert.notEqual(twice.server.trace_id, trace_id);
  });
});
