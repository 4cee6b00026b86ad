import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { findBarrier, findBinaries, NOBODY, prepareBinaries } from '../../../engine/base/store/embedded-postgres.ts';

const runsAsRoot = process.geteuid?.() === 0;
/** As root the server runs under another account; an ordinary user runs it himself. */
const account = runsAsRoot ? NOBODY : undefined;
let directory: string;
let native: string;
let home: string;

/** A package as npm unpacks it when install scripts are disabled: no links, and here without execute bits. */
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'appscli-binaries-'));
  chmodSync(directory, 0o711);
  home = join(directory, 'home');
  mkdirSync(home);
  native = join(directory, 'package', 'native');
  for (const folder of ['bin', 'lib', 'share/postgresql']) mkdirSync(join(native, folder), { recursive: true });
  for (const name of ['initdb', 'postgres'])
    writeFileSync(join(native, 'bin', name), '#!/bin/sh\necho runs\n', { mode: 0o644 });
  writeFileSync(join(native, 'lib', 'libx.so.1.2'), 'library');
  writeFileSync(join(native, 'lib', 'libx.a'), 'for compilers');
  writeFileSync(join(native, 'share/postgresql/postgres.bki'), '');
  const links = ['libx.so', 'libx.so.1'].map((name) => ({
    source: 'native/lib/libx.so.1.2',
    target: `native/lib/${name}`,
  }));
  writeFileSync(join(native, 'pg-symlinks.json'), JSON.stringify(links));
});

afterEach(() => {
  chmodSync(join(directory, 'package'), 0o755);
  for (const folder of [native, join(native, 'lib'), join(native, 'bin')]) chmodSync(folder, 0o755);
  rmSync(directory, { recursive: true });
});

const found = () => ({ directory: native, version: '18.4.0' });

function runs(program: string): boolean {
  const { stdout } = spawnSync(program, { cwd: '/', encoding: 'utf8', ...(account ?? {}) });
  return stdout === 'runs\n';
}

test('installed programs are found, and their links are complete after preparation', () => {
  const installed = findBinaries();
  assert.match(installed.version, /^\d+\.\d+/);
  const ready = prepareBinaries(installed, home, account);
  assert.ok(existsSync(join(ready.directory, 'bin/postgres')));
  for (const { target } of JSON.parse(readFileSync(join(ready.directory, 'pg-symlinks.json'), 'utf8'))) {
    assert.ok(existsSync(join(ready.directory, '..', target)), target);
  }
});

test('a platform without binaries is advised to use its own server', () => {
  assert.throws(() => findBinaries('plan9-mips'), {
    name: 'StartError',
    message: /^there is no embedded PostgreSQL for plan9-mips; set database\.postgres\.url_env/,
  });
});

test('missing links and execute bits are repaired in place', () => {
  const ready = prepareBinaries(found(), home, account);
  assert.equal(ready.directory, native);
  assert.equal(readlinkSync(join(native, 'lib/libx.so.1')), 'libx.so.1.2');
  assert.ok(runs(join(native, 'bin/postgres')));
  assert.deepEqual(readdirSync(home), []);
});

test('a program that cannot run or be repaired in place is copied once, and older copies are removed', () => {
  mkdirSync(join(home, 'postgresql-17.0.0'));
  // Root can't be kept from repairing, but its account can be kept from getting there.
  if (runsAsRoot) chmodSync(join(directory, 'package'), 0o700);
  else for (const folder of ['bin', 'lib']) chmodSync(join(native, folder), 0o555);

  const ready = prepareBinaries(found(), home, account);
  assert.equal(ready.directory, join(home, 'postgresql-18.4.0', 'native'));
  assert.ok(runs(join(ready.directory, 'bin/postgres')));
  assert.equal(readlinkSync(join(ready.directory, 'lib/libx.so')), 'libx.so.1.2');
  assert.ok(!existsSync(join(ready.directory, 'lib/libx.a')));
  assert.deepEqual(readdirSync(home), ['postgresql-18.4.0']);

  const { ino } = statSync(join(ready.directory, 'bin/postgres'));
  prepareBinaries(found(), home, account);
  assert.equal(statSync(join(ready.directory, 'bin/postgres')).ino, ino);
});

test('the first directory closed to an account is the barrier', () => {
  const stranger = { uid: 12_345, gid: 12_345 };
  const inner = join(directory, 'a', 'b');
  mkdirSync(inner, { recursive: true });
  chmodSync(join(directory, 'a'), 0o711);
  chmodSync(inner, 0o711);
  assert.equal(findBarrier(inner, stranger), undefined);
  chmodSync(join(directory, 'a'), 0o700);
  assert.equal(findBarrier(inner, stranger), join(directory, 'a'));
});
