/** What happens before any command runs: words, exit codes, which stream. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { cli, LAUNCHER, start } from './support.ts';

test('--version prints the version of the package', async () => {
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
  assert.deepEqual(await cli(['--version']), { exit_code: 0, signal: null, stdout: `${version}\n`, stderr: '' });
});

test('what cannot be written to standard output is not taken for printed', {
  skip: !existsSync('/dev/full'),
}, async () => {
  const { exit_code, stderr } = await start('sh', ['-c', '"$0" "$1" --version > /dev/full', process.execPath, LAUNCHER])
    .ended;
  assert.deepEqual([exit_code, stderr.includes('standard output cannot be written')], [1, true]);
});

test('help goes to standard output when asked for, and to standard error with exit code 64 when not', async () => {
  const asked = await cli(['--help']);
  assert.equal(asked.exit_code, 0);
  assert.match(asked.stdout, /^Usage: appscli/);
  const unasked = await cli([]);
  assert.equal(unasked.exit_code, 64);
  assert.equal(unasked.stdout, '');
  assert.match(unasked.stderr, /^Usage: appscli/);
});

test('every command explains itself with examples in 80 columns', async () => {
  const commands = [
    'init',
    'create stage',
    'client build-cli',
    'client coding-cli',
    'client messages',
    'explain',
    'diff',
    'test',
    'gateway',
    'check',
    'tokens create',
    'tokens list',
    'tokens rotate',
    'tokens revoke',
    'service-tokens create',
    'service-tokens list',
    'service-tokens rotate',
    'service-tokens revoke',
    'people list',
    'people rebind',
    'policy show',
    'policy list',
    'stages',
    'sessions list',
    'sessions end',
    'usage',
    'limits list',
    'limits set',
    'limits clear',
    'limits grant',
    'limits revoke',
    'upstreams list',
    'upstreams drain',
    'upstreams resume',
    'config loads',
    'config diff',
    'ledger verify',
    'ledger reprice',
    'ledger reconcile',
    'prices check',
    'prices show',
    'audit tail',
    'audit changes',
    'login',
    'token',
    'whoami',
    'logout',
  ];
  const explained = commands.map(async (command) => {
    const { stdout, exit_code } = await cli([...command.split(' '), '--help']);
    assert.equal(exit_code, 0);
    assert.match(stdout, new RegExp(`\nExamples:\n.*appscli ${command}`));
    for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
  });
  await Promise.all(explained);
  for (const line of (await cli(['--help'])).stdout.split('\n')) assert.ok(line.length <= 80, line);
});

test('a wrong command line is one line with what was probably meant, and exit code 64', async () => {
  const wrong: [string[], RegExp][] = [
    [['gatway'], /unknown command 'gatway' \(Did you mean gateway\?\)/],
    [['usage', '--sinse', '7d'], /unknown option '--sinse' \(Did you mean --since\?\)/],
    [['usage', '--since', 'yesterday'], /'yesterday' is invalid\. Write 7d/],
    [
      ['usage', '--base-url', 'https://g.example', '--since', '2027-02-01', '--until', '2027-01-01'],
      /--since must be before --until/,
    ],
    [['ledger', 'reprice', '--since', '2027-01-01', '--until', '2027-01-01'], /--since must be before --until/],
    [['limits', 'set', '--user', 'a@b.c', '--window', 'day', '--usd', '$5'], /Write an amount in USD/],
    [['limits', 'set', '--user', 'a@b.c', '--usd', '5'], /'--window <window>' not specified/],
    [['tokens', 'create', '--user', 'a@b.c', '--group', 'all'], /'--name <name>' not specified/],
    [['tokens', 'create', '--user', 'alice', '--group', 'all', '--name', 'x'], /Write an e-mail address/],
    [['tokens', 'create', '--user', 'a@b.c', '--group', 'g', '--name', 'x', '--expires', '2020-01-01'], /in the past/],
    [['check', '--format', 'xml'], /Allowed choices are text, json, github/],
    [['audit', 'tail', '-n', 'many'], /Write a number/],
    [['tokens', 'create', 'extra'], /./],
    [['policy', 'list', '--base-url', 'https://gateway.example.com'], /\(appscli policy list --help shows how\)/],
  ];
  const refused = wrong.map(async ([arguments_, expected]) => {
    const { exit_code, stdout, stderr } = await cli(arguments_);
    assert.equal(exit_code, 64, arguments_.join(' '));
    assert.equal(stdout, '');
    assert.match(stderr, expected);
    assert.match(stderr, /^appscli: [^\n]+\n$/);
  });
  await Promise.all(refused);
});

test('a command that works at a running gateway as well says so where there is no configuration', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-nowhere-'));
  try {
    for (const command of ['tokens list', 'sessions list', 'service-tokens list', 'usage']) {
      const { exit_code, stderr } = await cli(command.split(' '), { cwd: directory });
      assert.equal(exit_code, 78, command);
      const remedy =
        'name the configuration to use with --config, or the gateway you signed in at with --base-url or APPSCLI_BASE_URL';
      assert.equal(stderr, `appscli: gateway.yaml does not exist; ${remedy}\n`);
    }
    const { stderr } = await cli(['ledger', 'verify'], { cwd: directory });
    assert.equal(stderr, 'appscli: gateway.yaml does not exist; name the configuration to use with --config\n');
  } finally {
    await rm(directory, { recursive: true });
  }
});
