import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { beforeEach, test } from 'node:test';
import { chooseUpstream } from '../../engine/edge/cli/init/init.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { assertRefused } from './at-gateway.ts';
import { typing } from './client/set-up.ts';
import { cli } from './support.ts';

const OWNERS = ['.gitignore', '.npmrc', 'tsconfig.json'];
const YAML = ['gateway.test.yaml', 'gateway.yaml', 'pipelines/long-answers.yaml'];
const WRITTEN = ['.gitignore', '.npmrc', ...YAML, 'tsconfig.json'];

let directory: string;
beforeEach(() => {
  directory = ownDirectory();
});

const env = { ...process.env, UPSTREAM_KEY: 'set' };
const run = (...arguments_: string[]) => cli(arguments_, { cwd: directory, env });

async function filesBelow(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory());
  return files.map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1)).toSorted();
}

test('an empty directory becomes a configuration that passes the check, with one warning where the key of the provider is missing', async () => {
  const { exit_code, stdout } = await run('init');
  assert.equal(exit_code, 0);
  assert.deepEqual(stdout.trimEnd().split('\n').toSorted(), WRITTEN);
  assert.deepEqual(await filesBelow(directory), WRITTEN);
  const checked = await run('check', '--deny-warnings');
  assert.equal(checked.exit_code, 0, checked.stdout);
  const { UPSTREAM_KEY, ...without } = env;
  const keyless = await cli(['check', '--format', 'json'], { cwd: directory, env: without });
  const { diagnostics } = JSON.parse(keyless.stdout) as { diagnostics: { code: string }[] };
  assert.deepEqual([keyless.exit_code, diagnostics.map(({ code }) => code)], [0, ['W7004']]);
});

test('it has the names of real clients if one is installed or an option selects them', async () => {
  const withProgram = async (program: string) => {
    const folder = ownDirectory();
    await symlink(process.execPath, join(folder, program));
    return { ...env, PATH: folder };
  };
  for (const [options, program, profile] of [
    [[], 'other', 'neutral'],
    [['--profile', 'shipped'], 'other', 'shipped'],
    [[], 'claude', 'shipped'],
    [[], 'codex', 'shipped'],
    [[], 'grok', 'shipped'],
    [['--profile', 'neutral'], 'grok', 'neutral'],
  ] as const) {
    const cwd = ownDirectory();
    const { exit_code, stderr } = await cli(['init', ...options], { cwd, env: await withProgram(program) });
    assert.equal(exit_code, 0, stderr);
    const is_shipped = profile === 'shipped';
    assert.equal(/^ {2}profile: shipped$/m.test(await readFile(join(cwd, 'gateway.yaml'), 'utf8')), is_shipped);
    assert.match(stderr, new RegExp(`client coding-cli --model coder-1 --profile ${profile} `));
    assert.equal(/For claude, codex and grok\s+set server\.profile/.test(stderr), !is_shipped);
    const checked = await cli(['check', '--deny-warnings'], { cwd, env });
    assert.equal(checked.exit_code, 0, checked.stdout + checked.stderr);
  }
  await assertRefused(run, [['init --profile other', /--profile: expected shipped or neutral/]]);
});

test('the tests of the new pipeline pass, and fail when someone changes its rule', async () => {
  await run('init');
  const passed = await run('test', '--min-coverage', '100');
  assert.equal(passed.exit_code, 0, passed.stdout + passed.stderr);
  const file = join(directory, 'pipelines/long-answers.yaml');
  await writeFile(file, (await readFile(file, 'utf8')).replace('}, 8000]', '}, 10000]'));
  const failed = await run('test');
  assert.equal(failed.exit_code, 1);
  assert.match(failed.stdout + failed.stderr, /rejects a request for a longer response/);
});

test('the line for editors leads to the schemas of this installation, from every file', async () => {
  await run('init', 'deep/er');
  for (const name of YAML) {
    const file = join(directory, 'deep/er', name);
    const schema = /^# yaml-language-server: \$schema=(.+)\n/.exec(await readFile(file, 'utf8'))?.[1];
    assert.ok(schema, name);
    const { title } = JSON.parse(await readFile(resolve(dirname(file), schema), 'utf8')) as { title?: string };
    assert.ok(title, name);
  }
});

