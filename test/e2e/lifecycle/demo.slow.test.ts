/** The newcomer's two minutes: `npm start`, commands to paste, Ctrl-C, and once more. */
import assert from 'node:assert/strict';
import { chmod, cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readServerState } from '../../../engine/base/store/embedded-postgres.ts';
import { type RunningCommand, start } from '../../cli/support.ts';
import { freePort } from '../../support/free-port.ts';
import { createBrowser } from '../../support/identity/browser-by-fetch.ts';
import { onMachineClock } from '../../support/suite-clock.ts';
import { until } from '../../support/until.ts';

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url));
const START = join(REPOSITORY, 'examples/demo/start.ts');
/** Does the same as curl with the demo's options, where curl itself is not installed. */
const CURL = `#!${process.execPath}
const given = { headers: {} };
for (let i = 2; i < process.argv.length; i++) {
  const argument = process.argv[i];
  if (argument === '-H') { const [name, value] = process.argv[++i].split(': '); given.headers[name] = value; }
  else if (argument === '-d') { given.method = 'POST'; given.body = process.argv[++i]; }
  else if (argument !== '-N') given.url = argument;
}
const response = await fetch(given.url, given);
process.stdout.write(await response.text());
`;

/** The entries of a checkout's node_modules/.bin, also where that is another checkout's. */
const PROGRAM = `'${process.execPath}' '${join(REPOSITORY, 'engine/bin/appscli.js')}'`;

let directory: string;
let config_file: string;
let env: NodeJS.ProcessEnv;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'appscli-demo-'));
  await chmod(directory, 0o755);
  config_file = join(directory, 'gateway.yaml');
  const shipped = await readFile(join(REPOSITORY, 'examples/demo/gateway.yaml'), 'utf8');
  const port = await freePort();
  const moves: [string, string][] = [
    ['listen: 127.0.0.1:8080', `listen: 127.0.0.1:${port}`],
    ['public_url: http://127.0.0.1:8080', `public_url: http://127.0.0.1:${port}`],
    ['issuer_url: http://127.0.0.1:18081', `issuer_url: http://127.0.0.1:${await freePort()}`],
    ['base_url: http://127.0.0.1:18080', `base_url: http://127.0.0.1:${await freePort()}`],
    ['base_url: http://127.0.0.1:18082', `base_url: http://127.0.0.1:${await freePort()}`],
    ['data_dir: ../../.appscli/postgres', 'data_dir: state/postgres'],
  ];
  for (const [from] of moves) assert.equal(shipped.split(from).length, 2, `"${from}" occurs once`);
  const moved = moves.reduce((text, [from, to]) => text.replace(from, to), shipped);
  await writeFile(config_file, moved);
  await cp(join(REPOSITORY, 'examples/demo/policies'), join(directory, 'policies'), { recursive: true });
  await writeFile(join(directory, 'curl'), CURL, { mode: 0o755 });
  await writeFile(join(directory, 'package.json'), '{ "type": "module" }');
  const own = { PATH: `${directory}${delimiter}${process.env.PATH}`, XDG_CONFIG_HOME: directory };
  env = onMachineClock({ ...process.env, ...own });
});
after(() => rm(directory, { recursive: true, force: true }));

/** The demo, once its output is complete. */
async function startDemo(file: string, ...words: string[]): Promise<RunningCommand> {
  const demo = start(file, [...words, config_file], { cwd: REPOSITORY, env });
  await until('the demo is ready', () => {
    if (demo.process.exitCode !== null) throw new Error(`the demo ended: ${demo.stderr()}`);
    return demo.stdout().includes('Ctrl-C');
  });
  return demo;
}

