import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chownSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import pg from 'pg';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import { PACKAGE_ROOT } from '../../engine/base/kit/package-root.ts';
import { DatabaseUrlError, readDatabaseUrl } from '../../engine/base/store/database-url.ts';
import { openEmbeddedPostgres } from '../../engine/base/store/embedded-postgres.ts';
import { migrate, migrations } from '../../engine/base/store/migrate.ts';
import { createConnections, openPipelinedConnections, parseInt8 } from '../../engine/base/store/postgres-client.ts';
import { startCli } from '../cli/support.ts';
import { CERTIFICATES, LOOPBACK_CERTIFICATE } from '../support/certificates.ts';
import { createTestDatabase } from '../support/database.ts';
import { gatewayConfig, writeConfig } from '../support/gateway.ts';
import { ownPort } from '../support/net/own-port.ts';
import { createLog, open, outside, POOL_MAX, unavailable } from '../support/open-database.ts';
import { makeSuiteDirectory, quiet, removeSuiteDirectory } from '../support/postgres.ts';
import { quietLog } from '../support/store.ts';
import { startRelay, type TcpRelay } from '../support/tcp-relay.ts';
import { times } from '../support/times.ts';
import { until } from '../support/until.ts';
import { closing, use } from '../support/use.ts';

const cutAll = `select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid()`;

describe('an open database', () => {
  let url: string;
  let drop: () => Promise<void>;
  before(async () => {
    ({ url, drop } = await createTestDatabase());
  });
  const database = use(() => open(url));
  after(() => drop());

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
    await using fresh = closing(await open(url));
    assert.deepEqual(await fresh.query('jit', 'show jit', []), [{ jit: 'off' }]);
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

  for (const isolation of ['read committed', 'serializable']) {
    test(`run once when several processes open an empty database at the same moment, by default ${isolation}`, async () => {
      await using made = await createTestDatabase({ migrated: false });
      const name = new URL(made.url).pathname.slice(1);
      await outside(made.url, `alter database ${name} set default_transaction_isolation = '${isolation}'`);
      const databases = await Promise.all(Array.from({ length: 6 }, () => open(made.url)));
      const rows = await databases[0]!.knex('schema_migrations').select('name').orderBy('name');
      assert.deepEqual(rows, [{ name: migrations[0]!.name }]);
      await Promise.all(databases.map((database) => database.close()));
    });
  }

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

  test('are not blocked by a process that was killed while migrating, and are there for all who waited', async () => {
    await using made = await createTestDatabase({ migrated: false });
    const migrating = new pg.Client({ connectionString: made.url });
    migrating.on('error', () => {});
    await migrating.connect();
    await migrating.query(
      'begin; select pg_advisory_xact_lock(7204817101); create table schema_migrations (name text)',
    );
    const opening = Promise.all(Array.from({ length: 8 }, () => open(made.url)));
    const waiting = `select from pg_locks l join pg_database d on d.oid = l.database
      where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`;
    await until('the others wait', async () => (await outside(made.url, waiting)).length === 8);
    await outside(
      made.url,
      `select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
       where l.locktype = 'advisory' and l.granted and d.datname = current_database()`,
    );
    for (const database of await opening) await database.close();
  });

  test('are applied as a whole or not at all', async () => {
    await using made = await createTestDatabase({ migrated: false });
    const { url } = made;
    await outside(url, 'create table admin_changes (theirs text)');
    await assert.rejects(open(url), /relation "admin_changes" already exists/);
    const tables = "select count(*)::int as count from pg_tables where schemaname = 'public'";
    assert.deepEqual(await outside(url, tables), [{ count: 1 }]);
    await outside(url, 'drop table admin_changes');
    await (await open(url)).close();
  });

  /** Neither a command nor a gateway can use it. */
  async function assertRefused(url: string, why: string): Promise<void> {
    const { host, pathname } = new URL(url);
    const message = `cannot use the database at ${host}${pathname}: ${why}`;
    for (const wait of ['until-ready', 'in-background'] as const) {
      await assert.rejects(open(url, { wait }), { name: 'StartError', exit_code: 69, message });
    }
  }

  const FOREIGN = {
    '9999_later':
      'a newer version of this program (it has 9999_later); run that version or a later one, or restore a backup from before the upgrade',
    '0001_initial':
      'another version from before the first release, whose tables this program cannot use; use an empty database: set another database.postgres or database.embedded.data_dir',
  };
  for (const [name, by] of Object.entries(FOREIGN)) {
    test(`reject a database with the migration ${name} of another version`, async () => {
      await using made = await createTestDatabase();
      const { url } = made;
      await (await open(url)).close();
      await outside(url, `insert into schema_migrations (name) values ('${name}')`);
      await assertRefused(url, `it was migrated by ${by}`);
    });
  }

  test('reject a server that is too old', async () => {
    await using made = await createTestDatabase({ migrated: false });
    const { url } = made;
    // An immutable setting of the server; but the function that is queried for it can be another.
    await outside(
      url,
      `create schema older;
       create function older.current_setting(name text) returns text language sql
         as $$ select case name when 'server_version_num' then '140022' else '14.22' end $$;
       do $$ begin execute format('alter database %I set search_path = older, public, pg_catalog', current_database()); end $$`,
    );
    await assertRefused(url, 'it is PostgreSQL 14.22, but the gateway needs 15 or later; upgrade it');
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
    const known = assert.rejects(database.query('any', 'select 1', []), unavailable(/no response within 5 seconds/));
    const fresh = assert.rejects(database.query('any', 'select 1', []), unavailable(/no response within 5 seconds/));
    // It would have waited as long.
    const cut = assert.rejects(closed.query('any', 'select 1', []), unavailable(/connection lost/));
    await nextTurn();
    await closed.close();
    await Promise.all([cut, known, fresh]);
    await database.close();
    await proxy.stop();
  });
});

