import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import pg from 'pg';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import { PACKAGE_ROOT } from '../../engine/base/kit/package-root.ts';
import type { Database } from '../../engine/base/store/database.ts';
import { createListener } from '../../engine/base/store/listener.ts';
import { migrate, migrations } from '../../engine/base/store/migrate.ts';
import { createConnections, parseInt8 } from '../../engine/base/store/postgres-client.ts';
import { createTestDatabase } from '../support/database.ts';
import { open, outside, POOL_MAX } from '../support/open-database.ts';
import { until } from '../support/until.ts';

const cutAll = `select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid()`;

describe('an open database', () => {
  let url: string;
  let drop: () => Promise<void>;
  let database: Database;

  before(async () => {
    ({ url, drop } = await createTestDatabase());
    database = await open(url);
  });
  after(async () => {
    await database.close();
    await drop();
  });

  test('runs prepared statements, with bigint as numbers and dates as text', async () => {
    const sql = `select $1::int8 as big, array[1, null]::int8[] as list, date '2026-02-28' as day, 1.5::numeric as exact`;
    for (const big of [1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER]) {
      const rows = await database.query('types', sql, [big]);
      assert.deepEqual(rows, [{ big, list: [1, null], day: '2026-02-28', exact: '1.5' }]);
    }
    assert.deepEqual((await database.knex.raw('select 7::int8 as big')).rows, [{ big: 7 }]);
  });

  test('compiles no statement to machine code, on a server that does by default', async () => {
    const [{ name } = { name: '' }] = await outside<{ name: string }>(url, 'select current_database() as name');
    await outside(url, `alter database ${name} set jit = on`);
    const fresh = await open(url);
    try {
      assert.deepEqual(await fresh.query('jit', 'show jit', []), [{ jit: 'off' }]);
    } finally {
      await fresh.close();
    }
  });

  test('rejects a bigint beyond a number instead of rounding it', async () => {
    const sql = 'select $1::int8 as big';
    await assert.rejects(database.query('too big', sql, ['9007199254740993']), RangeError);
    assert.deepEqual(await database.query('too big', sql, [1]), [{ big: 1 }]);
  });

  test('reports once that a value cannot be sent, and continues', async () => {
    const sql = 'select $1::jsonb as value';
    await assert.rejects(database.query('cannot be sent', sql, [{ big: 1n }]), TypeError);
    assert.deepEqual(await database.query('can be sent', sql, [{ big: 1 }]), [{ value: { big: 1 } }]);
  });

  test("passes on PostgreSQL's error for a wrong statement, and keeps the connection", async () => {
    const pids = async () => (await outside<{ pid: number }>(url, connections)).map(({ pid }) => pid);
    const connections = `select pid from pg_stat_activity where application_name = 'appscli' and datname = current_database() order by pid`;
    await database.query('fine', 'select 1', []);
    const before = await pids();
    await assert.rejects(database.query('wrong', 'select 1 / $1::int', [0]), { code: '22012' });
    await database.query('fine', 'select 1', []);
    assert.deepEqual(await pids(), before);
  });

  for (const pool_max of [3, 4, POOL_MAX, 6, 9]) {
    test(`never opens more connections than pool_max: ${pool_max}`, async () => {
      const own = await createTestDatabase();
      const postgres = { url_env: 'TEST_DATABASE_URL', pool_max };
      const small = await open(own.url, { config: { database: { postgres } } as GatewayConfig });
      const nothing = () => {};
      await small.listen('counted', nothing, nothing);
      // They open in the background.
      small.lanes();
      const work = Promise.all([
        ...Array.from({ length: 40 }, () => small.query('slow', 'select pg_sleep(0.01)', [])),
        ...Array.from({ length: 10 }, () => small.knex.raw('select pg_sleep(0.01)')),
      ]);
      const sql = `select count(*)::int as count from pg_stat_activity where datname = current_database() and application_name = 'appscli'`;
      const counts: number[] = [];
      let working = true;
      const watching = (async () => {
        while (working) counts.push((await outside<{ count: number }>(own.url, sql))[0]!.count);
      })();
      await work;
      await until('all are open', () => Math.max(...counts) >= pool_max);
      working = false;
      await watching;
      await small.close();
      await own.drop();
      assert.equal(Math.max(...counts), pool_max);
    });
  }

  test('stops listening that is closed while it connects', async () => {
    const nothing = () => {};
    const settings = () => ({ connectionString: url });
    const listener = createListener(createConnections({ settings, label: () => 'test' }));
    const listening = listener.listen('closed', nothing, nothing);
    await listener.close();
    await listening;
  });

  test('recovers after all its connections were cut', async () => {
    await database.query('fine', 'select 1', []);
    await outside(url, cutAll);
    await until('a statement runs', () => database.query('fine', 'select 1', []).then(Boolean, () => false));
    assert.deepEqual(await database.check(), { ok: true });
  });

  test('delivers notifications, and reports possible gaps', async () => {
    const listening = await open(url);
    const heard: string[] = [];
    let reconnects = 0;
    const note = (payload: string) => heard.push(payload);
    await listening.listen('Odd "name"', note, () => reconnects++);
    await listening.listen('another', note, () => {});
    const notify = (channel: string, payload: string) =>
      until('it is sent', () =>
        database.query('notify', 'select pg_notify($1, $2)', [channel, payload]).catch(() => false),
      );
    await notify('Odd "name"', 'one');
    await notify('another', 'two');
    await until('both are heard', () => heard.length === 2);
    assert.equal(reconnects, 0);
    await outside(url, cutAll);
    await until('listening begins again', () => reconnects === 1);
    await notify('Odd "name"', 'three');
    await until('the third is heard', () => heard.length === 3);
    assert.deepEqual(heard, ['one', 'two', 'three']);
    await listening.close();
  });

  test('recreates its tables when the database was replaced by an empty one', async () => {
    const read = () => database.query('replaced', 'select count(*) as count from access_tokens', []);
    await read();
    await outside(url, 'drop schema public cascade; create schema public');
    assert.deepEqual(await Promise.all([read(), read()]), [[{ count: 0 }], [{ count: 0 }]]);
  });
});

