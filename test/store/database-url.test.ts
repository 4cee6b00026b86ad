import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { DatabaseUrlError, readDatabaseUrl } from '../../engine/base/store/database-url.ts';
import { openEmbeddedPostgres } from '../../engine/base/store/embedded/embedded-postgres.ts';
import { startCli } from '../cli/support.ts';
import { CERTIFICATES, LOOPBACK_CERTIFICATE } from '../support/certificates.ts';
import { createTestDatabase } from '../support/database.ts';
import { bootGateway, gatewayConfig, writeConfig } from '../support/gateway.ts';
import { open } from '../support/open-database.ts';
import { makeSuiteDirectory, quiet, removeSuiteDirectory } from '../support/postgres.ts';
import { times } from '../support/times.ts';

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
    const { url, drop } = await createTestDatabase();
    const wrong = new URL(url);
    wrong.password = SECRET;
    await assert.rejects(open(wrong.href), hides(/the login was rejected .*correct the URL in TEST_DATABASE_URL$/));
    const gone = new URL(url);
    gone.pathname = '/no_such_database';
    await assert.rejects(open(gone.href), hides(/the database does not exist/));
    await drop();
  });

  test('that leads to something other than PostgreSQL is an error, not a crash', async () => {
    const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    await assert.rejects(open(`postgres://u:${SECRET}@127.0.0.1:${port}/d`), hides(/^cannot use the database at/));
    server.close();
  });
});

describe('a gateway is served', () => {
  const warnings: string[] = [];
  const note = ({ message }: Error) => warnings.push(message);
  before(() => process.on('warning', note));
  after(() => process.off('warning', note));

  test('by a server without encryption, as with sslmode=prefer, silently on standard error', async () => {
    const { url, drop } = await createTestDatabase();
    const gateway = await bootGateway({ upstream_url: 'http://127.0.0.1:9', database_url: `${url}?sslmode=prefer` });
    assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
    await gateway.close();
    await assert.rejects(
      open(`${url}?sslmode=require`),
      /it does not support encryption, which sslmode in its URL requires/,
    );
    await drop();
    assert.deepEqual(
      warnings.filter((warning) => /ssl|SECURITY/i.test(warning)),
      [],
    );
  });
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
    const database = await open(url);
    try {
      const text = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()';
      const [row] = await database.query<{ ssl: boolean }>('is_encrypted', text, []);
      return row!.ssl;
    } finally {
      await database.close();
    }
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
    const { url, drop } = await createTestDatabase();
    const bound = `${url}?channel_binding=require`;
    await assert.rejects(open(bound), /does not bind the login to its certificate \(channel_binding=require\)/);
    await drop();
  });
});