test('nothing is pipelined behind a connection pooler, whose other clients keep their settings', async () => {
  await using made = await createTestDatabase();
  const { proxy, proxied } = await behindProxy(made.url);
  let asked = '';
  proxy.onBytes = (bytes, from) => {
    if (from === 'client') asked += bytes.toString('latin1');
    // Poolers give clients an id of their own for their backend.
    const at = from === 'server' ? bytes.indexOf(Buffer.from('4b0000000c', 'hex')) : -1;
    if (at >= 0) bytes.writeInt32BE(1, at + 5);
  };
  const connections = createConnections({ settings: () => ({ connectionString: proxied }), label: () => 'test' });
  let reports = 0;
  const lanes = openPipelinedConnections(connections, 2, { ...quietLog, info: () => void reports++ });
  try {
    assert.equal(lanes.count, 2);
    await until('both connections are known', () => lanes.count === 0);
    assert.equal(lanes.free(), undefined);
    assert.equal(reports, 1);
    assert.ok(asked.includes('pg_backend_pid'));
    assert.ok(!asked.includes('set_config'), asked);
  } finally {
    lanes.close();
    connections.cut();
    await proxy.stop();
  }
});

/** Stands for a password. */
const SECRET = 'hunter2hunter2';

/** What is read, without how it is encrypted. */
function read(url: string) {
  const { label, settings } = readDatabaseUrl(url);
  const { ssl, ...rest } = settings();
  return { label, ssl, rest };
}

