import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { findIssues, type GatewayState } from '../../engine/edge/admin/home.ts';

const AT = new Date('2026-03-10T11:00:00Z');
const money = (cost: bigint, estimated = 0n) => ({ cost_nano_usd: cost, estimated_nano_usd: estimated });
const upstream = {
  name: 'main',
  state: 'closed',
  last_failure: null,
  drained: null,
  models: [],
  routes: [],
  elsewhere: [],
};
const quiet = {
  configuration: { replicas: [{ version: 'a', failing_since: null }], failing: null },
  upstreams: [upstream],
  limits: [],
  requests: 1000,
  refused: [{ error: 'model_not_found', requests: 19 }],
  refused_sign_ins: [],
  today: money(9_000_000_000n),
  yesterday: money(1n),
} as unknown as GatewayState;
const limit = {
  scope: 'user',
  of: { user: 'ana@example.com' },
  window: 'day',
  unit: 'usd',
  limit: 50,
  spent: 44,
  reserved: 3.5,
};

const found = (change: object) => findIssues({ ...quiet, ...change }).map(({ level, text }) => `${level} ${text}`);

describe('what administrators should check', () => {
  test('is nothing while all is as it should be', () => {
    assert.deepEqual(findIssues(quiet), []);
    assert.deepEqual(findIssues({ ...quiet, refused: [], limits: [{ ...limit, spent: 10 }] as never }), []);
  });

  test('is a configuration that does not load, and one that replicas do not share', () => {
    const failing = { findings: [{ message: 'there is no upstream "mian"' }], problem: null };
    const one = { replicas: [{ version: 'a', failing_since: AT }], failing };
    assert.deepEqual(found({ configuration: one }), [
      'alarm The gateway cannot load the configuration and keeps the previous one: there is no upstream "mian".',
    ]);
    const two = { replicas: [...one.replicas, { version: 'b', failing_since: null }], failing: null };
    assert.deepEqual(found({ configuration: two }), [
      'alarm 1 of 2 replicas cannot load the configuration and keeps the previous one.',
      'warn 2 replicas run 2 different configurations.',
    ]);
  });

  test('is an upstream without requests, by failure or by command, and first where nothing else serves', () => {
    const model = { upstream_model: 'coder-1', state: 'open', last_failure: 'status 529' };
    const drained = { by: 'root@example.com', at: AT, reason: 'moving' };
    const upstreams = [
      { ...upstream, name: 'c', drained, routes: [{ name: 'default', is_last: false }] },
      { ...upstream, name: 'a', state: 'open' },
      { ...upstream, name: 'b', models: [model] },
      { ...upstream, name: 'd', drained, routes: [{ name: 'night', is_last: true }] },
      { ...upstream, name: 'e', elsewhere: [{ replica: 'gw-2', upstream_model: null, last: 'status 503' }] },
    ];
    assert.deepEqual(found({ upstreams }), [
      'alarm a is unavailable.',
      'alarm b is unavailable for coder-1: status 529.',
      'alarm e is unavailable for replica gw-2: status 503.',
      'alarm d is drained, which leaves no upstream for the route night.',
      'warn c was drained by root@example.com: moving.',
    ]);
  });

  test('is the limit nearest to its end, and how many more are near', () => {
    const team = { ...limit, scope: 'team', of: { team: 'search' }, window: 'month', limit: 1000, spent: 1000 };
    const ignored = [
      { ...limit, window: 'minute' },
      { ...limit, limit: null },
      { ...limit, limit: 0 },
    ];
    assert.deepEqual(found({ limits: [limit, ...ignored] }), [
      'warn User ana@example.com has used 47.50 of 50 USD per day.',
    ]);
    assert.deepEqual(found({ limits: [limit, team] }), [
      'warn Team search has used 1003.50 of 1000 USD per month; 1 more limit is near exhaustion.',
    ]);
  });

  test('includes excessive rejections', () => {
    const refused = [
      { error: 'spend_limit_exceeded', requests: 150 },
      { error: 'model_not_found', requests: 1 },
    ];
    assert.deepEqual(found({ refused }), [
      'warn 151 requests were rejected today, most of them with spend_limit_exceeded.',
    ]);
    const sign_in = { at: AT, email: 'eve@example.com', detail: 'The address is of no domain that is let in.' };
    assert.deepEqual(found({ refused_sign_ins: [sign_in, { ...sign_in, email: '' }] }), [
      'warn 2 sign-ins were rejected in the last 24 hours, the latest of eve@example.com: The address is of no domain that is let in.',
    ]);
  });

  test('is a cost that doubles, and estimates that grow', () => {
    const before = money(8_000_000_000n, 80_000_000n);
    assert.deepEqual(found({ today: money(20_000_000_000n), yesterday: before }), [
      'warn Today cost 2.5 times as much as yesterday up to this time.',
    ]);
    assert.deepEqual(found({ today: money(8_000_000_000n, 800_000_000n), yesterday: before }), [
      "warn 10 % of today's cost is estimated, as upstreams did not report usage; yesterday it was 1 %.",
    ]);
  });
});
