import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { identify } from '../../../engine/base/kit/process/process-identity.ts';
import {
  type EmbeddedPostgres,
  openEmbeddedPostgres,
  readServerState,
} from '../../../engine/base/store/embedded-postgres.ts';
import { quiet } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';
import { closing } from '../../support/use.ts';

const runsAsRoot = process.geteuid?.() === 0;
let directory: string;
/** Made once: a new cluster for every test would take most of the time. */
let data_dir: string;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'appscli-embedded-'));
  chmodSync(directory, 0o711);
  data_dir = join(directory, 'postgres');
  const server = await open();
  await server.close();
});

after(() => rmSync(directory, { recursive: true, force: true }));

function open(options: Partial<Parameters<typeof openEmbeddedPostgres>[0]> = {}): Promise<EmbeddedPostgres> {
  return openEmbeddedPostgres({ data_dir, log: quiet, supervise: false, settings: { fsync: 'off' }, ...options });
}

/** Runs a check while a file is away. */
async function without(file: string, check: () => Promise<void>): Promise<void> {
  renameSync(file, `${file}.away`);
  await check().finally(() => renameSync(`${file}.away`, file));
}

const clusterOf = (home = data_dir) => join(home, 'cluster');

function pidOf(home = data_dir): number {
  const state = readServerState(clusterOf(home));
  assert.equal(state.kind, 'running');
  return state.kind === 'running' ? state.pid : 0;
}

async function ask<Row>(server: EmbeddedPostgres, sql: string, more: pg.ClientConfig = {}): Promise<Row[]> {
  const client = new pg.Client({ ...server.settings(), ...more });
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query(sql).finally(() => client.end());
  return rows as Row[];
}