describe('a database URL as a platform hands it out is read', () => {
  const plain = { user: 'u', password: 'p', host: 'h', database: 'd' };
  const prefer = { plain_allowed: true };
  const socket = { user: 'u', password: 'p', host: '/cloudsql/project:region:instance', database: 'd' };
  const rows: readonly (readonly [string, string, object])[] = [
    ['Heroku', 'postgres://u:p@h:5432/d', { ...plain, ...prefer, port: 5432 }],
    ['Render', 'postgresql://u:p@h/d', { ...plain, ...prefer }],
    ['Fly', 'postgres://u:p@h:5432/d?sslmode=disable', { ...plain, port: 5432 }],
    ['Neon', 'postgresql://u:p@h/d?sslmode=require&channel_binding=require', { ...plain, channel_binding: 'require' }],
    [
      'Neon without SNI',
      'postgres://u:p@h/d?options=endpoint%3Dep-1',
      { ...plain, ...prefer, options: 'endpoint=ep-1' },
    ],
    [
      'Supabase',
      'postgres://postgres.abc:p@h:6543/postgres?pgbouncer=true&connection_limit=1',
      { ...plain, ...prefer, user: 'postgres.abc', port: 6543, database: 'postgres' },
    ],
    ['Azure', 'postgres://u%40server:p@h:5432/d?sslmode=require', { ...plain, user: 'u@server', port: 5432 }],
    ['Azure, not encoded', 'postgres://u@server:p@h/d?sslmode=require', { ...plain, user: 'u@server' }],
    ['Prisma', 'postgresql://u:p@h/d?schema=public', { ...plain, ...prefer }],
    [
      'Prisma with a schema',
      'postgresql://u:p@h/d?schema=my%20"app"&options=-c%20geqo%3Doff',
      { ...plain, ...prefer, options: '-c geqo=off -c search_path="my\\ ""app"""' },
    ],
    ['Cloud SQL', 'postgres://u:p@/d?host=/cloudsql/project:region:instance', socket],
    ['Cloud SQL with a host', 'postgres://u:p@localhost/d?host=/cloudsql/project:region:instance', socket],
    ['Cloud SQL, encoded', 'postgres://u:p@%2Fcloudsql%2Fproject%3Aregion%3Ainstance/d', socket],
    [
      'Cloud SQL, the socket itself',
      'postgres://u:p@/d?host=%2Fcloudsql%2Fproject:region:instance%2F.s.PGSQL.5432&sslmode=require',
      { ...socket, port: 5432 },
    ],
    [
      'only parameters',
      'postgres:///?host=h&port=1&user=u&password=p%40&dbname=d',
      { ...plain, ...prefer, port: 1, password: 'p@' },
    ],
    ['no credentials', 'postgres://h/d', { host: 'h', database: 'd', ...prefer }],
    ['no host', 'postgres:///d', { database: 'd', ...prefer }],
    ['IPv6', 'postgres://u:p@[::1]:5432/d', { ...plain, ...prefer, host: '::1', port: 5432 }],
    [
      'percent-encoding',
      'postgres://u:%23%2F%3F%40%25%20%C3%A9@h/a%2Fb',
      { ...plain, ...prefer, password: '#/?@% é', database: 'a/b' },
    ],
    ['an @ in the password', 'postgres://u:a@b@h/d', { ...plain, ...prefer, password: 'a@b' }],
    ['a line break at its end', 'postgres://u:p@h/d\n', { ...plain, ...prefer }],
    ['a name of the client', 'POSTGRES://u:p@h/d?application_name=x', { ...plain, ...prefer, application_name: 'x' }],
    ['what only other drivers know', 'postgres://u:p@h/d?types=1&stream=2&keepAlive=3&ssl=false', plain],
    ['TLS from the first byte', 'postgres://u:p@h/d?sslnegotiation=direct', { ...plain, sslnegotiation: 'direct' }],
  ];
  for (const [what, url, expected] of rows) {
    test(what, () => {
      const { label, rest } = read(url);
      assert.deepEqual(rest, expected);
      assert.doesNotMatch(label, /p@|:p\b/);
    });
  }

  test('and named by its place alone', () => {
    assert.equal(read('postgres://u:p@h:5432/d').label, 'h:5432/d');
    assert.equal(read('postgres://u:p@/d?host=/cloudsql/a:b:c').label, '/cloudsql/a:b:c/d');
    assert.equal(read('postgres:///d').label, 'localhost/d');
  });

  test('with the modes of libpq', () => {
    const mode = (query: string, env: NodeJS.ProcessEnv = {}) => {
      const { ssl, plain_allowed = false } = readDatabaseUrl(`postgres://u:p@h/d?${query}`, env).settings();
      if (ssl === false || ssl === true || ssl === undefined) return ssl;
      const checked = ssl.rejectUnauthorized
        ? ssl.checkServerIdentity === undefined
          ? 'name'
          : 'authority'
        : 'nothing';
      return `${checked}${plain_allowed ? ' or plain' : ''}`;
    };
    const table: Readonly<Record<string, string | false>> = {
      '': 'nothing or plain',
      'sslmode=disable': false,
      'sslmode=allow': 'nothing or plain',
      'sslmode=prefer': 'nothing or plain',
      'sslmode=require': 'nothing',
      'sslmode=no-verify': 'nothing',
      'sslmode=verify-ca': 'name',
      'sslmode=verify-full': 'name',
      'sslmode=require&sslrootcert=system': 'name',
      'ssl=true': 'name',
      'ssl=1': 'name',
      'ssl=0': false,
      'ssl=require': 'nothing',
      'ssl=no-verify': 'nothing',
      'ssl=true&sslmode=require': 'nothing',
      'sslnegotiation=direct': 'nothing',
      'uselibpqcompat=true&sslmode=require': 'nothing',
    };
    for (const [query, expected] of Object.entries(table)) assert.equal(mode(query), expected, query);
    assert.equal(mode('', { PGSSLMODE: 'disable' }), false);
    assert.equal(mode('sslmode=require', { PGSSLMODE: 'disable' }), 'nothing');
    assert.equal(mode('', { PGSSLMODE: 'verify-full' }), 'name');
    assert.equal(mode('', { PGSSLMODE: '' }), 'nothing or plain');
    // It may have been meant to demand encryption.
    assert.throws(() => mode('', { PGSSLMODE: 'Verify-Full' }), /no sslmode, and PGSSLMODE is set to an unknown one/);
    assert.equal(mode('sslmode=require', { PGSSLMODE: 'Verify-Full' }), 'nothing');
  });
});