/** The commands under "# 1." to "# 6.", as a user would copy them. */
function commandsIn(output: string): string[] {
  const commands = output.split(/^# \d\. .*\n(?:#.*\n)*/m).slice(1);
  return commands.map((command) => command.slice(0, command.indexOf('\n\n')));
}

async function paste(command: string): Promise<string> {
  const there = command.replaceAll('node_modules/.bin/appscli', PROGRAM);
  const { exit_code, stdout, stderr } = await start('sh', ['-c', there], { cwd: REPOSITORY, env }).ended;
  assert.equal(exit_code, 0, stderr);
  return stdout;
}

async function stop(demo: RunningCommand, signal: NodeJS.Signals): Promise<void> {
  demo.process.kill(signal);
  const { exit_code, stdout, stderr } = await demo.ended;
  assert.equal(exit_code, 0, stderr);
  assert.equal(stderr, '');
  assert.match(stdout, /\nStopped\. The next start uses the same data\.\n$/);
}

/** A user's steps in the browser: confirms the code and picks the user. Returns the page at the end. */
async function signInAt(url: string, person: string): Promise<{ status: number; text: string }> {
  const browser = createBrowser();
  const { origin, searchParams } = new URL(url);
  await browser.request(url);
  const confirmed = { user_code: searchParams.get('user_code') ?? '', action: 'approve' };
  let at = new URL('/device', origin);
  let response = await browser.submit(at, confirmed);
  for (let hops = 0; hops < 10; hops++) {
    const location = response.headers.get('location');
    if (location === null && at.origin === origin) return { status: response.status, text: await response.text() };
    if (location === null) {
      response = await browser.submit(at, { person });
    } else {
      at = new URL(location, at);
      response = await browser.request(at);
    }
  }
  throw new Error('the sign-in never ended');
}

/** Runs the last command of the demo, and follows it in a browser. */
async function signIn(demo: RunningCommand, person: string) {
  const command = commandsIn(demo.stdout()).at(-1)!;
  const login = start('sh', ['-c', command], { cwd: REPOSITORY, env });
  const url = await until('the address for the browser is printed', () => {
    if (login.process.exitCode !== null) throw new Error(`it ended: ${login.stdout()}${login.stderr()}`);
    return /http:\S+\/device\?user_code=[A-Z-]+/.exec(login.stdout() + login.stderr())?.[0];
  });
  const page = await signInAt(url, person);
  return { page, ...(await login.ended) };
}

async function appscli(...args: string[]): Promise<string> {
  const { exit_code, stdout, stderr } = await start(
    process.execPath,
    [join(REPOSITORY, 'engine/bin/appscli.js'), ...args],
    { cwd: REPOSITORY, env },
  ).ended;
  assert.equal(exit_code, 0, stderr);
  return stdout;
}

/** Pastes the commands that the demo has printed. */
async function tryCommands(demo: RunningCommand): Promise<void> {
  const [plain, streamed, chat, usage] = commandsIn(demo.stdout()) as [string, string, string, string, string];
  const message = JSON.parse(await paste(plain));
  assert.match(message.content[0].text, /Hello, gateway!/);
  const events = await paste(streamed);
  assert.match(events, /^event: message_start\n/);
  assert.match(events, /event: message_stop\n/);
  const completion = JSON.parse(await paste(chat));
  assert.equal(completion.object, 'chat.completion');
  assert.match(completion.choices[0].message.content, /Hello, gateway!/);
  const table = await until('all three requests are in the ledger', async () => {
    const printed = await paste(usage);
    return OWN_USAGE.test(printed) && printed;
  });
  assert.match(table, /^alice@example\.com, team web, project demo-week$/m);
}

/** The results of the commands, below the name of the token's user. */
const OWN_USAGE = /^you@example\.com, team demo-team\n {2}demo-large at demo +2 .*\n {2}chat: demo-large at demo +1 /m;

/** The models of the signed-in user. */
async function models(demo: RunningCommand): Promise<string[]> {
  const gateway = /Gateway {4}(\S+)/.exec(demo.stdout())![1]!;
  const headers = { authorization: `Bearer ${(await appscli('token')).trim()}` };
  const { data } = (await (await fetch(`${gateway}/v1/models`, { headers })).json()) as { data: { id: string }[] };
  return data.map(({ id }) => id);
}

test('the demo, started twice', async (t) => {
  const first = await startDemo(process.execPath, START);
  const token = /gw_\w+/.exec(first.stdout())![0];
  await t.test('prints commands that work when pasted, and fit 80 columns', async () => {
    await tryCommands(first);
    // However long the way to the temporary directory is.
    const as_shipped = first.stdout().replaceAll(/\S+\/appscli-demo-\S+\/gateway\.yaml/g, 'examples/demo/gateway.yaml');
    const wide = as_shipped.split('\n').filter((line) => line.length > 80);
    assert.deepEqual(wide, []);
  });
  await t.test('begins with the console, and has a week to look at that is marked and adds up', async () => {
    const [address] = /http:\S+\/console/.exec(first.stdout())!;
    assert.ok(first.stdout().indexOf(address) < first.stdout().indexOf('  Gateway '));
    assert.equal((await fetch(address)).status, 200);
    const { notice } = (await (await fetch(`${address}/session`)).json()) as { notice: string };
    assert.match(notice, /demo-week/);
    const records = (await appscli('audit', 'tail', '--lines', '2000', '--json', '--config', config_file))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ user }) => user !== 'you@example.com');
    assert.ok(records.length > 300, `${records.length} requests`);
    assert.ok(records.every(({ project }) => project === 'demo-week' || project === null));
    const seen = new Set(records.flatMap(({ status, error, upstream }) => [status, error, upstream]));
    for (const one of [200, 'spend_limit_exceeded', 'credential_revoked', 'demo', 'demo-spare']) {
      assert.ok(seen.has(one), `${one} is among ${[...seen].join(', ')}`);
    }
    assert.ok(records.some(({ attempts }) => attempts?.length === 2));
    assert.match(await appscli('ledger', 'verify', '--config', config_file), /^The ledger adds up/);
    const changes = await appscli('audit', 'changes', '--config', config_file);
    assert.match(changes.replace(/\s+/g, ' '), /granted 5 USD more per day to user gus@example\.com until/);
  });
  await t.test('names the commands that check gateway and clients', async () => {
    const check = commandsIn(first.stdout())[4]!;
    // Billable requests would be in the table of the next start.
    assert.match(await paste(`${check} --only models.list`), /\bok\b/);
    assert.match(first.stdout(), /^# {4}"node_modules\/\.bin\/appscli doctor" /m);
  });
  await t.test("signs users in by its last command, each with their groups' permissions", async () => {
    const [carol, bob] = await Promise.all([signIn(first, 'carol'), signIn(first, 'bob')]);
    assert.equal(carol.page.status, 403);
    assert.notEqual(carol.exit_code, 0);
    assert.equal(bob.exit_code, 0, bob.stderr);
    assert.match(bob.stdout + bob.stderr, /bob@example\.com/);
    assert.deepEqual(await models(first), ['demo-small']);
  });
  await t.test('reports a port in use in one line with a remedy', async () => {
    const { exit_code, stderr } = await start(process.execPath, [START, config_file], { env }).ended;
    assert.equal(exit_code, 69);
    assert.match(stderr, /^appscli: 127\.0\.0\.1:\d+, where the demo upstream listens, is in use; stop [^\n]+\n$/);
  });
  const state = () => readServerState(join(directory, 'state/postgres/cluster')).kind;
  await t.test('ends with everything it started at Ctrl-C', async () => {
    assert.equal(state(), 'running');
    await stop(first, 'SIGINT');
    assert.equal(state(), 'stopped');
  });

  const second = await startDemo('npm', 'start', '--silent', '--');
  await t.test('has its data the next time, and users stay signed in', async () => {
    assert.equal(/gw_\w+/.exec(second.stdout())![0], token, 'the token of the first start is still good');
    assert.match(await paste(commandsIn(second.stdout())[3]!), OWN_USAGE);
    assert.deepEqual(await models(second), ['demo-small']);
    assert.match(await appscli('whoami'), /bob@example\.com/);
  });
  await t.test('ends with all its child processes when npm is stopped', async () => {
    await stop(second, 'SIGTERM');
    assert.equal(state(), 'stopped');
  });
});
