import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { StartError } from '../../engine/base/contract/start-error.ts';
import {
  type Credentials,
  credentialsPath,
  formatCredentials,
  openCredentials,
  parseCredentials,
} from '../../engine/edge/client/credentials.ts';
import { times } from '../support/times.ts';
import { type Backend, createBackend, credentialsFor, keep } from './scripted-gateway.ts';

const U = 'https://gateway.example.com';
let backend: Backend;
beforeEach(() => {
  backend = createBackend();
});

const mode = (path: string) => statSync(path).mode & 0o777;
const write = (env = backend.env) => openCredentials(env).write(U, credentialsFor(60) as Credentials);

describe('where the file is', () => {
  test('APPSCLI_CREDENTIALS, else XDG_CONFIG_HOME, else ~/.config; an empty variable counts for none', () => {
    const below = 'appscli/credentials.json';
    assert.equal(credentialsPath({ APPSCLI_CREDENTIALS: '/a/b', XDG_CONFIG_HOME: '/x', HOME: '/h' }), '/a/b');
    assert.equal(credentialsPath({ APPSCLI_CREDENTIALS: '', XDG_CONFIG_HOME: '/x', HOME: '/h' }), `/x/${below}`);
    assert.equal(credentialsPath({ XDG_CONFIG_HOME: '', HOME: '/h' }), `/h/.config/${below}`);
  });
});

describe('writing', () => {
  test('leaves a private file and nothing else, whatever the umask', async () => {
    const before = process.umask(0);
    try {
      await openCredentials(backend.env).locked(async () => write());
    } finally {
      process.umask(before);
    }
    assert.equal(mode(backend.path), 0o600);
    assert.equal(mode(dirname(backend.path)), 0o700);
    assert.deepEqual(readdirSync(dirname(backend.path)), ['credentials.json']);
  });

  test('replaces a link instead of following it', () => {
    mkdirSync(dirname(backend.path), { recursive: true });
    const target = join(backend.home, 'precious');
    writeFileSync(target, formatCredentials(new Map()), { mode: 0o600 });
    symlinkSync(target, backend.path);
    write();
    assert.equal(lstatSync(backend.path).isSymbolicLink(), false);
    assert.equal(readFileSync(target, 'utf8'), formatCredentials(new Map()));
  });

  test("into another user's directory leaves that directory unchanged", () => {
    chmodSync(backend.home, 0o755);
    write({ ...backend.env, APPSCLI_CREDENTIALS: join(backend.home, 'mine.json') });
    assert.equal(mode(backend.home), 0o755);
    assert.equal(mode(join(backend.home, 'mine.json')), 0o600);
  });

  test('reports the reason of a failure, and leaves no draft behind', async () => {
    writeFileSync(join(backend.home, 'file'), '');
    const env = { ...backend.env, APPSCLI_CREDENTIALS: join(backend.home, 'file', 'credentials.json') };
    assert.throws(() => openCredentials(env).read(), { message: /cannot be read: a part of its path is a file/ });
    await assert.rejects(
      openCredentials(env).locked(async () => {}),
      { name: 'StartError', message: /cannot be written: a part of its path is a file, not a directory/ },
    );
    const taken = { ...backend.env, APPSCLI_CREDENTIALS: join(backend.home, 'taken') };
    mkdirSync(join(backend.home, 'taken'));
    assert.throws(() => write(taken), /is not a regular file/);
    assert.deepEqual(readdirSync(backend.home).sort(), ['file', 'taken']);
  });
});

describe('reading', () => {
  test('makes a readable file private and reports it', () => {
    keep(backend, { [U]: credentialsFor(60) }, 0o600);
    chmodSync(backend.path, 0o644);
    const warnings: string[] = [];
    assert.equal(openCredentials(backend.env, (words) => warnings.push(words)).read().size, 1);
    assert.equal(mode(backend.path), 0o600);
    assert.match(warnings.join(), /^other users could read .*; it is private now; sign in again/);
  });

  test('a named pipe in its place does not block', { skip: process.platform === 'win32' }, () => {
    mkdirSync(dirname(backend.path), { recursive: true });
    execFileSync('mkfifo', [backend.path]);
    assert.throws(() => openCredentials(backend.env).read(), /is not a regular file/);
  });

  test('a huge file is not read', () => {
    keep(backend, {});
    writeFileSync(backend.path, ' '.repeat(1_100_000));
    assert.throws(() => openCredentials(backend.env).read(), /larger than 1 MiB/);
  });
});

describe('the text', () => {
  test('an impossible gateway address is damage, before anything is sent there', () => {
    for (const url of [
      '',
      'gateway',
      'http://gateway.example.com',
      'https://gateway.example.com/',
      'file:///x',
      'https://a@b',
    ]) {
      const text = formatCredentials(new Map([[url, credentialsFor(60) as Credentials]]));
      assert.throws(() => parseCredentials(text, 'file'), /the entry of a gateway is invalid/, url);
    }
  });

  test('any other text is rejected without repeating it', () => {
    const text = fc.oneof(
      fc.string(),
      fc.json(),
      fc.json().map((value) => `{"version":1,"gateways":{"https://u":${value}}}`),
    );
    fc.assert(
      fc.property(text, (input) => {
        try {
          parseCredentials(input, 'FILE');
        } catch (error) {
          assert.ok(error instanceof StartError);
          assert.match(
            error.message,
            /^FILE is not a credentials file of appscli: [a-z A-Z]+; move it away and sign in again$/,
          );
        }
      }),
      { numRuns: times(12) },
    );
  });
});