/** Another process that has joined the server. */
async function startUser(): Promise<ChildProcess> {
  const user = spawn(
    process.execPath,
    [join(import.meta.dirname, '../../support/embedded-postgres-user.ts'), data_dir],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  await once(user.stdout!, 'data');
  return user;
}

test('listens on the loopback address and on no socket', async () => {
  await using server = closing(await open());
  assert.deepEqual(await ask(server, 'show listen_addresses'), [{ listen_addresses: '127.0.0.1' }]);
  const [, , , , sockets, address] = readFileSync(join(clusterOf(), 'postmaster.pid'), 'utf8').split('\n');
  assert.deepEqual({ sockets, address }, { sockets: '', address: '127.0.0.1' });
});

test('admits no client without the password, which only the owner can read', async () => {
  await using server = closing(await open());
  assert.equal(statSync(join(data_dir, 'password')).mode & 0o777, 0o600);
  assert.ok(server.settings().password.length >= 24);
  await assert.rejects(ask(server, 'select 1', { password: 'guess' }), { code: '28P01' });
  await assert.rejects(ask(server, 'select 1', { user: 'postgres' }), { code: '28P01' });
  const [role] = await ask(server, 'select rolsuper from pg_roles where rolname = current_user');
  assert.deepEqual(role, { rolsuper: false });
  const [shape] = await ask(
    server,
    `select pg_encoding_to_char(encoding) as encoding, datcollate as collation, current_setting('password_encryption') as hash
     from pg_database where datname = current_database()`,
  );
  assert.deepEqual(shape, { encoding: 'UTF8', collation: 'C', hash: 'scram-sha-256' });
});

test('is shared by processes and stopped by the last one to leave', async () => {
  const server = await open();
  const user = await startUser();
  const pid = pidOf();
  await server.close();
  assert.equal(pidOf(), pid, 'still there for the other process');
  user.stdin!.end();
  await once(user, 'exit');
  assert.deepEqual(readServerState(clusterOf()), { kind: 'stopped' });
  assert.equal(identify(pid), undefined);
});

test('survives its starter, is found by the next process and stopped by it', async () => {
  const user = await startUser();
  const pid = pidOf();
  user.kill('SIGKILL');
  await once(user, 'exit');
  assert.equal(pidOf(), pid);
  const server = await open();
  assert.equal(pidOf(), pid);
  await server.close();
  assert.equal(identify(pid), undefined);
  assert.deepEqual(readdirSync(join(data_dir, 'processes')), []);
});

test('starts once when several open it at the same moment', async () => {
  const servers = await Promise.all([open(), open(), open(), open()]);
  assert.equal(new Set(servers.map((server) => server.settings().port)).size, 1);
  await Promise.all(servers.map((server) => server.close()));
  assert.deepEqual(readServerState(clusterOf()), { kind: 'stopped' });
});

test('keeps its port and its data between runs, and finds another port when that one is in use', async () => {
  const first = await open();
  await ask(first, 'create table kept as select 42 as answer');
  const { port } = first.settings();
  await first.close();

  const second = await open();
  assert.equal(second.settings().port, port);
  assert.deepEqual(await ask(second, 'select * from kept'), [{ answer: 42 }]);
  await second.close();

  const squatter = createServer().listen(port, '127.0.0.1');
  await once(squatter, 'listening');
  const third = await open();
  assert.notEqual(third.settings().port, port);
  assert.deepEqual(await ask(third, 'select * from kept'), [{ answer: 42 }]);
  await third.close();
  squatter.close();
});

test('is started again when it dies', async () => {
  const server = await open({ supervise: true });
  const pid = pidOf();
  process.kill(pid, 'SIGKILL');
  await until('another server responds', () => ask(server, 'select 1').then(Boolean, () => false));
  assert.notEqual(pidOf(), pid);
  await server.close();
  assert.deepEqual(readServerState(clusterOf()), { kind: 'stopped' });
});

test('is left alone when it is stopped from outside, and found again when it is back', async () => {
  const words: string[] = [];
  const note = (_fields: object, message: string) => words.push(message);
  await using server = closing(await open({ supervise: true, log: { ...quiet, info: note, warn: note } }));
  process.kill(pidOf(), 'SIGINT');
  await until('it is noticed', () => words.some((message) => message.includes('was stopped')));
  assert.deepEqual(readServerState(clusterOf()), { kind: 'stopped' });
  const user = await startUser();
  await until('it is found', () => words.some((message) => message.includes('runs again')));
  await ask(server, 'select 1');
  user.stdin!.end();
  await once(user, 'exit');
  await ask(server, 'select 1');
});

test('sets aside the remains of an interrupted first start', async () => {
  const home = join(directory, 'interrupted');
  mkdirSync(join(home, 'cluster.new-1234', 'base'), { recursive: true });
  writeFileSync(join(home, 'password'), 'of the attempt that failed\n');
  const server = await open({ data_dir: home });
  try {
    await ask(server, 'select 1');
    const found = readdirSync(home).filter((name) => name.includes('.new'));
    assert.deepEqual(found, []);
  } finally {
    await server.close();
    rmSync(home, { recursive: true });
  }
});

test('starts although its old process id now belongs to another program', async () => {
  writeFileSync(join(clusterOf(), 'postmaster.pid'), `${process.pid}\n${clusterOf()}\n1\n5432\n\n127.0.0.1\n\nready\n`);
  await using server = closing(await open());
  await ask(server, 'select 1');
  assert.notEqual(pidOf(), process.pid);
});

test('names the directory, the user and the remedy without permission to write', async () => {
  const closed = join(directory, 'closed');
  mkdirSync(closed, { mode: 0o555 });
  // Root may write everywhere, so it becomes another user for a moment.
  if (runsAsRoot) process.seteuid?.(65534);
  try {
    await assert.rejects(open({ data_dir: join(closed, 'data', 'postgres') }), (error: Error) => {
      assert.equal(error.name, 'StartError');
      assert.match(
        error.message,
        /^cannot create .*closed\/data.*: permission denied; set database\.embedded\.data_dir to a directory that \S.* may write, or run as \S.*$/,
      );
      return true;
    });
  } finally {
    if (runsAsRoot) process.seteuid?.(0);
  }
});

const apart = ['--mount', 'sh', '-c'];
const canHideFiles = runsAsRoot && spawnSync('unshare', [...apart, 'true']).status === 0;

test('names both directories and the remedy when root may not move it', { skip: !canHideFiles }, () => {
  const secret = mkdtempSync(join(directory, 'secret-'));
  const user = join(import.meta.dirname, '../../support/embedded-postgres-user.ts');
  const script = 'mount -t tmpfs -o ro none /var/lib && exec "$0" "$1" "$2"';
  const args = [...apart, script, process.execPath, user, join(secret, 'postgres')];
  const { stderr } = spawnSync('unshare', args, { encoding: 'utf8' });
  assert.ok(stderr.includes(`who cannot enter ${secret}, and its data cannot be stored in /var/lib/appscli`), stderr);
  assert.match(stderr, /set database\.embedded\.data_dir to a directory that user id can reach/);
});

test('reports a file in the way', async () => {
  const file = join(directory, 'file');
  writeFileSync(file, '');
  await assert.rejects(open({ data_dir: join(file, 'postgres') }), {
    name: 'StartError',
    message: /: a file is in the way; set database\.embedded\.data_dir to a directory$/,
  });
});

test('rejects the data of another major version of PostgreSQL', async () => {
  const file = join(clusterOf(), 'PG_VERSION');
  const made = readFileSync(file);
  writeFileSync(file, '12\n');
  try {
    await assert.rejects(open(), {
      name: 'StartError',
      message: /was made by PostgreSQL 12, but PostgreSQL \d+ is installed; run the version .* or set database/,
    });
  } finally {
    writeFileSync(file, made);
  }
});

test('reports a damaged cluster', async () => {
  const damaged = { name: 'StartError', message: /cluster is damaged \(.*pg_control.*\); restore it/ };
  await without(join(clusterOf(), 'global', 'pg_control'), () => assert.rejects(open(), damaged));
});

test('reports a missing password, and leaves no server behind', async () => {
  await without(join(data_dir, 'password'), async () => {
    await assert.rejects(open(), { name: 'StartError', message: /cannot open .*password: it is missing; restore it/ });
    assert.deepEqual(readServerState(clusterOf()), { kind: 'stopped' });
  });
});

test('lives below a private directory, as root by moving to where its account can follow', async () => {
  const secret = mkdtempSync(join(tmpdir(), 'appscli-private-'));
  assert.equal(statSync(secret).mode & 0o777, 0o700);
  const inside = join(secret, 'project', '.appscli', 'postgres');
  let home = inside;
  try {
    const first = await open({ data_dir: inside });
    if (runsAsRoot) {
      home = readlinkSync(join(inside, 'moved-to'));
      assert.equal(home, realpathSync(home));
      assert.ok(!home.startsWith(secret));
      assert.notEqual(statSync(`/proc/${pidOf(home)}`).uid, 0);
      assert.equal(statSync(home).uid, 0);
      assert.equal(statSync(join(home, 'password')).uid, 0);
    } else {
      assert.ok(!existsSync(join(inside, 'moved-to')));
    }
    assert.equal(statSync(clusterOf(home)).mode & 0o777, 0o700);
    assert.equal(statSync(join(home, 'password')).mode & 0o777, 0o600);
    await ask(first, 'create table kept as select 42 as answer');
    await first.close();
    assert.equal(statSync(secret).mode & 0o777, 0o700, 'it is untouched');

    const second = await open({ data_dir: inside });
    assert.deepEqual(await ask(second, 'select * from kept'), [{ answer: 42 }]);
    await second.close();

    if (runsAsRoot) {
      rmSync(home, { recursive: true });
      await assert.rejects(open({ data_dir: inside }), {
        message: /was in .*, which no longer exists; restore it, or remove/,
      });
    }
  } finally {
    rmSync(secret, { recursive: true, force: true });
    rmSync(home, { recursive: true, force: true });
  }
});