describe('an unusable database URL has an error message', () => {
  const encode = /must be percent-encoded: write # as %23, \/ as %2F/;
  const rows: readonly (readonly [string, string, RegExp])[] = [
    ['the character 0', `postgres://u:${SECRET}%00@h/d`, /contains a NUL character/],
    ['a raw #', `postgres://u:1#${SECRET}@h/d`, encode],
    ['a raw # at the end', `postgres://u:${SECRET}@h/d#x`, encode],
    ['a raw /', `postgres://u:1/${SECRET}@h/d`, encode],
    ['a raw / behind an @', `postgres://u:a@b/${SECRET}@h/d`, encode],
    ['a raw ?', `postgres://u:1?${SECRET}@h/d`, encode],
    ['a raw ? and an equals sign', `postgres://u:a?${SECRET}=x@h/d`, encode],
    ['a raw %', `postgres://u:50%${SECRET}@h/d`, encode],
    ['half a %', `postgres://u:${SECRET}%4@h/d`, encode],
    ['bytes that are no text', `postgres://u:${SECRET}%ff@h/d`, encode],
    ['no database', `postgres://u:${SECRET}@h`, /names no database/],
    ['several hosts', `postgres://u:${SECRET}@a:1,b:2/d`, /several hosts/],
    ['a port', `postgres://u:${SECRET}@h:99999/d`, /a port that is not a number from 1 to 65535/],
    ['a port of letters', `postgres://u:${SECRET}@h:x/d`, /a port that is not a number/],
    ['another database', `mysql://u:${SECRET}@h/d`, /is not a PostgreSQL URL/],
    ['no URL', SECRET, /is not a PostgreSQL URL/],
    ['quotation marks', `"postgres://u:${SECRET}@h/d"`, /is not a PostgreSQL URL/],
    ['a mode', `postgres://u:${SECRET}@h/d?sslmode=always`, /unknown sslmode; there are disable, allow, prefer/],
    ['binding without TLS', `postgres://u:${SECRET}@h/d?sslmode=disable&channel_binding=require`, /needs encryption/],
    [
      'direct TLS that is only preferred',
      `postgres://u:${SECRET}@h/d?sslmode=prefer&sslnegotiation=direct`,
      /needs encryption/,
    ],
  ];
  for (const [what, url, message] of rows) {
    test(what, async () => {
      const refuses = (error: Error) => {
        assert.match(error.message, message);
        assert.ok(!JSON.stringify([error, error.message, error.stack]).includes(SECRET), error.message);
        return true;
      };
      assert.throws(
        () => readDatabaseUrl(url),
        (error: Error) => error instanceof DatabaseUrlError && refuses(error),
      );
      await assert.rejects(open(url), refuses);
    });
  }

  test('whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (password, rest) => {
        // PostgreSQL's own texts end with it.
        const possible = password.toWellFormed().replaceAll('\0', '');
        const { settings } = readDatabaseUrl(`postgres://u:${encodeURIComponent(possible)}@h/d`);
        assert.equal(settings().password, possible === '' ? undefined : possible);
        try {
          readDatabaseUrl(`postgres://u:${SECRET}${rest}`);
        } catch (error) {
          assert.ok(error instanceof DatabaseUrlError, String(error));
          assert.ok(!error.message.includes(SECRET));
        }
      }),
      { numRuns: times(300) },
    );
  });
});

