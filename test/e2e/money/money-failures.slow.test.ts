/** Gateways and databases that go away in the middle: the cap holds, and nothing is lost. `budget.test.ts` has those that live. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, type ConfigSections, makeToken } from '../../support/gateway.ts';
import {
  answerJson,
  type Exchange,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { keepRequests } from '../streams/kept-requests.ts';
import { ask, type Response } from '../support/client.ts';
import { type Fleet, type MortalPostgres, startFleet, startMortalPostgres } from '../support/fleet.ts';
import { ledgerRows, nothingReserved } from '../support/state.ts';
import { DOLLAR_TOKENS, dollarModel } from './dollar-models.ts';

const USD = 1_000_000_000;

const MODELS = {
  models: [dollarModel('coder-1')],
  token_groups: [{ name: 'all', models: ['*'] }],
};

let upstream: ScriptedUpstream;

before(async () => {
  upstream = await startUpstream();
});
after(() => upstream?.close());
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.script = answerAll;
});

/** Answers with everything that was asked for, so that a request costs the most it can. */
function answerAll(exchange: Exchange): void | Promise<void> {
  const { max_tokens } = JSON.parse(exchange.received.body.toString());
  return answerJson(message({ input_tokens: 5, output_tokens: max_tokens }))(exchange);
}

const configWith = (spend_limits: object): ConfigSections => ({
  ...MODELS,
  spend_limits: { on_exceeded: 'deny', ...spend_limits },
});

const dollars = (url: string, token: string, count = 1): Promise<Response> =>
  ask(url, token, { max_tokens: count * DOLLAR_TOKENS });

const served = (responses: readonly Response[]): number => responses.filter(({ status }) => status === 200).length;

/** Compares a user's ledger with what the upstream saw, the counters with the ledger, and gives what was spent in USD. */
async function spentUsd(database: Database, user?: string): Promise<number> {
  await nothingReserved(database);
  const rows = (await ledgerRows(database)).filter(({ user_email }) => user === undefined || user_email === user);
  assert.equal(rows.length, upstream.requests.length, 'every request that the upstream saw has one row, others none');
  assert.equal(new Set(rows.map(({ request_id }) => request_id)).size, rows.length);
  const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
  for (const found of [differences, repeated, uncounted, attempts, left])
    assert.deepEqual(found, { total: 0, first: [] });
  return rows.reduce((sum, row) => sum + row.cost_nano_usd, 0) / USD;
}

describe('gateways that are killed', () => {
  let test_database: Awaited<ReturnType<typeof createTestDatabase>>;
  let fleet: Fleet;
  before(async () => {
    test_database = await createTestDatabase();
    fleet = await startFleet({
      gateways: 1,
      upstream_url: upstream.url,
      database_url: test_database.url,
      config: configWith({ defaults: { user_daily_usd: 10 }, reserve: 'worst_case' }),
    });
  });
  after(async () => {
    await fleet?.close();
    await test_database?.drop();
  });

  test('a restart: what was under way is charged, so that dying makes no room', async () => {
    const [url] = fleet.urls as [string];
    const token = await makeToken(fleet.database);
    assert.equal(served(await Promise.all(Array.from({ length: 3 }, () => dollars(url, token)))), 3);
    keepRequests(upstream, answerAll);
    const broken = Array.from({ length: 20 }, () => dollars(url, token).catch(() => undefined));
    await upstream.arrived(10);
    await fleet.kill(0);
    await Promise.all(broken);
    assert.equal(await spentUsd(fleet.database), 10);
    upstream.script = answerAll;
    const { status, text } = await dollars(url, token);
    assert.equal(status, 429, text);
    assert.equal(upstream.requests.length, 10);
  });
});

describe('a database that goes away in the middle', () => {
  let postgres: MortalPostgres;
  let database_url: string;
  before(async () => {
    postgres = await startMortalPostgres();
    database_url = await postgres.createDatabase();
  });
  after(() => postgres?.close());
  beforeEach(() => postgres.start());

  const boot = (spend_limits: object) =>
    bootGateway({ upstream_url: upstream.url, database_url, config: configWith(spend_limits) });

  test('deny: what is under way ends, nothing else is sent, and the cap is what it was', async () => {
    const gateway = await boot({ defaults: { user_daily_usd: 10 }, reserve: 'worst_case', on_store_error: 'deny' });
    try {
      const { url, database } = gateway;
      const user = 'denied@example.com';
      const token = await gateway.newToken({ user });
      const reserved = keepRequests(upstream, answerAll);
      const under_way = Array.from({ length: 6 }, () => dollars(url, token));
      await upstream.arrived(6);
      await postgres.stop('crash');
      reserved.open();
      assert.equal(served(await Promise.all(under_way)), 6, 'what was paid for is delivered');
      const meanwhile = await Promise.all(Array.from({ length: 20 }, () => dollars(url, token)));
      assert.deepEqual(new Set(meanwhile.map(({ status }) => status)), new Set([503]));
      assert.equal(upstream.requests.length, 6);
      await postgres.start();
      const again = await until('somebody is served again', async () => {
        const response = await dollars(url, token);
        return response.status === 200 && response;
      });
      assert.equal(again.status, 200);
      await nothingReserved(database);
      assert.equal(served(await Promise.all(Array.from({ length: 20 }, () => dollars(url, token)))), 3);
      assert.equal(await spentUsd(database, user), 10);
    } finally {
      await gateway.close();
    }
  });

  test('allow: everybody is served, every request is charged afterwards, and the cap holds again', async () => {
    const gateway = await boot({ defaults: { user_daily_usd: 10 }, reserve: 'worst_case', on_store_error: 'allow' });
    try {
      const { url, database } = gateway;
      const user = 'allowed@example.com';
      const token = await gateway.newToken({ user });
      // The announcement of the new token makes the gateway forget it once more.
      for (let round = 0; round < 3; round++) {
        assert.equal((await dollars(url, token)).status, 200);
        await nothingReserved(database);
      }
      await postgres.stop('cleanly');
      const meanwhile = await Promise.all(Array.from({ length: 15 }, () => dollars(url, token)));
      for (const { status, text } of meanwhile) assert.equal(status, 200, text);
      await postgres.start();
      const rows = async () => (await ledgerRows(database)).filter(({ user_email }) => user_email === user);
      await until('all of it is in the ledger', async () => (await rows()).length === 18);
      const refused = await dollars(url, token);
      assert.equal(refused.status, 429, refused.text);
      assert.equal(refused.json().error.spent_usd, 18);
      assert.equal(await spentUsd(database, user), 18);
    } finally {
      await gateway.close();
    }
  });
});
