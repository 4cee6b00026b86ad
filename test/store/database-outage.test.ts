import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createTestDatabase } from '../support/database.ts';
import { createLog, open, outside, unavailable } from '../support/open-database.ts';
import { startRelay, type TcpRelay } from '../support/tcp-relay.ts';
import { until } from '../support/until.ts';

/** The same database behind a proxy. */
async function behindProxy(url: string): Promise<{ proxy: TcpRelay; proxied: string }> {
  const target = new URL(url);
  const proxy = await startRelay(Number(target.port));
  target.port = String(proxy.port);
  return { proxy, proxied: target.href };
}

describe('an absent database', { concurrency: true }, () => {
  let url: string;
  let drop: () => Promise<void>;

  before(async () => {
    ({ url, drop } = await createTestDatabase());
    await (await open(url)).close();
  });
  after(() => drop());

  test('is an error with the place and the remedy for a command', async () => {
    const { proxy, proxied } = await behindProxy(url);
    await proxy.stop();
    await assert.rejects(open(proxied), {
      name: 'StartError',
      exit_code: 69,
      message: new RegExp(
        `^cannot use the database at 127\\.0\\.0\\.1:${proxy.port}/test_\\w+: connection refused \\(.*\\); start it, or correct the URL in TEST_DATABASE_URL$`,
      ),
    });
  });

  test('makes the gateway wait, with one log line for the outage and one for the recovery', async () => {
    const { proxy, proxied } = await behindProxy(url);
    await proxy.stop();
    const { lines, log } = createLog();
    const database = await open(proxied, { wait: 'in-background', log });
    let reconnects = 0;
    await database.listen(
      'late',
      () => {},
      () => reconnects++,
    );
    for (let attempt = 0; attempt < 3; attempt++) {
      await assert.rejects(database.query('any', 'select 1', []), unavailable());
    }
    const { ok, detail } = await database.check();
    assert.equal(ok, false);
    assert.match(detail ?? '', /connection refused/);
    await proxy.start();
    await until('it is found', () => database.check().then((state) => state.ok));
    await until('listening has begun', () => reconnects === 1);
    assert.equal(lines.filter((line) => line.includes('cannot be used')).length, 1);
    assert.equal(lines.filter((line) => line.includes('can be used again')).length, 1);
    await database.close();
    await proxy.stop();
  });

  test('in the middle of operation is store_unavailable, and over as soon as it is back', async () => {
    const { proxy, proxied } = await behindProxy(url);
    const database = await open(proxied, { wait: 'in-background' });
    await database.query('any', 'select 1', []);
    const cut = assert.rejects(database.query('long', 'select pg_sleep(10)', []), unavailable(/connection lost/));
    await until(
      'it runs',
      async () =>
        (await outside(url, `select 1 from pg_stat_activity where query = 'select pg_sleep(10)' and state = 'active'`))
          .length > 0,
    );
    await proxy.stop();
    await cut;
    await assert.rejects(database.query('any', 'select 1', []), unavailable(/connection refused/));
    await proxy.start();
    assert.deepEqual(await database.query('any', 'select 1 as one', []), [{ one: 1 }]);
    await database.close();
    await proxy.stop();
  });

  test('that swallows everything is store_unavailable after five seconds, and can be closed in less', async () => {
    const { proxy, proxied } = await behindProxy(url);
    const [database, closed] = [await open(proxied), await open(proxied)];
    for (const each of [database, closed]) await each.query('any', 'select 1', []);
    proxy.fallSilent();
    const known = assert.rejects(database.query('any', 'select 1', []), unavailable(/no answer within 5 seconds/));
    const fresh = assert.rejects(database.query('any', 'select 1', []), unavailable(/no answer within 5 seconds/));
    // It would have waited as long.
    const cut = assert.rejects(closed.query('any', 'select 1', []), unavailable(/connection lost/));
    await nextTurn();
    await closed.close();
    await Promise.all([cut, known, fresh]);
    await database.close();
    await proxy.stop();
  });
});
