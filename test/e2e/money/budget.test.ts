import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { bootGateway, type ConfigSections, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { keepRequests } from '../streams/kept-requests.ts';
import { ask, type Response } from '../support/client.ts';
import { ledgerRows, nothingReserved, reserved } from '../support/state.ts';
import { answerDollar, DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

const USD = 1_000_000_000;

const START = '2026-11-25T10:00:00Z';
/** When a day and a month end. */
const ENDS: Readonly<Record<string, string>> = { day: '2026-11-26T00:00:00.000Z', month: '2026-12-01T00:00:00.000Z' };

let upstream: ScriptedUpstream;
const gateways: TestGateway[] = [];

function configWith(spend_limits: object): ConfigSections {
  const models = [dollarModel('coder-1')];
  return { models, token_groups: [{ name: 'all', models: ['*'] }], spend_limits };
}

async function boot(spend_limits: object, database_url?: string): Promise<TestGateway> {
  const on = database_url === undefined ? {} : { database_url };
  const gateway = await bootGateway({
    ...{ upstream_url: upstream.url, clock: frozenClock(START), config: configWith(spend_limits) },
    ...on,
  });
  gateways.push(gateway);
  return gateway;
}

before(async () => {
  upstream = await startUpstream();
});
after(async () => {
  for (const gateway of gateways.toReversed()) await gateway.close();
  await upstream?.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.script = answerDollar;
});

const dollar = (gateway: TestGateway, token = gateway.token, dollars = 1) =>
  ask(gateway.url, token, { max_tokens: DOLLAR_TOKENS * dollars });

async function counters(gateway: TestGateway): Promise<Record<string, { spent: number; reserved: number }>> {
  const rows: Record<string, unknown>[] = await gateway.database.knex('spend_counters').select('*');
  return Object.fromEntries(
    rows.map((row) => [
      `${row.scope} ${row.key} ${row.window_kind}`,
      { spent: Number(row.spent), reserved: Number(row.reserved) },
    ]),
  );
}

interface Limit {
  readonly scope: string;
  readonly window: string;
  readonly limit_usd: number;
}

function assertSpendError(response: Response, limit: Limit, status = 429): void {
  assert.equal(response.status, status, response.text);
  const { type, error, request_id } = response.json();
  assert.deepEqual([type, error.type, error.code], ['error', 'billing_error', 'spend_limit_exceeded']);
  assert.deepEqual({ scope: error.scope, window: error.window, limit_usd: error.limit_usd }, limit);
  assert.equal(request_id, response.headers['x-gateway-request-id']);
  assert.equal(typeof error.rule, 'string');
  assert.equal(error.resets_at, ENDS[limit.window]);
  const seconds = (Date.parse(error.resets_at) - Date.parse(START)) / 1000;
  assert.equal(response.headers['retry-after'], String(seconds));
  assert.equal(response.headers['x-should-retry'], 'false');
  assert.match(error.message, new RegExp(`${limit.limit_usd}`), 'the message names the limit');
}

test('of 200 concurrent requests against a limit for 50, exactly 50 are forwarded and the rest rejected', async () => {
  const gateway = await boot({ defaults: { user_daily_usd: 50 }, on_exceeded: 'deny', reserve: 'worst_case' });
  const upstream_gate = keepRequests(upstream, answerDollar);
  const refused: Response[] = [];
  const all = Array.from({ length: 200 }, async () => {
    const response = await dollar(gateway);
    if (response.status !== 200) refused.push(response);
    return response;
  });
  await until('150 are rejected', () => refused.length === 150);
  await upstream.arrived(50);
  assert.equal(upstream.requests.length, 50);
  assert.deepEqual(await reserved(gateway.database), { nano_usd: 50 * USD, reservations: 50 });
  for (const response of refused) assertSpendError(response, { scope: 'user', window: 'day', limit_usd: 50 });
  assert.match(refused[0]!.json().error.message, /reserved|in flight/, 'it reports the budget as reserved, not spent');

  upstream_gate.open();
  const answered = await Promise.all(all);
  assert.equal(answered.filter(({ status }) => status === 200).length, 50);
  await nothingReserved(gateway.database);
  assert.equal(upstream.requests.length, 50);
  assert.deepEqual(await counters(gateway), { 'user dev@example.com day': { spent: 50 * USD, reserved: 0 } });
  const rows = await ledgerRows(gateway.database);
  assert.equal(rows.length, 50);
  assert.equal(
    rows.reduce((sum, row) => sum + row.cost_nano_usd, 0),
    50 * USD,
  );
  assertSpendError(await dollar(gateway), { scope: 'user', window: 'day', limit_usd: 50 });
});

test('the last nano-dollar of a limit can be spent, and not one more', async () => {
  const gateway = await boot({ defaults: { user_daily_usd: 0.064 }, on_exceeded: 'deny', reserve: 'worst_case' });
  assert.equal((await ask(gateway.url, gateway.token, { max_tokens: 65 })).status, 429);
  upstream.script = answerJson(message({ input_tokens: 5, output_tokens: 64 }));
  assert.equal((await ask(gateway.url, gateway.token, { max_tokens: 64 })).status, 200);
  await nothingReserved(gateway.database);
  assert.equal((await ask(gateway.url, gateway.token, { max_tokens: 1 })).status, 429);
  assert.equal(upstream.requests.length, 1);
});

test("each user has a limit below the team's; the one without headroom rejects, and reserves nothing elsewhere", async () => {
  const defaults = { user_daily_usd: 4, team_monthly_usd: 6 };
  const gateway = await boot({ defaults, on_exceeded: 'deny', reserve: 'worst_case' });
  const ada = await gateway.newToken({ user: 'ada@example.com', team: 'search' });
  const bob = await gateway.newToken({ user: 'bob@example.com', team: 'search' });
  const eve = await gateway.newToken({ user: 'eve@example.com', team: 'ads' });
  const statuses = async (token: string, count: number) =>
    (await Promise.all(Array.from({ length: count }, () => dollar(gateway, token)))).map(({ status }) => status);
  const passed = (list: number[]) => list.filter((status) => status === 200).length;

  assert.equal(passed(await statuses(ada, 10)), 4);
  assertSpendError(await dollar(gateway, ada), { scope: 'user', window: 'day', limit_usd: 4 });
  assert.equal(passed(await statuses(bob, 10)), 2);
  assertSpendError(await dollar(gateway, bob), { scope: 'team', window: 'month', limit_usd: 6 });
  assert.equal(passed(await statuses(eve, 10)), 4, 'another team is not affected');
  await nothingReserved(gateway.database);
  assert.deepEqual(await counters(gateway), {
    'user ada@example.com day': { spent: 4 * USD, reserved: 0 },
    'user bob@example.com day': { spent: 2 * USD, reserved: 0 },
    'user eve@example.com day': { spent: 4 * USD, reserved: 0 },
    'team search month': { spent: 6 * USD, reserved: 0 },
    'team ads month': { spent: 4 * USD, reserved: 0 },
  });
});

for (const reserve of ['worst_case', 'typical']) {
  test(`two gateways on one database share every limit, ${reserve}`, async () => {
    const limits = { defaults: { user_daily_usd: 25 }, on_exceeded: 'deny', reserve, overshoot_percent: 0 };
    const first = await boot(limits);
    const second = await boot(limits, first.env.TEST_DATABASE_URL!);
    const upstream_gate = keepRequests(upstream, answerDollar);
    let refused = 0;
    const all = Array.from({ length: 100 }, async (_, index) => {
      const response = await dollar(index % 2 === 0 ? first : second, first.token);
      if (response.status !== 200) refused++;
      return response.status;
    });
    await until('75 are rejected', () => refused === 75);
    upstream_gate.open();
    const statuses = await Promise.all(all);
    assert.equal(statuses.filter((status) => status === 200).length, 25);
    assert.equal(upstream.requests.length, 25);
    await nothingReserved(first.database);
    assert.deepEqual(await counters(first), { 'user dev@example.com day': { spent: 25 * USD, reserved: 0 } });
    assert.equal((await ledgerRows(first.database)).length, 25);
  });

  test(`a request that may cost more than is left is not sent, ${reserve}, and one that fits still is`, async () => {
    const gateway = await boot({ defaults: { user_daily_usd: 10 }, on_exceeded: 'deny', reserve });
    upstream.script = ({ received, ...rest }) =>
      answerJson(message({ input_tokens: 5, output_tokens: JSON.parse(received.body.toString()).max_tokens }))({
        received,
        ...rest,
      });
    assert.equal((await dollar(gateway, gateway.token, 7)).status, 200);
    await nothingReserved(gateway.database);
    const oversized = await dollar(gateway, gateway.token, 4);
    assert.equal(oversized.status, 429, oversized.text);
    assert.equal(oversized.json().error.spent_usd, 7);
    assert.equal((await dollar(gateway, gateway.token, 64)).status, 429);
    assert.equal((await dollar(gateway, gateway.token, 3)).status, 200);
    await nothingReserved(gateway.database);
    assert.equal((await ask(gateway.url, gateway.token, { max_tokens: 1 })).status, 429);
    assert.equal(upstream.requests.length, 2);
    assert.deepEqual(await counters(gateway), { 'user dev@example.com day': { spent: 10 * USD, reserved: 0 } });
  });
}
