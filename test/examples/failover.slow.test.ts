/** examples/failover as its README runs it: the stand-ins, the gateway, and every command in a shell. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startGateway } from '../../engine/gateway/start-gateway.ts';
import { stages } from '../../stages/index.ts';
import { cli, collectingLog, start } from '../cli/support.ts';
import { createTestDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { blocksOf, REPOSITORY } from '../support/readme-blocks.ts';
import { until } from '../support/until.ts';

const EXAMPLE = 'examples/failover';

/** A port with three free ones behind it. */
async function fourPorts(): Promise<number> {
  let [first, last] = [await freePort(), 0];
  for (last = first; last < first + 3; ) {
    const next = await freePort();
    if (next !== last + 1) first = next;
    last = next;
  }
  return first;
}

test('the example passes the check without a warning, and its own tests', async () => {
  const env = { ...process.env, STAND_IN_KEY: 'not-needed-here' };
  const checked = await cli(['check', '--deny-warnings', EXAMPLE], { cwd: REPOSITORY, env });
  assert.equal(checked.exit_code, 0, checked.stdout + checked.stderr);
  const tested = await cli(['test', EXAMPLE], { cwd: REPOSITORY });
  assert.equal(tested.exit_code, 0, tested.stdout + tested.stderr);
});

test('requests go on while one upstream is broken, mended and drained, by the commands of the README', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-failover-'));
  const closing: (() => unknown)[] = [() => rm(directory, { recursive: true, force: true })];
  t.after(async () => {
    for (const close of closing) await close();
  });
  // Nothing of the repository is beside it.
  await cp(join(REPOSITORY, EXAMPLE), join(directory, EXAMPLE), { recursive: true });
  const { url: DATABASE_URL, drop } = await createTestDatabase();
  closing.unshift(drop);
  const port = await fourPorts();
  const config_file = join(directory, EXAMPLE, 'gateway.yaml');
  const shipped = await readFile(config_file, 'utf8');
  const moved = shipped
    .replace('listen: 127.0.0.1:8080', 'listen: 127.0.0.1:0')
    .replace(/1809([123])/g, (_, n) => String(port + Number(n)));
  await writeFile(config_file, `${moved}\ndatabase:\n  postgres: { url_env: DATABASE_URL }\n`);
  const env = { ...process.env, DATABASE_URL, STAND_IN_KEY: 'not-needed-here', STAND_IN_PORT: String(port) };
  const standIns = start(process.execPath, [join(directory, EXAMPLE, 'stand-ins.ts')], { env });
  await until('the stand-ins listen', () => standIns.stdout().includes('west at'));
  const gateway = await startGateway({ config_file, stages, env, log: collectingLog().log });
  closing.unshift(() => gateway.close());
  await until('the database is ready', async () => (await gateway.database.check()).ok);

  const [, , ...blocks] = blocksOf(`${EXAMPLE}/README.md`, 'sh').map(({ text }) =>
    text.replaceAll('http://127.0.0.1:8080', gateway.url),
  );
  // The command line in this process takes a tenth of the time.
  const commands = createServer(async (req, res) => {
    const words = (await text(req)).split('\n').slice(0, -1);
    const token = String(req.headers['x-service-token'] ?? '');
    const ended = await cli(words, { cwd: directory, env: { ...env, APPSCLI_SERVICE_TOKEN: token } });
    said.push(ended.stderr);
    res.writeHead(ended.exit_code === 0 ? 200 : 500).end(ended.stdout);
  });
  commands.listen(0, '127.0.0.1');
  await once(commands, 'listening');
  closing.unshift(() => commands.close());
  const said: string[] = [];
  // A function has no slashes in its name.
  const programs = `node() { "$NODE" "$@"; }
  appscli() {
    printf '%s\\n' "$@" | curl -sS --fail -H "x-service-token: \${APPSCLI_SERVICE_TOKEN:-}" --data-binary @- "$COMMANDS"
  }`;
  const pasted = blocks.map((block, i) => `echo "== ${i}"\n${block.replaceAll('node_modules/.bin/', '')}`);
  const script = [programs, ...pasted].join('\n');
  const COMMANDS = `http://127.0.0.1:${(commands.address() as AddressInfo).port}`;
  const shell = await promisify(execFile)('bash', ['-euc', script], {
    cwd: directory,
    env: { ...env, NODE: process.execPath, COMMANDS },
  });
  const told = shell.stdout.split(/^== \d+\n/m).slice(1);
  const holds = (block: number, words: RegExp) => assert.match(told[block] ?? '', words);
  holds(0, /^I am main$/m);
  holds(1, /^main {2}529 .*\n.*\n.*\nI am (?:east|west)$/m);
  assert.equal(told[2]!.match(/^I am (?:east|west)$/gm)?.length, 10);
  holds(2, /^main {2}529 +\d+ requests$/m);
  holds(3, /^main +coder-1 +(?:open|half-open) .* status 529/m);
  holds(4, /^I am main\nI am (?:east|west)$/m);
  holds(5, /^I am (?:east|west)$/m);
  holds(6, /^main {2}refuse .*\n.*\n.*\nI am (?:east|west)$/m);
  holds(
    7,
    /^TOTAL +16 .*\n(?:.*\n)*What became of it then\n(?: {2}\S.*\n)+ {2}1 {2}main: unreachable.*\n(?: {5,}.*\n)* {2}2 {2}(?:east|west): answered/m,
  );
  holds(8, /next_overloaded/);
  assert.match(said.join(''), /Drained "main": .*Resumed "main", which was drained by service failover-demo/s);
});
