import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import type { CounterName } from '../../../engine/api.ts';
import { type Changing, listChanges } from '../../../engine/audit/admin-changes.ts';
import type { SpendLimitsConfig } from '../../../engine/contract/config.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { limitsOf } from '../../../engine/money/limits/find-limits.ts';
import { grantLimit, revokeGrant } from '../../../engine/money/limits/limit-grants.ts';
import { clearLimit, setLimit } from '../../../engine/money/limits/limit-settings.ts';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ask } from '../support/client.ts';
import { nothingReserved } from '../support/state.ts';
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
/** Somebody with a day of their own to spend, and what comes of their requests, each at the other replica. */
async function somebody(more: Partial<CounterName> = {}) {
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

test('a grant lets the very next request through everywhere, until it has ended', async () => {
  const { name, dollar } = await somebody();
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

test('a grant that is revoked lets nothing through any more', async () => {
  const { name, dollar } = await somebody();
  const { id } = await grantLimit(by, { name, amount: 5 * USD, expires_at: new Date(clock.now() + HOUR_MS) });
  assert.deepEqual([await dollar(), await dollar()], ['spent', 'spent']);
  await revokeGrant(by, id);
  assert.equal(await dollar(), refused(1));
});

test('a limit that is set takes the place of that of gateway.yaml, up or down, until it is cleared', async () => {
  const { name, dollar } = await somebody();
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

test('a limit of requests per minute is set as well', async () => {
  const { name, dollar } = await somebody({ window: 'minute', unit: 'requests' });
  await setLimit(by, { name: { ...name, window: 'day', unit: 'nano_usd' }, amount: 100 * USD });
  await setLimit(by, { name, amount: 2 });
  assert.deepEqual([await dollar(), await dollar(), await dollar()], ['spent', 'spent', 'rate_limit_exceeded 2']);
  clock.advance(60_000);
  assert.equal(await dollar(), 'spent');
});

test('a team has a limit where gateway.yaml has none, and keeps what it spent before', async () => {
  const team = `team-${++people}`;
  const token = await gateways[0].newToken({ user: `u${people}@example.com`, team });
  const spend = (gateway: TestGateway) => ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS });
  assert.equal((await spend(gateways[0])).status, 200);
  const own: CounterName = { scope: 'user', key: `u${people}@example.com`, window: 'day', unit: 'nano_usd' };
  await setLimit(by, { name: own, amount: 100 * USD });
  await setLimit(by, { name: { scope: 'team', key: team, window: 'month', unit: 'nano_usd' }, amount: 2 * USD });
  assert.equal((await spend(gateways[1])).status, 200);
  const { error } = (await spend(gateways[0])).json();
  const { scope, window, limit_usd, spent_usd, reserved_usd, rule } = error;
  assert.deepEqual([scope, window, limit_usd, spent_usd + reserved_usd], ['team', 'month', 2, 2]);
  assert.equal(rule, 'set at run time', 'and not a default that gateway.yaml does not have');
});

test('while limits change all the time nobody gets more than the highest of them', async () => {
  const { name, dollar } = await somebody();
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

test('what is listed is what was spent, and what is left', async () => {
  const { name, dollar } = await somebody();
  await setLimit(by, { name, amount: 3 * USD });
  await grantLimit(by, { name, amount: USD, expires_at: new Date(clock.now() + HOUR_MS) });
  assert.deepEqual([await dollar(), await dollar()], ['spent', 'spent']);
  const { database: store } = gateways[0];
  await nothingReserved(store);
  const listed = await limitsOf(
    { config: { spend_limits: SPEND_LIMITS, token_groups: [] }, database: store, clock },
    { user: name.key },
  );
  const [day, minute] = ['day', 'minute'].map((window) => listed.find((limit) => limit.window === window)!);
  assert.deepEqual([day!.limit, day!.spent, day!.reserved, day!.room], [4, 2, 0, 2]);
  assert.equal(day!.resets_at?.toISOString(), '2026-03-11T00:00:00.000Z');
  assert.deepEqual([minute!.limit, minute!.spent, minute!.room], [100, 2, 98]);
});

test('every change is on record with who made it', async () => {
  const { name } = await somebody();
  await setLimit(by, { name, amount: 7 });
  const { id } = await grantLimit(by, { name, amount: 1, expires_at: new Date(clock.now() + HOUR_MS) });
  await revokeGrant(by, id);
  await clearLimit(by, name);
  const changes = await listChanges(gateways[1].database, { limit: 4 });
  assert.deepEqual(
    changes.map(({ action, subject, actor }) => `${action} ${subject} ${actor.name}`).toReversed(),
    [
      `limit.set user ${name.key} per day`,
      `limit.grant ${id}`,
      `limit.revoke ${id}`,
      `limit.clear user ${name.key} per day`,
    ].map((line) => `${line} root@example.com`),
  );
});