test('what to do next is words, fits into 80 columns and starts in the directory that was named', async () => {
  const { stderr } = await cli(['init', "it's new"], { cwd: directory, env });
  const breakable = stderr.split('\n').filter((line) => !line.startsWith('    /'));
  for (const line of breakable) assert.ok(line.length <= 80, line);
  assert.ok(stderr.includes("\n  cd 'it'\\''s new'\n"));
  assert.match(stderr, /^ {2}appscli check /m);
});

test('at the end it names the commands for when something does not work, with options they have', async () => {
  const { stderr } = await run('init', 'new');
  const help = stderr.slice(stderr.indexOf('Troubleshooting'));
  for (const [command, ...options] of [
    ['doctor', '--config'],
    ['doctor'],
    ['selfcheck', '--token-env', '--base-url'],
  ]) {
    assert.match(help, new RegExp(`appscli ${command} `));
    const { stdout } = await run(command!, '--help');
    for (const option of options) assert.ok(help.includes(option) && stdout.includes(option), option);
  }
});

test('the shell finds the program where it is installed, and nothing has npx look for it in a registry', async () => {
  const install = /\n {2}cd new\n {2}export PATH="\$PWD\/node_modules\/\.bin:\$PATH"\n {2}npm install \\\n {4}(\S+)\n/;
  const away = await run('init', 'new');
  const installed = install.exec(away.stderr)?.[1];
  assert.ok(installed !== undefined && existsSync(join(installed, 'engine/bin/appscli.js')), away.stderr);
  await mkdir(join(directory, 'used'));
  await writeFile(join(directory, 'used', '.npmrc'), 'mine');
  assert.match((await run('init', 'used')).stderr, /npm install --loglevel=error \\\n/);
  await mkdir(join(directory, 'node_modules/.bin'), { recursive: true });
  await writeFile(join(directory, 'node_modules/.bin/appscli'), '');
  const below = await run('init', 'below');
  assert.match(below.stderr, /\n {2}cd below\n {2}export PATH="\$PWD\/\.\.\/node_modules\/\.bin:\$PATH"\n {2}export /);
  await mkdir(join(directory, 'bin'));
  await writeFile(join(directory, 'bin/appscli'), '');
  const found = await cli(['init', 'found'], { cwd: directory, env: { ...env, PATH: join(directory, 'bin') } });
  assert.doesNotMatch(found.stderr, /export PATH|npm install/);
  for (const { stderr } of [away, below, found]) assert.doesNotMatch(stderr, /npx/);
});

test('a file that exists stays as it is, is named, and nothing else is written', async () => {
  for (const existing of YAML) {
    const own = await mkdtemp(join(directory, 'own-'));
    await mkdir(dirname(join(own, existing)), { recursive: true });
    await writeFile(join(own, existing), 'mine');
    const { exit_code, stdout, stderr } = await run('init', own);
    assert.deepEqual([exit_code, stdout], [64, '']);
    assert.equal(stderr, `appscli: ${join(own, existing)} exists already; nothing was written\n`);
    assert.deepEqual(await filesBelow(own), [existing]);
    assert.equal(await readFile(join(own, existing), 'utf8'), 'mine');
  }
  // Nothing is written through a link to nothing either.
  const elsewhere = ownDirectory();
  await symlink(join(elsewhere, 'elsewhere.yaml'), join(directory, 'gateway.yaml'));
  assert.equal((await run('init')).exit_code, 64);
  assert.deepEqual(await readdir(elsewhere), []);
});

test('what a directory in use has already is left to its owner and stops nothing', async () => {
  for (const name of OWNERS) await writeFile(join(directory, name), 'mine\n');
  const { exit_code, stdout } = await run('init');
  assert.equal(exit_code, 0);
  for (const name of OWNERS) {
    assert.ok(!stdout.includes(name));
    assert.equal(await readFile(join(directory, name), 'utf8'), 'mine\n');
  }
});

