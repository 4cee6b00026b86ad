/**
 * Questions to telemetry, each shown by a span, an event or an attribute, and by a metric, as a collector got them: how many
 * requests there are, how long they take, which fail, where they go, what they cost, and who decided.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ReceivedPoint, ReceivedSpan } from '../../support/telemetry/collector.ts';
import { DOLLAR_TOKENS } from '../money/dollar-models.ts';
import { open } from '../support/client.ts';
import { type Asked, openTelemetryScene, SLOW_MS, type TelemetryScene } from './scene.ts';

let scene: TelemetryScene;
/** The requests, by their peculiarity. */
let asked: Record<string, Asked>;

before(async () => {
  scene = await openTelemetryScene();
  await askEverything();
});
after(() => scene?.close());

const HOUR = { type: 'ephemeral', ttl: '1h' };
const KEPT_AN_HOUR = { system: [{ type: 'text', text: 'Be kind.', cache_control: HOUR }] };
const DOLLAR = { model: 'dollar-1', max_tokens: DOLLAR_TOKENS };

/** Uses every value that telemetry distinguishes. */
async function askEverything(): Promise<void> {
  asked = {};
  const { gateway } = scene;
  const user = await gateway.newToken({ user: 'ann@example.com', team: 'red', project: 'apollo' });
  const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  const partner = await gateway.newToken({ user: 'pat@partner.example' });
  asked.served = await scene.ask(user, {});
  asked.streamed = await scene.ask(user, { stream: true });
  asked.slow = await scene.ask(user, { model: 'slow-1' });
  asked.unknown = await scene.ask(user, { model: 'nobody-knows-1' });
  asked.failed = await scene.ask(user, { model: 'overloaded-1' });
  asked.odd = await scene.ask(user, { model: 'picky-1' });
  asked.fallback = await scene.ask(user, { model: 'pair-1' });
  asked.downgraded = await scene.ask(user, { model: 'minutes-1', ...KEPT_AN_HOUR });
  asked.first_dollar = await scene.ask(contractor, DOLLAR);
  asked.second_dollar = await scene.ask(contractor, DOLLAR);
  asked.third_dollar = await scene.ask(contractor, DOLLAR);
  asked.policy = await scene.ask(partner, {});
  const statuses = Object.fromEntries(Object.entries(asked).map(([name, { response }]) => [name, response.status]));
  assert.deepEqual(statuses, {
    served: 200,
    streamed: 200,
    slow: 200,
    unknown: 404,
    failed: 529,
    odd: 400,
    fallback: 200,
    downgraded: 200,
    first_dollar: 200,
    second_dollar: 200,
    third_dollar: 429,
    policy: 404,
  });
}

const spansOf = (name: string, attempts?: number) => scene.spansOf(asked[name]!, attempts);
const events = (span: ReceivedSpan, name: string) =>
  span.events.filter((event) => event.name === name).map(({ attributes }) => attributes);

/** The value of a series, once there is one with these labels. */
const seriesOf = (metric: string, labels: Record<string, string | number>): Promise<ReceivedPoint> =>
  scene.collector.point(metric, (point) =>
    Object.entries(labels).every(([name, value]) => point.labels[name] === value),
  );

/** Asserts some fields of a span or event. */
function assertHas(attributes: ReceivedSpan['attributes'], wanted: ReceivedSpan['attributes']): void {
  const found = Object.fromEntries(Object.keys(wanted).map((name) => [name, attributes[name]]));
  assert.deepEqual(found, wanted, JSON.stringify(attributes));
}

