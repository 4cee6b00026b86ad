/** Requests belong to the traces of their callers. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defaultTextMapSetter, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { newParent, openTelemetryScene, type TelemetryScene } from './scene.ts';

async function askWith({ gateway }: TelemetryScene, headers: readonly string[]): Promise<string> {
  const response = await send(gateway.url, { headers: bearer(gateway.token, headers), body: messagesBody() });
  return String(response.headers['x-gateway-request-id']);
}

describe('the trace of a request', () => {
  const scene = use(openTelemetryScene);

  const spansOf = (id: string) =>
    scene.collector.request(`request ${id}`, ({ attributes }) => attributes['gateway.request_id'] === id);

  test("is the one of a client with an OpenTelemetry SDK, whose span is the parent of the gateway's", async () => {
    const exporter = new OTLPTraceExporter({ url: scene.collector.endpoint });
    const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter })] });
    const span = provider.getTracer('client').startSpan('turn', { kind: SpanKind.CLIENT });
    const headers: Record<string, string> = {};
    const context = trace.setSpan(ROOT_CONTEXT, span);
    new W3CTraceContextPropagator().inject(context, headers, defaultTextMapSetter);
    const id = await askWith(scene, Object.entries(headers).flat());
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

  test("keeps the caller's tracestate, and is sent whether the caller's own span is or not", async () => {
    const { header, trace_id } = newParent();
    const unsampled = header.replace(/01$/, '00');
    const sent = ['traceparent', unsampled, 'tracestate', 'vendor=a,other=b'];
    const { server } = await spansOf(await askWith(scene, sent));
    assert.deepEqual([server.trace_id, server.trace_state], [trace_id, 'vendor=a,other=b']);
  });

  test('is a new one where the caller sends no valid traceparent', async () => {
    const { header, trace_id } = newParent();
    for (const traceparent of [header.slice(0, -1), header.replace(/^00/, 'ff')]) {
      const { server } = await spansOf(await askWith(scene, ['traceparent', traceparent, 'tracestate', 'a=b']));
      assert.notEqual(server.trace_id, trace_id, traceparent);
      assert.deepEqual([server.parent_span_id, server.trace_state], [undefined, ''], traceparent);
    }
    const twice = await spansOf(await askWith(scene, ['traceparent', header, 'traceparent', newParent().header]));
    assert.notEqual(twice.server.trace_id, trace_id);
  });
});
