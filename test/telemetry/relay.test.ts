import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { GatewayConfig } from '../../engine/api.ts';
import type { Principal } from '../../engine/base/contract/services.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { MetricRegistry } from '../../engine/domain/telemetry/metric-registry.ts';
import { callerHeaders, openRelay, type TelemetryRelay } from '../../engine/domain/telemetry/relay.ts';
import { answerBytes, hang } from '../support/model-provider/scripted-upstream.ts';
import { startCollector } from '../support/telemetry/collector.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';

const collector = use(startCollector);
beforeEach(() => collector.clear());

const ENTRY = { metrics: true, logs: false, traces: false, caller: [], timeout_seconds: 60, compression: 'none' };
const PRINCIPAL = { id: 'u', email: 'a@b.c', kind: 'session', groups: [], roles: [], token: {} } as never;
const configOf = (...forward_to: readonly object[]) => ({ telemetry: { forward_to } }) as unknown as GatewayConfig;

const opened: TelemetryRelay[] = [];
afterEach(async () => {
  collector.failWith(undefined);
  await Promise.all(opened.splice(0).map((relay) => relay.close(0)));
});

function scene(env: NodeJS.ProcessEnv, ...forward_to: readonly object[]) {
  const clock = frozenClock('2026-11-23T06:00:00Z');
  const logged: string[] = [];
  const note = (fields: object, text: string) =>
    void logged.push(`${text} ${(fields as { err?: Error }).err?.message}`);
  const log = { debug: note, info: note, warn: note, error: note };
  const metrics = new MetricRegistry(clock.now());
  const relay = openRelay({ config: configOf(...forward_to), env, clock, log, metrics });
  opened.push(relay);
  const take = (bytes: string | Buffer) =>
    relay.take({
      signal: 'metrics',
      content_type: 'application/json',
      bytes: Buffer.from(bytes),
      principal: PRINCIPAL,
    });
  const dropped = () =>
    metrics.seriesOf('gateway.telemetry.dropped').map(({ labels, sum }) => [labels['gateway.telemetry.reason'], sum]);
  return { clock, logged, metrics, relay, take, dropped };
}

const METRICS = '{"resourceMetrics":[]}';

describe('a destination of telemetry of clients', () => {
  test('that accepts nothing costs 8 MiB for a signal, and later records are dropped and counted', async () => {
    const { take, dropped, metrics } = scene({}, { ...ENTRY, url: collector.url });
    collector.failWith(hang);
    for (let n = 0; n < 10; n++) take(Buffer.alloc(1024 * 1024, ' '));
    assert.deepEqual(dropped(), [['queue_full', 3]]);
    const queue = metrics.measure().find(({ name }) => name === 'gateway.client_telemetry.queue');
    assert.equal(queue?.series[0]?.sum, 7 * (1024 * 1024 + 4096));
    for (let n = 0; n < 3000; n++) take(METRICS);
    assert.ok((dropped()[0]![1] as number) > 2700, 'small requests count beside their bytes');
    // Whatever is on its way is there before the next test.
    await until('all parallel ones arrived', () => collector.server.requests.length === 4);
  });

  for (const [status, is_kept] of Object.entries({
    ...{ 307: false, 400: false, 401: false, 404: false, 413: false, 500: false },
    ...{ 429: true, 502: true, 503: true, 504: true },
  })) {
    test(`that returns ${status} ${is_kept ? 'gets the same again later' : 'gets it once'}`, async () => {
      const { take, clock, logged, dropped } = scene({}, { ...ENTRY, url: collector.url });
      collector.failWith(
        answerBytes(Number(status), { location: `${collector.url}/elsewhere`, 'retry-after': '20' }, ''),
      );
      take(METRICS);
      if (!is_kept) {
        await until('it is counted', () => dropped()[0]?.[0] === 'refused');
        assert.equal(collector.server.requests.length, 1);
        return;
      }
      await until('it is reported', () => logged.length === 1);
      collector.failWith(undefined);
      take(METRICS);
      clock.advance(19_000);
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      assert.equal(collector.server.requests.length, 1, 'no retry within its retry hint');
      await until('it got another request', () => {
        clock.advance(1000);
        return collector.exports.length === 2;
      });
      await until('that is reported too', () => logged.length === 2);
      assert.match(logged.join(), /does not accept telemetry of clients.*accepts telemetry of clients again/);
      assert.deepEqual(dropped(), []);
    });
  }

  test('that rejects one request blames the client, and is reported only when it rejects all', async () => {
    const { take, logged, dropped } = scene({}, { ...ENTRY, url: collector.url });
    collector.failWith(answerBytes(400, {}, ''));
    for (let n = 1; n <= 4; n++) take(METRICS);
    await until('they are counted', () => dropped()[0]?.[1] === 4);
    assert.deepEqual(logged, []);
    take(METRICS);
    await until('it is reported', () => logged.length === 1);
  });
});

describe('destinations that cannot be used', () => {
  test('stop the start, by the name of the variable or the file and without its content', () => {
    assert.throws(
      () => scene({ HEADERS: 'hunter2' }, { ...ENTRY, url: collector.url, headers_env: 'HEADERS' }),
      (error: Error) => /environment variable HEADERS/.test(error.message) && !error.message.includes('hunter2'),
    );
    assert.throws(
      () => scene({}, { ...ENTRY, url: 'https://otel.example.com', ca_file: '/nowhere/ca.pem' }),
      /\/nowhere\/ca\.pem/,
    );
  });

  test('keep the previous ones active when they arrive with a reload', async () => {
    const { relay, logged, take } = scene({ HEADERS: 'hunter2' }, { ...ENTRY, url: collector.url });
    relay.use(configOf({ ...ENTRY, url: 'https://other.example.com', headers_env: 'HEADERS' }));
    assert.match(logged[0]!, /telemetry of clients keeps its destinations.*HEADERS/);
    take(METRICS);
    await until('it arrived', () => collector.exports.length === 1);
  });
});

test('a caller without an address has no identifier that contains it, and nothing in a name ends its header', () => {
  const principal: Principal = {
    id: 'owner:ada@example.com',
    email: 'ada@example.com',
    kind: 'access_token',
    roles: [],
    groups: ['cn=a,dc=b', '50%'],
    team: 'x\r\ny: z',
    project: undefined,
    token: { id: 't', name: 't', group: undefined },
  };
  assert.deepEqual(callerHeaders(principal, ['id', 'groups', 'team', 'project', 'token_group']), {
    'x-gateway-caller-source': 'gateway-token',
    'x-gateway-caller-groups': 'cn=a%2Cdc=b,50%25',
    'x-gateway-caller-team': 'x  y: z',
  });
  assert.equal(callerHeaders(principal, ['id', 'email'])['x-gateway-caller-id'], 'owner:ada@example.com');
});
