/** Before any command runs: messages, exit codes, streams, and the target of a command. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Command } from 'commander';
import { createProgram } from '../../engine/edge/cli/program.ts';
import { createBackend, keep } from '../client/scripted-gateway.ts';
import { createProject } from '../load/support/project.ts';
import { gatewayConfig } from '../support/gateway.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { assertNarrow, assertRefused } from './at-gateway.ts';
import { commandBench } from './command-bench.ts';
import { cli, collectingContext, LAUNCHER, start } from './support.ts';

const leaves = (command: Command, name: string): [name: string, command: Command][] =>
  command.commands.length === 0
    ? [[name, command]]
    : command.commands.flatMap((one) => leaves(one, `${name} ${one.name()}`.trim()));
const ALL = leaves(await createProgram({ ...collectingContext().context, finish: () => {} }), '');

test('--version prints the version of the package', async () => {
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
  assert.deepEqual(await cli(['--version']), { exit_code: 0, signal: null, stdout: `${version}\n`, stderr: '' });
});

test('output that cannot be written counts as an error', {
  skip: !existsSync('/dev/full'),
}, async () => {
  const { exit_code, stderr } = await start('sh', ['-c', '"$0" "$1" --version > /dev/full', process.execPath, LAUNCHER])
    .ended;
  assert.deepEqual([exit_code, stderr.includes('cannot write to standard output')], [1, true]);
});

test('help goes to standard output on request, and to standard error with exit code 64 otherwise', async () => {
  const asked = await cli(['--help']);
  assert.equal(asked.exit_code, 0);
  assert.match(asked.stdout, /^Usage: appscli/);
  const unasked = await cli([]);
  assert.deepEqual([unasked.exit_code, unasked.stdout], [64, '']);
  assert.match(unasked.stderr, /^Usage: appscli/);
});

test('every command explains itself with examples in 80 columns', async () => {
  assert.ok(ALL.length > 40, String(ALL.length));
  const explained = ALL.map(async ([command]) => {
    const { stdout, exit_code } = await cli([...command.split(' '), '--help']);
    assert.equal(exit_code, 0);
    assert.match(stdout, new RegExp(`\nExamples:\n.*appscli ${command}`));
    assertNarrow(stdout);
  });
  await Promise.all(explained);
  assertNarrow((await cli(['--help'])).stdout);
});

test('a wrong command line is one line with the likely intention, and exit code 64', async () => {
  const create = 'tokens create --user a@b.c --group all';
  await assertRefused(
    (...words) => cli(words),
    [
      ['gatway', /unknown command 'gatway' \(Did you mean gateway\?\)/],
      ['usage --sinse 7d', /unknown option '--sinse' \(Did you mean --since\?\)/],
      ['usage --since yesterday', /'yesterday' is invalid\. Expected a duration such as 7d/],
      ['usage --base-url https://g.example --since 2027-02-01 --until 2027-01-01', /--since must be before --until/],
      ['ledger reprice --since 2027-01-01 --until 2027-01-01', /--since must be before --until/],
      ['limits set --user a@b.c --window day --usd $5', /Expected a number below 10000000/],
      ['limits set --user a@b.c --usd 5', /'--window <window>' not specified/],
      [create, /'--name <name>' not specified/],
      ['tokens create --user alice --group all --name x', /Expected an e-mail address/],
      [`${create} --name x --expires 2020-01-01`, /in the future/],
      ['check --format xml', /Allowed choices are text, json, github/],
      ['check --timeout 3', /--live/],
      ['ledger reprice', /required option '--since <when>' not specified/],
      ['mock-upstream --listen 8090', /Expected a host and port of this machine/],
      ['diff a b --audit monday', /--audit <since>.*Expected a duration such as 7d, 12h or 90m, or a date/],
      ['audit tail -n many', /Expected a number/],
      ['tokens create extra', /./],
      ['policy list --base-url https://gateway.example.com', /\(see appscli policy list --help\)/],
    ],
  );
});

const GATEWAY = 'http://127.0.0.1:9';
const directory = ownDirectory();

/** Values that commands require beside their arguments and mandatory options. */
const MORE: Readonly<Record<string, readonly string[]>> = {
  'limits set': ['--usd', '5'],
  'limits grant': ['--usd', '5'],
};
const VALUES: Readonly<Record<string, string>> = { email: 'anna@example.com', emails: 'anna@example.com', when: '3d' };

/** Words for every argument and mandatory option of a command. */
function wordsFor(command: Command): string[] {
  const options = command.options.filter(({ mandatory }) => mandatory);
  const wordFor = (name: string, choices: readonly string[] | undefined) => choices?.[0] ?? VALUES[name] ?? 'name';
  return [
    ...command.registeredArguments.map((argument) => wordFor(argument.name(), argument.argChoices)),
    ...options.flatMap(({ long, flags, argChoices }) => [long!, wordFor(/<(\w+)>/.exec(flags)![1]!, argChoices)]),
  ];
}

