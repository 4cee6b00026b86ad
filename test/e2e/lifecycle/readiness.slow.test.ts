import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { outside } from '../../support/open-database.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { startRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { ask, send } from '../support/client.ts';

/** Changes the initial settings of connections to this database. */
const settingOf = (change: string) =>
  `do $$ begin execute format('alter database %I ${change}', current_database()); end $$`;

const CUT = `select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid()`;

for (const on_store_error of ['deny', 'allow'] as const) {
  describe(`/readyz under ${on_store_error}`, () => {
    const upstream = use(startUpstream);
    const database = use(createTestDatabase, ({ drop }) => drop());
    const proxy = use(
      () => startRelay(Number(new URL(database.url).port)),
      (relay) => relay.stop(),
    );
    const gateway = use(() => {
      const url = new URL(database.url);
      url.port = String(proxy.port);
      const defaults = { user_daily_usd: 100 };
      return bootGateway({
        upstream_url: upstream.url,
        database_url: url.href,
        config: { spend_limits: { defaults, on_exceeded: 'deny', on_store_error, spool_dir: ownDirectory() } },
      });
    });
    before(async () => assert.equal((await ask(gateway.url, gateway.token)).status, 200));

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

    test("reports requests' outcome for a read-only or unreachable database, and names no host", async () => {
      assert.deepEqual(await compare('ok'), fine);
      assert.deepEqual((await ready()).json().upstreams, { main: { state: 'closed' } });
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