describe('telemetry reports', () => {
  test('how many requests there are: a span for each, within the trace of its caller, and a count', async () => {
    for (const [name, { trace_id, parent_span_id, response }] of Object.entries(asked)) {
      const { server } = await spansOf(name, 0);
      assert.equal(server.name, 'POST /v1/messages');
      assert.equal(server.parent_span_id, parent_span_id);
      assertHas(server.attributes, {
        'http.request.method': 'POST',
        'http.route': '/v1/messages',
        'http.response.status_code': response.status,
        'gateway.request_id': String(response.headers['x-gateway-request-id']),
        'gateway.protocol': 'messages',
      });
      assert.equal(
        scene.collector.spans.filter((span) => span.trace_id === trace_id && span.kind === 'server').length,
        1,
      );
    }
    const answered = { 'gateway.model': 'coder-1', 'gateway.upstream': 'main', 'gateway.outcome': 'answered' };
    const count = await scene.collector.point(
      'gateway.requests',
      ({ labels, value }) => value === 2 && Object.entries(answered).every(([name, is]) => labels[name] === is),
    );
    assertHas(count.labels, { 'gateway.protocol': 'messages', 'gateway.status_class': '2xx' });
  });

  test('durations: of the request, of each attempt, to the first byte, and of the gateway alone', async () => {
    const { server, attempts } = await spansOf('slow');
    const [attempt] = attempts;
    const took = (span: ReceivedSpan) => span.ended_at - span.began_at;
    assert.ok(took(attempt!) >= SLOW_MS - 2, `the attempt took ${took(attempt!)} ms`);
    assert.ok(server.began_at <= attempt!.began_at && attempt!.ended_at <= server.ended_at, 'it is within the request');
    assert.ok(Math.abs(server.ended_at - Date.now()) < 3_600_000, 'times are of this day');
    assert.ok((attempt!.attributes['gateway.time_to_first_byte'] as number) >= (SLOW_MS - 2) / 1000);

    const stream = (await spansOf('streamed')).attempts[0]!;
    assert.ok((stream.attributes['gen_ai.response.time_to_first_chunk'] as number) > 0);
    const whole = await seriesOf('http.server.request.duration', { 'http.route': '/v1/messages' });
    assert.equal(whole.kind, 'histogram');
    assert.equal(whole.unit, 's');
    const slow = await seriesOf('gen_ai.client.operation.duration', { 'gen_ai.request.model': 'slow-1' });
    assert.ok(slow.value >= (SLOW_MS - 2) / 1000);
    const first = await seriesOf('gen_ai.client.operation.time_to_first_chunk', { 'gen_ai.request.model': 'coder-1' });
    assert.equal(first.count, 1);
    const own = await seriesOf('gateway.overhead.duration', { 'gateway.protocol': 'messages' });
    assert.ok(
      own.value / own.count < SLOW_MS / 1000,
      `waiting for the model is no overhead: ${own.value} s of ${own.count}`,
    );
  });

  test('destinations, and their routing rule', async () => {
    const { server, attempts } = await spansOf('slow');
    assertHas(server.attributes, {
      'gateway.model': 'slow-1',
      'gateway.upstream': 'slow',
      'gateway.route.rule': 'slow',
    });
    const pair = await spansOf('fallback', 0);
    assertHas(pair.server.attributes, { 'gateway.route.candidates': ['overloaded', 'spare'] });
    const decision = events(server, 'gateway.decision').find((event) => event['gateway.decision.kind'] === 'route')!;
    assertHas(decision, {
      'gateway.rule': 'slow',
      'gateway.rule.mode': 'enforce',
      'gateway.decision.outcome': 'routed',
      'gateway.upstream': 'slow',
    });
    assert.equal(attempts[0]!.name, 'chat slow-1');
    assertHas(attempts[0]!.attributes, { 'server.address': '127.0.0.1', 'gen_ai.request.model': 'slow-1' });
    const { value } = await seriesOf('gateway.decisions', { 'gateway.decision.kind': 'route', 'gateway.rule': 'slow' });
    assert.equal(value, 1);
  });

  test('costs, in tokens with cached ones among the input, and in dollars', async () => {
    const { server, attempts } = await spansOf('served');
    // 100 new, 10 and 20 written for five minutes and an hour, 2000 read, 40 of output.
    const cost = (100 * 3 + 10 * 3.75 + 20 * 6 + 2000 * 0.3 + 40 * 15) / 1e6;
    assertHas(server.attributes, { 'gateway.cost_usd': cost, 'gateway.team': 'red', 'gateway.project': 'apollo' });
    assertHas(attempts[0]!.attributes, {
      'gen_ai.operation.name': 'chat',
      'gen_ai.usage.input_tokens': 2130,
      'gen_ai.usage.output_tokens': 40,
      'gen_ai.usage.cache_read.input_tokens': 2000,
      'gen_ai.usage.cache_creation.input_tokens': 30,
      'gateway.cost_usd': cost,
    });
    const dollars = await scene.collector.point(
      'gateway.cost',
      ({ labels, value }) => labels['gateway.model'] === 'dollar-1' && value === 2,
    );
    assert.equal(dollars.monotonic, true);
    const read = { 'gateway.model': 'slow-1', 'gateway.token.type': 'cache_read' };
    assert.equal((await seriesOf('gateway.tokens', read)).value, 2000);
    const input = await seriesOf('gen_ai.client.token.usage', {
      'gen_ai.request.model': 'slow-1',
      'gen_ai.token.type': 'input',
    });
    assert.deepEqual([input.count, input.value], [1, 2130]);
  });

  test('rejections, without an attempt at an upstream', async () => {
    const { server, attempts } = await spansOf('unknown', 0);
    assert.deepEqual(attempts, []);
    assertHas(server.attributes, { 'gateway.outcome': 'refused', 'gateway.error.code': 'model_not_found' });
    assert.equal(events(server, 'gateway.refused').length, 1);
    const money = await seriesOf('gateway.refusals', { 'gateway.error.code': 'spend_limit_exceeded' });
    assert.equal(money.value, 1);
    const refused = { 'gateway.outcome': 'refused', 'gateway.status_class': '4xx' };
    assert.ok((await seriesOf('gateway.requests', refused)).value >= 1);
  });

  test('the rejecting rule, with scope, window, limit, spent and reserved amounts, and reset time', async () => {
    const { server } = await spansOf('third_dollar', 0);
    const [refused, ...others] = events(server, 'gateway.refused');
    assert.deepEqual(others, []);
    assertHas(refused!, {
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
    const { error } = asked.third_dollar!.response.json();
    assert.equal(
      Date.parse(String(refused!['gateway.limit.resets_at'])),
      Date.parse(error.resets_at),
      "it is the response's",
    );
    const decision = events(server, 'gateway.decision').find((event) => event['gateway.decision.kind'] === 'spend')!;
    assertHas(decision, {
      'gateway.rule': 'contractors',
      'gateway.rule.mode': 'enforce',
      'gateway.decision.outcome': 'refused',
    });
    const by_rule = await seriesOf('gateway.refusals', { 'gateway.rule': 'contractors' });
    assertHas(by_rule.labels, { 'gateway.error.code': 'spend_limit_exceeded' });
  });

  test('retries after a failure, with the reason', async () => {
    const { server, attempts } = await spansOf('fallback', 3);
    assertHas(server.attributes, {
      'gateway.fallback': true,
      'gateway.upstream': 'spare',
      'gateway.outcome': 'answered',
    });
    assert.equal(server.attributes['gateway.attempts'], attempts.length);
    assert.deepEqual(
      attempts.map(({ attributes, status }) => [attributes['gateway.upstream'], status]),
      [...attempts.slice(0, -1).map(() => ['overloaded', 'error']), ['spare', 'unset']],
    );
    const [first, again, last] = attempts;
    // At least half a second, to the millisecond that timers are exact to.
    assert.ok(again!.began_at - first!.ended_at >= 499, 'the wait lies between attempts');
    assert.ok(again!.ended_at <= last!.began_at && last!.ended_at <= server.ended_at);
    const [left] = events(server, 'gateway.fallback');
    assert.equal(left!['gateway.upstream'], 'overloaded');
    const reason = String(left!['gateway.fallback.reason']);
    assert.match(reason, /^next_/);
    const { value } = await seriesOf('gateway.fallbacks', { 'gateway.fallback.reason': reason });
    assert.equal(value, 1);
  });

  test('that a client left before the end', async () => {
    const { gateway, upstream, collector } = scene;
    const before = upstream.requests.length;
    const body = JSON.stringify({ model: 'late-1', max_tokens: 9, messages: [{ role: 'user', content: 'Wait.' }] });
    const leaving = open(gateway.url, {
      headers: ['authorization', `Bearer ${gateway.token}`, 'content-type', 'application/json'],
      body,
    });
    await upstream.arrived(before + 1);
    leaving.abort();
    const span = await collector.span(
      'that of a client that left',
      (one) => one.attributes['gateway.aborted'] === true,
    );
    assertHas(span.attributes, { 'gateway.outcome': 'aborted', 'gateway.model': 'late-1' });
  });
});