describe('migrations', () => {
  test('name every file of the schema once', () => {
    const schema = join(PACKAGE_ROOT, 'engine/base/store/schema');
    const found = readdirSync(schema, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.sql'));
    assert.deepEqual(migrations.flatMap(({ files }) => files).toSorted(), found.toSorted());
  });

  test('run once when several processes open an empty database at the same moment', async () => {
    const { url, drop } = await createTestDatabase({ migrated: false });
    const databases = await Promise.all(Array.from({ length: 6 }, () => open(url)));
    const rows = await databases[0]!.knex('schema_migrations').select('name').orderBy('name');
    assert.deepEqual(
      rows.map(({ name }) => name),
      migrations.map(({ name }) => name),
    );
    await Promise.all(databases.map((database) => database.close()));
    await drop();
  });

  test('are there for all who waited for them', async () => {
    const { url, drop } = await createTestDatabase({ migrated: false });
    const first = new pg.Client(url);
    await first.connect();
    // A server notifies first the idle clients that a table was created.
    const idle = Array.from({ length: 30 }, () => new pg.Client(url));
    for (const client of idle) await client.connect();
    // Blocks every migration, so that the others wait from before there are tables.
    await first.query('begin; create table schema_migrations (name text)');
    const opened = Promise.all(Array.from({ length: 8 }, () => open(url)));
    await until('all wait', async () => {
      await first.query('select pg_stat_clear_snapshot()');
      const { rows } = await first.query(
        `select count(*)::int from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rows[0].count === 8;
    });
    await first.query('rollback');
    for (const database of await opened) await database.close();
    for (const client of [first, ...idle]) await client.end();
    await drop();
  });

  test('run once too where transactions use snapshot isolation by default', async () => {
    const { url, drop } = await createTestDatabase({ migrated: false });
    await outside(
      url,
      `alter database ${new URL(url).pathname.slice(1)} set default_transaction_isolation = serializable`,
    );
    const databases = await Promise.all(Array.from({ length: 3 }, () => open(url)));
    await Promise.all(databases.map((database) => database.close()));
    await drop();
  });

  test('are aborted after about a minute where the server falls silent', async (t) => {
    const asked = Promise.withResolvers<void>();
    const silent = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        // AuthenticationOk, ReadyForQuery.
        socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]));
        socket.once('data', () => asked.resolve());
      });
    }).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const settings = () => ({ host: '127.0.0.1', port, user: 'test', database: 'test' });
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const given_up = assert.rejects(migrate(createConnections({ settings, label: () => 'silent' })), /timeout/);
    await asked.promise;
    t.mock.timers.tick(90_000);
    await given_up;
    silent.close();
  });

  test('are not blocked by a process that was killed while migrating', async () => {
    const { url, drop } = await createTestDatabase({ migrated: false });
    const migrating = new pg.Client({ connectionString: url });
    migrating.on('error', () => {});
    await migrating.connect();
    await migrating.query(
      'begin; select pg_advisory_xact_lock(7204817101); create table schema_migrations (name text)',
    );
    const opening = open(url);
    const waiting = `select from pg_locks where locktype = 'advisory' and not granted`;
    await until('the other one waits', async () => (await outside(url, waiting)).length > 0);
    await outside(
      url,
      `select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
       where l.locktype = 'advisory' and l.granted and d.datname = current_database()`,
    );
    await (await opening).close();
    await drop();
  });

  test('are applied as a whole or not at all', async () => {
    const { url, drop } = await createTestDatabase({ migrated: false });
    await outside(url, 'create table admin_changes (theirs text)');
    await assert.rejects(open(url), /relation "admin_changes" already exists/);
    const tables = "select count(*)::int as count from pg_tables where schemaname = 'public'";
    assert.deepEqual(await outside(url, tables), [{ count: 1 }]);
    await outside(url, 'drop table admin_changes');
    await (await open(url)).close();
    await drop();
  });

  const FOREIGN = {
    '9999_later':
      'a newer version of this program (it has 9999_later); run that version or a later one, or restore a backup from before the upgrade',
    '0001_tables':
      'a version from before the first release, whose tables this program cannot use; use an empty database: set another database.postgres or database.embedded.data_dir',
  };
  for (const [name, by] of Object.entries(FOREIGN)) {
    test(`reject a database with the migration ${name} of another version`, async () => {
      const { url, drop } = await createTestDatabase();
      await (await open(url)).close();
      await outside(url, `insert into schema_migrations (name) values ('${name}')`);
      const { host, pathname } = new URL(url);
      const message = `cannot use the database at ${host}${pathname}: it was migrated by ${by}`;
      for (const wait of ['until-ready', 'in-background'] as const) {
        await assert.rejects(open(url, { wait }), { name: 'StartError', exit_code: 69, message });
      }
      await drop();
    });
  }

  test('reject a server that is too old', async () => {
    const { url, drop } = await createTestDatabase({ migrated: false });
    // An immutable setting of the server; but the function that is queried for it can be another.
    await outside(
      url,
      `create schema older;
       create function older.current_setting(name text) returns text language sql
         as $$ select case name when 'server_version_num' then '140022' else '14.22' end $$;
       do $$ begin execute format('alter database %I set search_path = older, public, pg_catalog', current_database()); end $$`,
    );
    const { host, pathname } = new URL(url);
    const message = `cannot use the database at ${host}${pathname}: it is PostgreSQL 14.22, but the gateway needs 15 or later; upgrade it`;
    for (const wait of ['until-ready', 'in-background'] as const) {
      await assert.rejects(open(url, { wait }), { name: 'StartError', exit_code: 69, message });
    }
    await drop();
  });
});

test('every bigint is read exactly or rejected', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (big) => {
      const safe = big >= BigInt(Number.MIN_SAFE_INTEGER) && big <= BigInt(Number.MAX_SAFE_INTEGER);
      if (safe) assert.equal(BigInt(parseInt8(String(big))), big);
      else assert.throws(() => parseInt8(String(big)), RangeError);
    }),
  );
});