const commands = ALL.filter(([, { options }]) => {
  const defaults = options.map(({ long, defaultValue }) => `${long} ${defaultValue ?? ''}`);
  return defaults.includes('--config gateway.yaml') && defaults.includes('--base-url ');
});

function run(name: string, env: NodeJS.ProcessEnv, ...more: readonly string[]) {
  const words = [...name.split(' '), ...more, ...(MORE[name] ?? [])];
  return cli(words, { cwd: directory, env: { HOME: directory, APPSCLI_SERVICE_TOKEN: 'gws_test', ...env } });
}

describe('a command without a target', () => {
  for (const [name, command] of commands) {
    test(`${name} works at the gateway of APPSCLI_BASE_URL`, async () => {
      const { exit_code, stderr } = await run(name, { APPSCLI_BASE_URL: `${GATEWAY}/` }, ...wordsFor(command));
      assert.ok(stderr.includes(GATEWAY), stderr);
      assert.equal(exit_code, 69, stderr);
    });
  }

  test('names its target, also where there is a gateway.yaml as well, and --config has precedence', async () => {
    const other = ownDirectory();
    writeFileSync(join(other, 'gateway.yaml'), 'server: {}\n');
    const env = { HOME: other, APPSCLI_SERVICE_TOKEN: 'gws_test', APPSCLI_BASE_URL: GATEWAY };
    const there = await cli(['upstreams', 'list'], { cwd: other, env });
    assert.match(
      there.stderr,
      /^Using http:\/\/127\.0\.0\.1:9 \(APPSCLI_BASE_URL\); to use the local database: --config gateway\.yaml\n/,
    );
    const here = await cli(['upstreams', 'list', '--config', 'gateway.yaml'], { cwd: other, env });
    assert.match(here.stderr, /gateway\.yaml cannot be used/);
    const input = await cli(['upstreams', 'list', '--base-url', 'http://127.0.0.1:7'], { cwd: other, env });
    assert.match(input.stderr, /http:\/\/127\.0\.0\.1:7/);
  });

  test('works at the only gateway signed in at, where there is no gateway.yaml either', async () => {
    const backend = createBackend();
    const none = await cli(['upstreams', 'list'], { cwd: directory, env: backend.env });
    assert.equal(none.exit_code, 78);
    const absent = 'appscli: gateway.yaml does not exist; name the configuration to use with --config';
    const elsewhere = 'or a gateway with --base-url or APPSCLI_BASE_URL';
    assert.equal(none.stderr, `${absent}, ${elsewhere}\n`);
    const without = await cli(['ledger', 'verify'], { cwd: directory, env: backend.env });
    assert.deepEqual([without.exit_code, without.stderr], [78, `${absent}\n`]);
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const credentials = { access_token: 'root', expires_at, lifetime_seconds: 3600, email: 'root@example.com' };
    keep(backend, { [GATEWAY]: credentials });
    const { exit_code, stderr } = await cli(['upstreams', 'list'], { cwd: directory, env: backend.env });
    assert.deepEqual([exit_code, stderr.includes(GATEWAY)], [69, true], stderr);
  });

  test('is shown the name of the invalid variable', async () => {
    const at = (...words: readonly string[]) => run(words.join(' '), { APPSCLI_BASE_URL: 'gateway' });
    await assertRefused(at, [['upstreams list', /APPSCLI_BASE_URL is not a gateway address/]]);
  });
});

const bench = commandBench();

test('without its database a command reports it in one line and exits 69', async () => {
  const unreachable = new URL(bench.database_url);
  unreachable.port = '1';
  const ended = await cli(['usage', '--config', bench.config_file], {
    env: { ...bench.env, TEST_DATABASE_URL: unreachable.href },
  });
  assert.deepEqual([ended.exit_code, ended.stdout], [69, '']);
  assert.match(ended.stderr, /^appscli: [^\n]*TEST_DATABASE_URL\n$/);
  assert.ok(!ended.stderr.includes(unreachable.password));
});

test('a missing configuration and a broken one exit 78 with the error', async () => {
  const missing = await cli(['usage', '--config', 'nowhere.yaml'], { env: bench.env });
  assert.equal(missing.exit_code, 78);
  assert.match(missing.stderr, /nowhere\.yaml/);
  const text = JSON.stringify({ ...gatewayConfig('http://127.0.0.1:9'), serverr: {} });
  const broken = createProject({ 'gateway.yaml': text }).path('gateway.yaml');
  const ended = await cli(['tokens', 'list', '--config', broken], { env: bench.env });
  assert.equal(ended.exit_code, 78);
  assert.match(ended.stderr, /serverr/);
  assert.equal(ended.stdout, '');
});
