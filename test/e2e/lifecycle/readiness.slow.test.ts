import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, mainUpstream, type TestGateway } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { open, outside } from '../../support/open-database.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { ask, send } from '../support/client.ts';

/** Changes the initial settings of connections to this database. */
const settingOf = (change: string) =>
  `do $$ begin execute format('alter database %I ${change}', current_database()); end $$`;

const CUT = `select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid()`;

for (const on_store_error of ['deny', 'allow'] as const) {
  describe(`/readyz under ${on_store_error}`, () => {
    let upstream: ScriptedUpstream;
    let database: Awaited<ReturnType<typeof createTestDatabase>>;
    let proxy: TcpRelay;
    let gateway: TestGateway;
    let spool_dir: string;

    before(async () => {
      upstream = await startUpstream();
      database = await createTestDatabase();
      const url = new URL(database.url);
      proxy = await startRelay(Number(url.port));
      url.port = String(proxy.port);
      spool_dir = await mkdtemp(join(tmpdir(), 'appscli-readiness-'));
      gateway = await bootGateway({
        upstream_url: upstream.url,
        database_url: url.href,
        config: {
          upstreams: [{ ...mainUpstream(upstream.url), breaker: { mode: 'enforce', open_seconds: 1 } }],
          spend_limits: { defaults: { user_daily_usd: 100 }, on_exceeded: 'deny', on_store_error, spool_dir },
        },
      });
      assert.equal((await ask(gateway.url, gateway.token)).status, 200);
    });
    after(async () => {
      await gateway?.close();
      await proxy?.stop();
      await database?.drop();
      await upstream?.close();
      await rm(spool_dir, { recursive: true, force: true });
    });

    const ready = () => send(gateway.url, { method: 'GET', path: '/readyz' });
    /** Waits until /readyz reports a state of the database, sends a known client's request, and returns both responses. */
    async function compare(state: string) {
      const readiness = await until(`the database is ${state}`, async () => {
        const response = await ready();
        return response.json().checks.database === state && response;
      });
      const { status } = await ask(gateway.url, gateway.token);
      return {
        readiness: readiness.status,
        word: readiness.json().status,
        spool: readiness.json().checks.spool,
        request: status,
      };
    }
    const fine = { readiness: 200, word: 'ok', spool: on_store_error === 'deny' ? 'unused' : 'ok', request: 200 };
    const ill =
      on_store_error === 'deny'
        ? { readiness: 503, word: 'unavailable', spool: 'unused', request: 503 }
        : { readiness: 200, word: 'degraded', spool: 'ok', request: 200 };

    test('reports upstream states, and is as ready without any', async () => {
      const readiness = async () => {
        const { status, json } = await ready();
        return [status, json().upstreams];
      };
      assert.deepEqual(await readiness(), [200, { main: { state: 'closed' } }]);
      const before = Date.now();
      await upstream.pause();
      const [status, { main }] = await until('its breaker is open', async () => {
        await ask(gateway.url, gateway.token);
        const response = await readiness();
        return response[1].main.state === 'open' && response;
      });
      assert.equal(status, 200);
      assert.ok(Date.parse(main.until) > before);
      assert.doesNotMatch((await ready()).text, /127\.0\.0\.1|ECONN/);
      await upstream.resume();
      await until('it is tried again', async () => (await ask(gateway.url, gateway.token)).status === 200);
      await until('it is closed', async () => {
        await ask(gateway.url, gateway.token);
        return (await readiness())[1].main.state === 'closed';
      });
    });

    test("reports requests' outcome for a read-only or unreachable database, and names no host", async () => {
      assert.deepEqual(await compare('ok'), fine);
      await outside(
        database.url,
        `begin read write; ${settingOf('set default_transaction_read_only = on')}; ${CUT}; commit`,
      );
      assert.deepEqual(await compare('read_only'), ill);
      await outside(database.url, `begin read write; ${settingOf('reset all')}; ${CUT}; commit`);
      assert.deepEqual(await compare('ok'), fine);
      await proxy.stop();
      assert.deepEqual(await compare('unavailable'), ill);
      assert.doesNotMatch((await ready()).text, /127\.0\.0\.1|ECONN|postgres:/);
      await proxy.start();
      assert.deepEqual(await compare('ok'), fine);
    });
  });
}

/** Error code of PostgreSQL. */
const DEADLOCK = '40P01';

test('the first request after a restore is served, from a backup as old as one without tables', async () => {
  const upstream = await startUpstream();
  const { url, drop } = await createTestDatabase();
  const gateway = await bootGateway({ upstream_url: upstream.url, database_url: url });
  try {
    // While the schema is made again, a busy machine may pass the five seconds that a gateway waits.
    const answered = () =>
      until('the database answers in time', async () => {
        const response = await ask(gateway.url, gateway.token);
        return response.text.includes('did not answer in time') ? undefined : response;
      });
    const crowd = () => Promise.all(Array.from({ length: 8 }, answered));
    // The gateway's background writes may lock the tables in another order, and PostgreSQL then ends one of the two.
    const empty = () =>
      until('the tables are gone', () =>
        outside(url, 'drop schema public cascade; create schema public').then(
          () => true,
          (error: { code?: string }) => {
            if (error.code === DEADLOCK) return false;
            throw error;
          },
        ),
      );
    // A new token is announced, and makes the gateway look it up once more.
    let is_heard = false;
    await gateway.database.listen(
      'test_readiness',
      () => {
        is_heard = true;
      },
      () => {},
    );
    await outside(url, 'notify test_readiness');
    await until('announcements are heard', () => is_heard);
    // Every connection of the pool has statements on the removed tables.
    await crowd();
    await empty();
    for (const { status, text } of await crowd()) assert.equal(status, 200, text);
    await empty();
    await (await open(url)).close();
    for (const { status, text } of await crowd()) assert.equal(status, 200, text);
  } finally {
    await gateway.close();
    await drop();
    await upstream.close();
  }
});
