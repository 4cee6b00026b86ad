import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { MetricRegistry } from '../../../engine/telemetry/metric-registry.ts';
import { openRelay } from '../../../engine/telemetry/relay/relay.ts';

const ENTRY = {
  url: 'https://otel.example.com',
  metrics: true,
  logs: false,
  traces: false,
  names: ['*'],
  attributes: ['*'],
  caller: [],
  timeout_seconds: 10,
  compression: 'gzip',
} as const;

const configOf = (...forward_to: readonly object[]) => ({ telemetry: { forward_to } }) as unknown as GatewayConfig;

function scene(env: NodeJS.ProcessEnv, ...forward_to: readonly object[]) {
  const clock = frozenClock('2026-11-23T06:00:00Z');
  const told: string[] = [];
  const note = (fields: object, text: string) => void told.push(`${text} ${(fields as { err?: Error }).err?.message}`);
  const log = { debug: note, info: note, warn: note, error: note };
  const metrics = new MetricRegistry(clock.now());
  return { told, relay: openRelay({ config: configOf(...forward_to), env, clock, log, metrics }) };
}

const PRINCIPAL = { id: 'u', email: 'a@b.c', kind: 'session', groups: [], roles: [], token: {} } as const;

describe('telemetry of many clients at once', () => {
  test('is gone through one request at a time and in small pieces, and others are served between any two of them', async () => {
    const { relay } = scene({}, { ...ENTRY, url: 'http://127.0.0.1:9' });
    const dataPoints = Array.from({ length: 3000 }, (_, n) => ({ asInt: String(n) }));
    const metrics = [{ name: 'of_many_points', sum: { dataPoints, aggregationTemporality: 1 } }];
    const bytes = Buffer.from(JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics }] }] }));
    let served = 0;
    let over = false;
    const serve = () => {
      served++;
      if (!over) setImmediate(serve);
    };
    setImmediate(serve);
    const receive = (n: number) => {
      const principal = { ...PRINCIPAL, id: `u${n}` } as never;
      return relay.receive({ signal: 'metrics', encoding: 'json', bytes, principal });
    };
    const taken = await Promise.all(Array.from({ length: 8 }, (_, n) => receive(n))).finally(() => {
      over = true;
    });
    assert.deepEqual(new Set(taken.map(({ items }) => items)), new Set([3000]));
    assert.ok(served >= 8 * 6, `others were served ${served} times`);
    await relay.close(0);
  });
});

describe('destinations that cannot be used', () => {
  test('stop the start, by the name of the variable or the file and without what is in it', () => {
    assert.throws(
      () => scene({ HEADERS: 'hunter2' }, { ...ENTRY, headers_env: 'HEADERS' }),
      (error: Error) => /environment variable HEADERS/.test(error.message) && !error.message.includes('hunter2'),
    );
    assert.throws(() => scene({}, { ...ENTRY, ca_file: '/nowhere/ca.pem' }), /\/nowhere\/ca\.pem/);
  });

  test('leave those before them in force when they come with a reload', async () => {
    const { relay, told } = scene({ HEADERS: 'hunter2' }, ENTRY);
    relay.use(configOf({ ...ENTRY, url: 'https://other.example.com', headers_env: 'HEADERS' }));
    assert.match(told[0]!, /goes where it went before.*HEADERS/);
    const principal = PRINCIPAL as never;
    const body = Buffer.from('{"resourceMetrics":[]}');
    const taken = await relay.receive({ signal: 'metrics', encoding: 'json', bytes: body, principal });
    assert.equal(taken.destinations, 1);
    await relay.close(0);
  });
});
