/** Starting and stopping the gateway as its operators do, and the errors of a failed start. */
import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { readServerState } from '../../../engine/base/store/embedded-postgres.ts';
import { cli, type RunningCommand, startCli } from '../../cli/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import { type ConfigSections, gatewayConfig, serverSection } from '../../support/gateway.ts';
import { messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { outside } from '../../support/open-database.ts';
import { onMachineClock } from '../../support/suite-clock.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, open, readAll, send } from '../support/client.ts';
import { listeningAt } from '../support/gateway-process.ts';
import { useUpstream } from '../support/use-gateway.ts';

const directory = await mkdtemp(join(tmpdir(), 'appscli-start-'));
await chmod(directory, 0o755);
after(() => rm(directory, { recursive: true, force: true }));
const upstream = useUpstream();
const env: NodeJS.ProcessEnv = onMachineClock({ ...process.env, TEST_UPSTREAM_KEY: 'upstream-key' });

/** Writes a configuration with an embedded database into the test's directory. */
async function config(name: string, sections: ConfigSections = {}): Promise<string> {
  const file = join(directory, `${name}.yaml`);
  const own = {
    server: serverSection({}),
    database: { embedded: { data_dir: 'state/postgres' } },
  };
  await writeFile(file, JSON.stringify(gatewayConfig(upstream.url, { ...own, ...sections })));
  return file;
}

/** Starts a gateway and waits until it prints its address. */
async function startGateway(file: string, with_env = env): Promise<{ gateway: RunningCommand; url: string }> {
  const gateway = startCli(['gateway', '--config', file], { env: with_env });
  const listens = () => {
    if (gateway.process.exitCode !== null) throw new Error(`it ended: ${gateway.stderr()}`);
    return listeningAt(gateway.stderr());
  };
  const url = await until('the gateway listens', listens);
  return { gateway, url };
}

async function allReach(path: string): Promise<boolean> {
  for (let at = dirname(path); ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

/** Stops a gateway, and with it its PostgreSQL, if it has one. */
async function stop(gateway: RunningCommand, signal: NodeJS.Signals): Promise<void> {
  gateway.process.kill(signal);
  await assertEnded(gateway);
}

async function assertEnded(gateway: RunningCommand): Promise<void> {
  const { exit_code, stderr } = await gateway.ended;
  assert.equal(exit_code, 0, stderr);
  assert.equal(serverState(), 'stopped');
}

const serverState = () => readServerState(join(directory, 'state/postgres/cluster')).kind;

/** The output for users: the lines that are no records of the log. */
const wordsOf = (stderr: string) => stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'));

/** The log is JSON lines on standard error, and standard output stays empty. */
function assertLogged(gateway: RunningCommand): void {
  assert.equal(gateway.stdout(), '');
  for (const line of gateway.stderr().trimEnd().split('\n')) assert.ok(JSON.parse(line).msg, line);
}

test('Ctrl-C ends an idle gateway and its PostgreSQL; the next start finds the data, and SIGTERM lets its stream finish', async () => {
  const file = await config('gateway');
  const { gateway: first } = await startGateway(file);
  const arguments_ = ['tokens', 'create', '--config', file, '--user', 'a@example.com', '--group', 'all', '--name', 'x'];
  const token = (await cli(arguments_, { env })).stdout.trim();
  assert.equal(serverState(), 'running');
  await stop(first, 'SIGINT');
  assertLogged(first);

  const { gateway: second, url } = await startGateway(file);
  const events = messageEvents();
  let finish = () => {};
  upstream.script = ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(events[0]);
    finish = () => res.end(events.slice(1).join(''));
  };
  const streamed = await until('the gateway is ready', async () => {
    const response = await open(url, { headers: bearer(token), body: messagesBody({ stream: true }) }).head;
    return response.statusCode === 503 ? void response.resume() : response;
  });
  assert.equal(streamed.statusCode, 200);
  // An idle connection does not keep the process from ending.
  const agent = new Agent({ keepAlive: true });
  await send(url, { method: 'GET', path: '/healthz', agent });
  second.process.kill('SIGTERM');
  await until(
    'it stops accepting',
    async () => (await send(url, { method: 'GET', path: '/healthz' }).catch(() => true)) === true,
  );
  assert.equal(serverState(), 'running');
  finish();
  assert.equal((await readAll(streamed)).text, events.join(''));
  await assertEnded(second);
  agent.destroy();

  // Neither is running now: the command starts PostgreSQL for itself.
  const usage = await startCli(['usage', '--json', '--user', 'a@example.com', '--config', file], { env }).ended;
  assert.equal(JSON.parse(usage.stdout)[0].requests, 1, usage.stderr);
});

test('a data directory that cannot be created is one line with the remedy, for root and for others', async () => {
  await writeFile(join(directory, 'a-file'), '');
  const blocked = await config('blocked', { database: { embedded: { data_dir: 'a-file/postgres' } } });
  const ended = await cli(['gateway', '--config', blocked], { env });
  assert.ok([69, 78].includes(ended.exit_code!), ended.stderr);
  assert.match(wordsOf(ended.stderr).join('\n'), /^appscli: [^\n]*a-file[^\n]*$/);

  // Root may write anywhere but below a file, and another account may not be able to run a program that root installed.
  const root = process.getuid?.() === 0;
  if (root && !(await allReach(process.execPath))) return;
  await mkdir(join(directory, 'closed'), { mode: 0o555 });
  const closed = await config('closed', { database: { embedded: { data_dir: 'closed/postgres' } } });
  const ordinary = root ? { uid: 65534, gid: 65534 } : {};
  const refused = await startCli(['gateway', '--config', closed], { env, ...ordinary }).ended;
  assert.ok([69, 78].includes(refused.exit_code!), refused.stderr);
  assert.match(wordsOf(refused.stderr).join('\n'), /^appscli: [^\n]*closed[^\n]*$/);
});

test('a database migrated by a newer version is named at start and by the check, with what to do', async () => {
  const what = 'by a newer version of this program (it has 9999_later)';
  const remedy = 'run that version or a later one, or restore';
  const { url, drop } = await createTestDatabase();
  await outside(url, `insert into schema_migrations (name) values ('9999_later')`);
  const { host, pathname, password } = new URL(url);
  const file = await config('foreign', { database: { postgres: { url_env: 'FOREIGN_URL' } } });
  const foreign = { ...env, FOREIGN_URL: url };
  const started = await cli(['gateway', '--config', file], { env: foreign });
  assert.equal(started.exit_code, 69);
  assert.ok(started.stderr.includes(`cannot use the database at ${host}${pathname}: it was migrated ${what}`));
  assert.ok(started.stderr.includes(`; ${remedy}`));
  const checked = await cli(['check', file, '--live'], { env: foreign });
  assert.equal(checked.exit_code, 1);
  const printed = checked.stdout.replaceAll(/\s+/g, ' ');
  assert.ok(printed.includes(`${host}${pathname}, migrated ${what}`), printed);
  assert.ok(printed.includes(`help ${remedy}`), printed);
  const words = started.stderr + checked.stdout + checked.stderr;
  assert.ok(password === '' || !words.includes(password));
  await drop();
});
