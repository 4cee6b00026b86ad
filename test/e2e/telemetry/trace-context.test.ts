/** Requests belong to the traces of their callers, and every replica samples the same of them. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { defaultTextMapSetter, ROOT_CONTEXT, SpanKind, TraceFlags, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  BatchSpanProcessor,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { bearer, messagesBody, send } from '../support/client.ts';
import { newParent, openTelemetryScene, type TelemetryScene } from './scene.ts';

/** Sends a request with these headers beside the usual ones. */
async function askWith({ gateway }: TelemetryScene, headers: readonly string[], body: object = {}): Promise<string> {
  const response = await send(gateway.url, { headers: bearer(gateway.token, headers), body: messagesBody(body) });
  return String(response.headers['x-gateway-request-id']);
}

describe('the trace of a request', () => {
  let scene: TelemetryScene;
  before(async () => {
    scene = await openTelemetryScene();
  });
  after(() => scene?.close());

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

  test("keeps the caller's tracestate, and is sent whether the caller's own span is or not", async () => {
    const { header, trace_id } = newParent();
    const unsampled = header.replace(/01$/, '00');
    const { server } = await spansOf(
      await askWith(scene, ['traceparent', unsampled, 'tracestate', 'vendor=a,other=b']),
    );
    assert.equal(server.trace_id, trace_id);
    assert.equal(server.trace_state, 'vendor=a,other=b');
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

describe('sampling', () => {
  const RATIO = 0.3;
  const sampler = new TraceIdRatioBasedSampler(RATIO);
  const isTaken = (trace_id: string) =>
    sampler.shouldSample(ROOT_CONTEXT, trace_id).decision === SamplingDecision.RECORD_AND_SAMPLED;
  /** Traces of clients of which the SDK samples so many at this ratio, and as many others. */
  const parentsOf = (each: number) => {
    const drawn = Array.from({ length: 50 * each }, newParent);
    const [taken, left] = [true, false].map((is) => drawn.filter(({ trace_id }) => isTaken(trace_id) === is));
    return { taken: taken!.slice(0, each), left: left!.slice(0, each) };
  };
  let scenes: TelemetryScene[] = [];
  before(async () => {
    const telemetry = { sampling: { ratio: RATIO, slow_seconds: 30 } };
    scenes = [await openTelemetryScene({ telemetry }), await openTelemetryScene({ telemetry })];
  });
  after(async () => {
    for (const scene of scenes) await scene.close();
  });

  test('samples the same traces at every replica, those of the SDK at this ratio, whatever callers send', async () => {
    const { taken, left } = parentsOf(6);
    const parents = taken.flatMap((one, at) => [one, left[at]!]);
    const known = new Set(parents.map(({ trace_id }) => trace_id));
    for (const scene of scenes) {
      for (const [at, { header }] of parents.entries()) {
        const flag = at % 4 < 2 ? TraceFlags.SAMPLED : TraceFlags.NONE;
        await askWith(scene, ['traceparent', header.replace(/01$/, `0${flag}`)]);
      }
      // A failure is always sampled: it comes after all others.
      const last = newParent();
      await askWith(scene, ['traceparent', last.header], { model: 'nobody-knows-1' });
      await scene.collector.span('the last one', ({ trace_id }) => trace_id === last.trace_id);
      const servers = scene.collector.spans.filter(({ kind, trace_id }) => kind === 'server' && known.has(trace_id));
      assert.deepEqual(
        servers.map(({ trace_id }) => trace_id).toSorted(),
        taken.map(({ trace_id }) => trace_id).toSorted(),
      );
    }
  });

  test('always samples rejections, errors, fallbacks, downgrades and slow requests, and counts others', async () => {
    const [scene] = scenes;
    const { collector, gateway } = scene!;
    const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } };
    const always: readonly (readonly [reason: string, body: object])[] = [
      ['refused', { model: 'nobody-knows-1' }],
      ['failed', { model: 'overloaded-1' }],
      ['fallback', { model: 'pair-1' }],
      ['downgraded', { model: 'minutes-1', system: [{ type: 'text', text: 'x', ...hour }] }],
      ['slow', { model: 'slow-1' }],
    ];
    const { left } = parentsOf(always.length);
    for (const parent of left) {
      await send(gateway.url, {
        headers: bearer(gateway.token, ['traceparent', parent.header]),
        body: messagesBody({ model: 'spare-1' }),
      });
    }
    const { left: parents } = parentsOf(always.length);
    for (const [at, [reason, body]] of always.entries()) {
      const parent = parents[at]!;
      await send(gateway.url, {
        headers: bearer(gateway.token, ['traceparent', parent.header]),
        body: messagesBody(body),
      });
      const span = await collector.span(reason, ({ trace_id }) => trace_id === parent.trace_id);
      assert.equal(span.attributes['gateway.sampled.reason'], reason);
    }
    await collector.point(
      'gateway.requests',
      ({ labels, value }) => labels['gateway.model'] === 'spare-1' && value === left.length,
    );
    const unsampled = new Set(left.map(({ trace_id }) => trace_id));
    assert.deepEqual(
      collector.spans.filter(({ trace_id }) => unsampled.has(trace_id)),
      [],
    );
  });
});