describe('a wrong database URL', () => {
  const hides = (message: RegExp) => (error: Error) => {
    assert.match(error.message, message);
    assert.ok(!JSON.stringify([error, error.message, error.stack, String(error.cause)]).includes(SECRET));
    return true;
  };

  test('that is missing names the variable', async () => {
    await assert.rejects(open(undefined), {
      name: 'StartError',
      exit_code: 78,
      message:
        /^the environment variable TEST_DATABASE_URL, named by database\.postgres\.url_env, is not set; expected postgres:/,
    });
  });

  test('and one with a missing certificate are rejected with the expected value', async () => {
    const url = `postgres://u:${SECRET}@h/d?sslrootcert=/missing.pem`;
    const expected = /TEST_DATABASE_URL.*; expected postgres:\/\/user:password@host:5432\/database$/;
    for (const wait of ['until-ready', 'in-background'] as const)
      await assert.rejects(open(url, { wait }), hides(expected));
  });

  test('with a wrong password reports a rejected login', async () => {
    await using made = await createTestDatabase();
    const { url } = made;
    const wrong = new URL(url);
    wrong.password = SECRET;
    await assert.rejects(open(wrong.href), hides(/the login was rejected .*correct the URL in TEST_DATABASE_URL$/));
    const gone = new URL(url);
    gone.pathname = '/no_such_database';
    await assert.rejects(open(gone.href), hides(/the database does not exist/));
  });

  test('that leads to something other than PostgreSQL is an error, not a crash', async () => {
    const port = await ownPort(createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')));
    await assert.rejects(open(`postgres://u:${SECRET}@127.0.0.1:${port}/d`), hides(/^cannot use the database at/));
  });
});

test('a server without encryption is used with sslmode=prefer, silently on standard error', async () => {
  const warnings: string[] = [];
  const note = ({ message }: Error) => warnings.push(message);
  process.on('warning', note);
  await using made = await createTestDatabase();
  await (await open(`${made.url}?sslmode=prefer`)).close();
  await assert.rejects(
    open(`${made.url}?sslmode=require`),
    /it does not support encryption, which sslmode in its URL requires/,
  );
  process.off('warning', note);
  assert.deepEqual(
    warnings.filter((warning) => /ssl|SECURITY/i.test(warning)),
    [],
  );
});

describe('a server with encryption and a socket', () => {
  let directory: string;
  let close: () => Promise<void>;
  /** From credentials to the port. */
  let place: (host?: string) => string;
  let sockets: string;

  before(async () => {
    directory = await makeSuiteDirectory();
    const data_dir = join(directory, 'postgres');
    const made = await openEmbeddedPostgres({ data_dir, log: quiet, supervise: false });
    await made.close();
    const cluster = join(data_dir, 'cluster');
    const { uid, gid } = statSync(cluster);
    sockets = join(directory, 'cloudsql', 'project:region:instance');
    mkdirSync(sockets, { recursive: true });
    const own = (file: string, text: string) => {
      writeFileSync(join(cluster, file), text, { mode: 0o600 });
      chownSync(join(cluster, file), uid, gid);
    };
    chownSync(sockets, uid, gid);
    own('server.crt', LOOPBACK_CERTIFICATE.cert);
    own('server.key', LOOPBACK_CERTIFICATE.key);
    own('hba.conf', 'local all all scram-sha-256\nhost all all all scram-sha-256\n');
    writeFileSync(join(directory, 'right.pem'), LOOPBACK_CERTIFICATE.cert);
    writeFileSync(join(directory, 'wrong.pem'), CERTIFICATES.first.cert);
    const server = await openEmbeddedPostgres({
      data_dir,
      log: quiet,
      supervise: false,
      settings: {
        ...{ fsync: 'off', ssl: 'on', hba_file: join(cluster, 'hba.conf') },
        ...{ listen_addresses: '127.0.0.1,127.0.0.2', unix_socket_directories: sockets },
      },
    });
    const { user, password, port } = server.settings();
    place = (host) => `postgres://${user}:${password}@${host === undefined ? '' : `${host}:${port}`}`;
    sockets += `&port=${port}`;
    close = server.close;
  });
  after(async () => {
    await close();
    await removeSuiteDirectory(directory);
  });

  async function isEncrypted(url: string): Promise<boolean> {
    await using database = closing(await open(url));
    const text = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()';
    const [row] = await database.query<{ ssl: boolean }>('is_encrypted', text, []);
    return row!.ssl;
  }

  const untrusted = /its certificate is not accepted: (?:DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE)/;
  const rows: readonly (readonly [string, string, boolean | RegExp])[] = [
    ['127.0.0.1', '', true],
    ['127.0.0.1', 'sslmode=disable', false],
    ['127.0.0.1', 'sslmode=allow', true],
    ['127.0.0.1', 'sslmode=prefer', true],
    ['127.0.0.1', 'sslmode=require', true],
    ['127.0.0.1', 'sslmode=require&channel_binding=require', true],
    ['127.0.0.1', 'sslmode=require&sslnegotiation=direct', true],
    ['127.0.0.1', 'sslmode=require&sslrootcert=WRONG', untrusted],
    ['127.0.0.1', 'sslmode=verify-full', untrusted],
    ['127.0.0.1', 'sslmode=verify-full&sslrootcert=RIGHT', true],
    ['localhost', 'sslmode=verify-full&sslrootcert=RIGHT', true],
    ['127.0.0.2', 'sslmode=verify-ca&sslrootcert=RIGHT', true],
    ['127.0.0.2', 'sslmode=require&sslrootcert=RIGHT', true],
    ['127.0.0.2', 'sslmode=verify-full&sslrootcert=RIGHT', /its certificate is not accepted: ERR_TLS_CERT_ALTNAME/],
    ['127.0.0.1', 'ssl=true', untrusted],
  ];
  test("is reached despite environment variables for another one, where it is the gateway's own", async () => {
    const { config_file, directory: files } = await writeConfig({
      ...gatewayConfig('http://127.0.0.1:9'),
      database: { embedded: { data_dir: join(directory, 'postgres') } },
    });
    const nowhere = { PGHOST: '192.0.2.1', PGPORT: '1', PGUSER: 'nobody', PGPASSWORD: SECRET, PGDATABASE: 'nothing' };
    const odd = {
      PGSSLNEGOTIATION: 'direct',
      PGREPLICATION: 'database',
      PGCLIENT_ENCODING: 'LATIN1',
      PGSERVICE: 'other',
    };
    const env = { ...process.env, ...nowhere, ...odd, PGSSLMODE: 'require', PGOPTIONS: '-c search_path=nowhere' };
    try {
      const { exit_code, stderr } = await startCli(['tokens', 'list', '--config', config_file], { env }).ended;
      assert.equal(exit_code, 0, stderr);
    } finally {
      await rm(files, { recursive: true, force: true });
    }
  });

  for (const [host, query, expected] of rows) {
    test(`is reached at ${host} with "${query}" ${expected instanceof RegExp ? 'not at all' : expected ? 'with TLS' : 'in plain text'}`, async () => {
      const file = (name: string) => encodeURIComponent(join(directory, name));
      const asked = query.replace('RIGHT', file('right.pem')).replace('WRONG', file('wrong.pem'));
      const url = `${place(host)}/appscli?${asked}`;
      if (expected instanceof RegExp) await assert.rejects(isEncrypted(url), expected);
      else assert.equal(await isEncrypted(url), expected);
    });
  }

  test('is reached by a socket, as on Cloud SQL', async () => {
    assert.equal(await isEncrypted(`${place()}/appscli?host=${sockets}&sslmode=require`), false);
  });

  test('must prove itself where the URL binds the login to its certificate', async () => {
    await using made = await createTestDatabase();
    const { url } = made;
    const bound = `${url}?channel_binding=require`;
    await assert.rejects(open(bound), /does not bind the login to its certificate \(channel_binding=require\)/);
  });
});
