/** Where operators' commands work: every one with `--config` and `--base-url` chooses the same way. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { Command } from 'commander';
import { createProgram } from '../../engine/cli/program.ts';
import { keep } from '../client/keep-credentials.ts';
import { createBackend } from '../client/scripted-gateway.ts';
import { cli, collectingTerminal } from './support.ts';

/** Nothing listens there. */
const GATEWAY = 'http://127.0.0.1:9';
const directory = mkdtempSync(join(tmpdir(), 'appscli-base-url-'));
after(() => rmSync(directory, { recursive: true }));

/** What each command needs beside the place. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  'audit changes': [],
  'config diff': ['000000000000'],
  'config loads': [],
  'limits clear': ['--user', 'anna@example.com', '--window', 'day'],
  'limits grant': ['--user', 'anna@example.com', '--window', 'day', '--usd', '5', '--expires', '3d'],
  'limits list': ['--user', 'anna@example.com'],
  'limits revoke': ['grant-1'],
  'limits set': ['--user', 'anna@example.com', '--window', 'day', '--usd', '5'],
  'people list': [],
  'people rebind': ['anna@example.com'],
  'service-tokens create': ['--name', 'a', '--scope', 'changes:read'],
  'service-tokens list': [],
  'service-tokens revoke': ['id'],
  'service-tokens rotate': ['id'],
  'sessions end': ['id'],
  'sessions explain': ['anna@example.com'],
  'sessions list': [],
  'tokens create': ['--name', 'a'],
  'tokens list': [],
  'tokens revoke': ['id'],
  'tokens rotate': ['id'],
  'upstreams drain': ['main'],
  'upstreams list': [],
  'upstreams resume': ['main'],
  usage: [],
};

/** The commands that work on a database or at a gateway. */
function located(command: Command, name = ''): string[] {
  const options = command.options.map(({ long, defaultValue }) => `${long} ${defaultValue ?? ''}`);
  const is_located = options.includes('--config gateway.yaml') && options.includes('--base-url ');
  return [
    ...(is_located ? [name] : []),
    ...command.commands.flatMap((each) => located(each, `${name} ${each.name()}`.trim())),
  ];
}

const { terminal } = collectingTerminal();
const commands = located(createProgram({ terminal, env: {}, stages: async () => [], finish() {} }));

/** Runs a command as a program with a service token. */
function run(name: string, env: NodeJS.ProcessEnv, ...more: string[]) {
  const words = [...name.split(' '), ...(ARGUMENTS[name] ?? []), ...more];
  return cli(words, { cwd: directory, env: { HOME: directory, APPSCLI_SERVICE_TOKEN: 'gws_test', ...env } });
}

describe('a command that was given no place', () => {
  for (const name of commands) {
    test(`${name} works at the gateway of APPSCLI_BASE_URL`, async () => {
      const { exit_code, stderr } = await run(name, { APPSCLI_BASE_URL: `${GATEWAY}/` });
      assert.ok(stderr.includes(GATEWAY), stderr);
      assert.equal(exit_code, 69, stderr);
    });
  }

  test('is said where it works, where there is a gateway.yaml as well, and --config goes before', async () => {
    const other = mkdtempSync(join(tmpdir(), 'appscli-base-url-'));
    try {
      writeFileSync(join(other, 'gateway.yaml'), 'server: {}\n');
      const env = { HOME: other, APPSCLI_SERVICE_TOKEN: 'gws_test', APPSCLI_BASE_URL: GATEWAY };
      const there = await cli(['upstreams', 'list'], { cwd: other, env });
      assert.match(
        there.stderr,
        /^At http:\/\/127\.0\.0\.1:9, as APPSCLI_BASE_URL says; --config gateway\.yaml uses its database\.\n/,
      );
      const here = await cli(['upstreams', 'list', '--config', 'gateway.yaml'], { cwd: other, env });
      assert.match(here.stderr, /gateway\.yaml cannot be used/);
      const given = await cli(['upstreams', 'list', '--base-url', 'http://127.0.0.1:7'], { cwd: other, env });
      assert.match(given.stderr, /http:\/\/127\.0\.0\.1:7/);
    } finally {
      rmSync(other, { recursive: true });
    }
  });

  test('works at the only gateway signed in at, where there is no gateway.yaml either', async () => {
    const backend = createBackend();
    const none = await cli(['upstreams', 'list'], { cwd: directory, env: backend.env });
    assert.equal(none.exit_code, 78);
    assert.match(none.stderr, /gateway\.yaml does not exist; .*--config.*--base-url or APPSCLI_BASE_URL/);
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const credentials = { access_token: 'root', expires_at, lifetime_seconds: 3600, email: 'root@example.com' };
    keep(backend, { [GATEWAY]: credentials });
    const { exit_code, stderr } = await cli(['upstreams', 'list'], { cwd: directory, env: backend.env });
    assert.deepEqual([exit_code, stderr.includes(GATEWAY)], [69, true], stderr);
  });

  test('is told what is wrong with the variable by its name', async () => {
    const { exit_code, stderr } = await run('upstreams list', { APPSCLI_BASE_URL: 'gateway' });
    assert.equal(exit_code, 64);
    assert.match(stderr, /APPSCLI_BASE_URL is no address of a gateway/);
  });
});
