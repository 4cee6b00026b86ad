import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import type { CounterName } from '../../../engine/api.ts';
import type { SpendLimitsConfig } from '../../../engine/base/contract/config.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Changing } from '../../../engine/domain/audit/admin-changes.ts';
import { clearLimit, grantLimit, revokeGrant, setLimit } from '../../../engine/domain/budget/limits/limit-settings.ts';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ask } from '../support/client.ts';
import { answerDollar, DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

const USD = 1_000_000_000;
const SPEND_LIMITS = {
  defaults: { user_daily_usd: 1 },
  rules: [{ name: 'pace', scope: 'user', requests_per_minute: 100, mode: 'enforce' }],
  time_zone: 'UTC',
} as unknown as SpendLimitsConfig;
const HOUR_MS = 3_600_000;

let upstream: ScriptedUpstream;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let clock: FrozenClock;
let gateways: readonly [TestGateway, TestGateway];
let by: Changing;

// Two replicas: a change must count at the one it was not made at.
before(async () => {
  upstream = await startUpstream();
  database = await createTestDatabase();
  clock = frozenClock('2026-03-10T12:00:00Z');
  const config = {
    models: [dollarModel('coder-1')],
    spend_limits: SPEND_LIMITS,
  };
  const boot = () => bootGateway({ upstream_url: upstream.url, database_url: database.url, clock, config });
  gateways = [await boot(), await boot()];
  by = { database: gateways[0].database, clock, actor: { kind: 'person', name: 'root@example.com' } };
});
after(async () => {
  for (const gateway of gateways ?? []) await gateway.close();
  await database?.drop();
  await upstream?.close();
});
beforeEach(() => {
  upstream.script = answerDollar;
});

let people = 0;
/** A caller with a day of their own to spend, and the results of their requests, each at the other replica. */
async function newCaller(more: Partial<CounterName> = {}) {
  const user = `u${++people}@example.com`;
  const token = await gateways[0].newToken({ user });
  const name: CounterName = { scope: 'user', key: user, window: 'day', unit: 'nano_usd', ...more };
  let turn = 0;
  const dollar = async (): Promise<string> => {
    const gateway = gateways[turn++ % 2]!;
    const response = await ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS });
    if (response.status === 200) return 'spent';
    const { error } = response.json();
    return `${error.code} ${error.limit_usd ?? error.limit}`;
  };
  return { name, dollar };
}

const refused = (limit: number) => `spend_limit_exceeded ${limit}`;

test('a grant admits the very next request everywhere, until it has ended', async () => {
  const { name, dollar } = await newCaller();
  assert.equal(await dollar(), 'spent');
  assert.equal(await dollar(), refused(1));
  assert.equal(await dollar(), refused(1));
  await grantLimit(by, { name, amount: 2 * USD, expires_at: new Date(clock.now() + HOUR_MS) });
  assert.deepEqual([await dollar(), await dollar(), await dollar()], ['spent', 'spent', refused(3)]);
  await grantLimit(by, { name, amount: 2 * USD, expires_at: new Date(clock.now() + 2 * HOUR_MS) });
  assert.equal(await dollar(), 'spent');
  clock.advance(HOUR_MS);
  assert.equal(await dollar(), refused(3));
  assert.equal(await dollar(), refused(3));
});

test('a set limit replaces that of gateway.yaml, up or down, until it is cleared', async () => {
  const { name, dollar } = await newCaller();
  await setLimit(by, { name, amount: 0 });
  assert.equal(await dollar(), refused(0));
  await setLimit(by, { name, amount: 2 * USD });
  assert.deepEqual([await dollar(), await dollar(), await dollar()], ['spent', 'spent', refused(2)]);
  const { id } = await grantLimit(by, { name, amount: USD, expires_at: new Date(clock.now() + HOUR_MS) });
  assert.deepEqual([await dollar(), await dollar()], ['spent', refused(3)]);
  await revokeGrant(by, id);
  await clearLimit(by, name);
  assert.equal(await dollar(), refused(1));
});

test('no caller gets more than the highest limit while limits change all the time', async () => {
  const { name, dollar } = await newCaller();
  const amounts = [3, 1, 2, 3, 0, 2, 1, 3].map((dollars) => dollars * USD);
  const requests = Array.from({ length: 30 }, dollar);
  for (const amount of amounts) await setLimit(by, { name, amount });
  const results = await Promise.all(requests);
  const spent = results.filter((result) => result === 'spent').length;
  assert.ok(spent <= 3, String(spent));
  // The last limit has room for the rest.
  const rest = [];
  for (let i = 0; i < 4; i++) rest.push(await dollar());
  assert.equal(spent + rest.filter((result) => result === 'spent').length, 3);
});