test('without a provider, the configuration uses the mock, and explains how to start it', async () => {
  const { stderr } = await run('init');
  assert.match(await readFile(join(directory, 'gateway.yaml'), 'utf8'), /base_url: http:\/\/127\.0\.0\.1:8090\n/);
  assert.match(stderr, /\n {2}appscli mock-upstream & +#/);
  assert.match((await run('mock-upstream', '--help')).stdout, /default: 127\.0\.0\.1:8090/);
});

for (const type of ['vendor', 'compat']) {
  test(`a provider that options name stands in it, and its tests have responses of such a one: ${type}`, async () => {
    const options = ['--upstream-url', 'https://models.example.com', '--upstream-type', type, '--key-env', 'MY_KEY'];
    const { exit_code, stderr } = await run('init', ...options);
    assert.equal(exit_code, 0);
    assert.doesNotMatch(stderr, /mock-upstream/);
    assert.match(stderr, /\n {2}export MY_KEY=/);
    const mine = { cwd: directory, env: { ...process.env, MY_KEY: 'set' } };
    const checked = await cli(['check', '--deny-warnings'], mine);
    assert.equal(checked.exit_code, 0, checked.stdout);
    const tested = await cli(['test', '--min-coverage', '100'], mine);
    assert.equal(tested.exit_code, 0, tested.stdout + tested.stderr);
    const text = await readFile(join(directory, 'gateway.yaml'), 'utf8');
    assert.match(text, new RegExp(`\n {4}type: ${type} #`));
    assert.match(text, /\n {4}base_url: https:\/\/models\.example\.com\n/);
    assert.match(text, /\n {4}api_key_env: MY_KEY\n/);
  });
}

test('a provider that cannot be one is rejected, nothing is written, and a key in place of its name is not repeated', async () => {
  await assertRefused(run, [
    ['init --upstream-url api.example.com', /invalid address of the upstream: it is not an absolute URL/],
    ['init --upstream-url https://me:hunter2@api.example.com', /^(?!.*hunter2).*it contains credentials/],
    ['init --key-env sk-planted-0123456789', /^(?!.*planted).*expected the name of an environment variable/],
    ['init --upstream-type compat', /--upstream-url/],
  ]);
  assert.deepEqual(await readdir(directory), []);
});

test('what was written is taken back when a later file cannot be', async () => {
  await writeFile(join(directory, 'pipelines'), 'no directory');
  const { exit_code, stderr } = await run('init');
  assert.equal(exit_code, 69);
  assert.match(
    stderr,
    /^appscli: pipelines\/long-answers\.yaml cannot be written: a part of its path is a file, not a directory\n$/,
  );
  assert.deepEqual(await readdir(directory), ['pipelines']);
});

test('init prompts for the protocol and the key variable of a provider, and again after an unusable input', async () => {
  const printed: string[] = [];
  const input = typing('example', 'https://api.example.com', 'chat', 'compat', 'sk-planted-1234567', 'MY_KEY');
  const chosen = await chooseUpstream({}, input, (text) => void printed.push(text));
  assert.deepEqual(chosen, { base_url: 'https://api.example.com', type: 'compat', key_env: 'MY_KEY' });
  assert.equal(printed.length, 3);
  assert.doesNotMatch(printed.join(''), /planted/);
});

test('Enter selects the mock, and values of options are not requested', async () => {
  const mock = await chooseUpstream({}, typing(''), () => {});
  assert.deepEqual(mock, { base_url: undefined, type: 'vendor', key_env: 'UPSTREAM_KEY' });
  const input = typing('no answer');
  const chosen = await chooseUpstream({ upstreamUrl: 'https://api.example.com' }, input, () => {});
  assert.deepEqual(chosen, { base_url: 'https://api.example.com', type: 'vendor', key_env: 'UPSTREAM_KEY' });
  assert.deepEqual(input.asked, []);
});
