import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../../engine/kit/clock.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import { gatewayConfig, makeToken, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { answerSlowly } from '../streams/answer-slowly.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { type MortalPostgres, openAt, startMortalPostgres } from '../support/fleet.ts';
import { type GatewayProcess, startGatewayProcess } from '../support/gateway-process.ts';
import { ledgerRows, nothingReserved, spoolFiles } from '../support/state.ts';

const ROUNDS = 2;
const CALLERS = 30;

let upstream: ScriptedUpstream;
let postgres: MortalPostgres;
let database: Database;
let config: Awaited<ReturnType<typeof writeConfig>>;
let gateway: GatewayProcess | undefined;
let start: () => Promise<GatewayProcess>;

before(async () => {
  upstream = await startUpstream();
  postgres = await startMortalPostgres();
  database = await openAt(postgres.url);
  const env = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: postgres.url };
  const server = { listen: '127.0.0.1:0', public_url: 'http://127.0.0.1' };
  const spend_limits = {
    defaults: { user_daily_usd: 100, team_monthly_usd: 10_000 },
    on_exceeded: 'deny',
    on_store_error: 'allow',
    store_timeout_seconds: 1,
  };
  config = await writeConfig(gatewayConfig(upstream.url, { server, spend_limits }));
  start = () => startGatewayProcess(config.config_file, env);
  gateway = await start();
});
after(async () => {
  gateway?.child.kill('SIGKILL');
  await gateway?.ended;
  await database?.close();
  await postgres?.close();
  await upstream?.close();
  await rm(config.directory, { recursive: true, force: true });
});

test('a gateway killed while its database is away leaves exactly one row for each request that the upstream saw', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const callers = await Promise.all(
      Array.from({ length: CALLERS }, async (_, index) => {
        const user = `caller-${round}-${index}@example.com`;
        return { user, token: await makeToken(database, { user, team: 'crashers' }), stream: index % 2 === 0 };
      }),
    );
    const { url } = gateway!;
    const call = ({ user, token, stream }: (typeof callers)[number]) =>
      send(url, { headers: bearer(token, ['x-caller', user]), body: messagesBody({ stream }) });
    // A caller that was never seen can't be told without the database. Each of these requests has a row of its own.
    upstream.script = answerJson(message());
    for (let again = 0; again < 2; again++) {
      for (const { status } of await Promise.all(callers.map(call))) assert.equal(status, 200);
    }
    await nothingReserved(database);
    await postgres.stop(round % 2 === 0 ? 'cleanly' : 'crash');
    upstream.requests.length = 0;
    upstream.script = answerSlowly;

    const calls = callers.map(async (caller) => {
      await delay(Math.random() * 300);
      await call(caller).catch(() => undefined);
    });
    await until('some are out', () => upstream.requests.length > CALLERS / 3);
    const kill_after = Math.random() * 150;
    await delay(kill_after);
    await gateway!.end('SIGKILL');
    await Promise.all(calls);
    // It starts before its database does.
    const starting = start();
    await postgres.start();
    gateway = await starting;

    const spool = join(config.directory, '.appscli', 'spool');
    await until('the spool is empty', () => spoolFiles(spool).length === 0);
    await nothingReserved(database);
    const seen = upstream.requests.map(({ headers }) => String(headers['x-caller']));
    assert.equal(new Set(seen).size, seen.length);
    const rows = await ledgerRows(database);
    for (const { user } of callers) {
      const own = rows.filter(({ user_email }) => user_email === user);
      const during = own.length - 2;
      const told = `${user}, killed after ${kill_after.toFixed(0)} ms`;
      // One may have been noted, and the gateway ended before it went out.
      assert.ok(during === 1 || (during === 0 && !seen.includes(user)), `${told}: ${during} rows`);
      for (const { cost_nano_usd } of own) assert.ok(cost_nano_usd > 0, 'a request with an unknown end is not free');
    }
  }
  const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
  for (const found of [differences, repeated, uncounted, attempts, left])
    assert.deepEqual(found, { total: 0, first: [] });
});
