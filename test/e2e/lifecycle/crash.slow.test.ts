import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { systemClock } from '../../../engine/kit/clock.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import { type Database, openDatabase } from '../../../engine/store/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, makeToken, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { answerSlowly } from '../streams/answer-slowly.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { type GatewayProcess, startGatewayProcess } from '../support/gateway-process.ts';
import { ledgerRows, nothingReserved, reserved } from '../support/state.ts';

const ROUNDS = 3;
const CALLERS = 30;

let upstream: ScriptedUpstream;
let test_database: Awaited<ReturnType<typeof createTestDatabase>>;
let database: Database;
let config: Awaited<ReturnType<typeof writeConfig>>;
let env: NodeJS.ProcessEnv;
let gateway: GatewayProcess | undefined;

before(async () => {
  upstream = await startUpstream();
  test_database = await createTestDatabase();
  env = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: test_database.url };
  const server = { listen: '127.0.0.1:0', public_url: 'http://127.0.0.1' };
  const spend_limits = { defaults: { user_daily_usd: 100, team_monthly_usd: 10_000 }, on_exceeded: 'deny' };
  config = await writeConfig(gatewayConfig(upstream.url, { server, spend_limits }));
  gateway = await startGatewayProcess(config.config_file, env);
  const quiet = { debug() {}, info() {}, warn() {}, error() {} };
  const database_only = { database: { postgres: { url_env: 'TEST_DATABASE_URL', pool_max: 3 } } };
  database = await openDatabase({ config: database_only as never, env, log: quiet, wait: 'until-ready' });
});
after(async () => {
  gateway?.child.kill('SIGKILL');
  await gateway?.ended;
  await database?.close();
  await test_database?.drop();
  await upstream?.close();
  await rm(config.directory, { recursive: true, force: true });
});

test('whenever the gateway is killed, every request the upstream saw has exactly one ledger row, and nothing stays reserved', async () => {
  upstream.script = answerSlowly;
  /** One user per request, because that is what a ledger row and a request have in common. */
  let users = 0;
  const sent = new Map<string, string>();

  for (let round = 0; round < ROUNDS; round++) {
    const tokens = await Promise.all(
      Array.from({ length: CALLERS }, async () => {
        const user = `caller-${users++}@example.com`;
        return { user, token: await makeToken(database, { user, team: 'crashers' }) };
      }),
    );
    const url = gateway!.url;
    const callers = tokens.map(async ({ user, token }, index) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 60));
      sent.set(user, token);
      const headers = bearer(token, ['x-caller', user]);
      await send(url, { headers, body: messagesBody({ stream: index % 2 === 0 }) }).catch(() => undefined);
    });
    const kill_after = 20 + Math.random() * 200;
    await new Promise((resolve) => setTimeout(resolve, kill_after));
    await gateway!.end('SIGKILL');
    await Promise.all(callers);
    gateway = await startGatewayProcess(config.config_file, env);

    await until('what the dead process reserved is settled', async () => {
      const { nano_usd, reservations } = await reserved(database);
      return nano_usd === 0 && reservations === 0;
    }).catch((error) => {
      throw new Error(`killed after ${kill_after.toFixed(0)} ms: ${error.message}`);
    });
    const rows = await ledgerRows(database);
    const rows_of = (user: string) => rows.filter(({ user_email }) => user_email === user);
    for (const { headers } of upstream.requests) {
      const user = String(headers['x-caller']);
      assert.equal(rows_of(user).length, 1, `${user} was forwarded (killed after ${kill_after.toFixed(0)} ms)`);
    }
    for (const user of sent.keys()) assert.ok(rows_of(user).length <= 1, `${user} has two rows`);
    for (const row of rows) assert.ok(row.cost_nano_usd > 0, 'a request with an unknown end is not free');
  }

  const [counted] = await database.knex('spend_counters').where({ scope: 'team' }).sum({ spent: 'spent' });
  const total = (await ledgerRows(database)).reduce((sum, row) => sum + row.cost_nano_usd, 0);
  assert.equal(Number(counted?.spent), total, 'the counters equal the ledger');
  await nothingReserved(database);
  const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
  for (const found of [differences, repeated, uncounted, attempts, left])
    assert.deepEqual(found, { total: 0, first: [] });
});
