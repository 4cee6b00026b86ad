/** examples/failover as its README runs it: the mock providers, the gateway, and every command in a shell. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { cli, start } from '../cli/support.ts';
import { freePort } from '../support/free-port.ts';
import { openPort } from '../support/net/own-port.ts';
import { blocksOf } from '../support/readme-blocks.ts';
import { until } from '../support/until.ts';
import { startExample } from './support.ts';

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

test('requests continue while one upstream is broken, fixed and drained, by the commands of the README', async (t) => {
  const port = await fourPorts();
  const moves = [1, 2, 3].map((n) => [`1809${n}`, String(port + n)] as const);
  const example = await startExample('failover', moves, { MOCK_PORT: String(port) });
  const { gateway, env } = example;
  const closing: (() => unknown)[] = [example.close];
  t.after(async () => {
    for (const close of closing) await close();
  });
  const mocks = start(process.execPath, [join(example.directory, 'mock-providers.ts')], { env });
  await until('the mock providers listen', () => mocks.stdout().includes('west at'));

  const [, , ...blocks] = blocksOf(`${EXAMPLE}/README.md`, 'sh').map(({ text }) =>
    text.replaceAll('http://127.0.0.1:8080', gateway.url),
  );
  // The command line in this process takes a tenth of the time.
  const commands = createServer(async (req, res) => {
    const words = (await text(req)).split('\n').slice(0, -1);
    const token = String(req.headers['x-service-token'] ?? '');
    const ended = await cli(words, { cwd: example.root, env: { ...env, APPSCLI_SERVICE_TOKEN: token } });
    said.push(ended.stderr);
    res.writeHead(ended.exit_code === 0 ? 200 : 500).end(ended.stdout);
  });
  const { url: COMMANDS, close } = await openPort(commands);
  closing.unshift(close);
  const said: string[] = [];
  // A function has no slashes in its name.
  const programs = `node() { "$NODE" "$@"; }
  appscli() {
    printf '%s\\n' "$@" | curl -sS --fail -H "x-service-token: \${APPSCLI_SERVICE_TOKEN:-}" --data-binary @- "$COMMANDS"
  }`;
  const pasted = blocks.map((block, i) => `echo "== ${i}"\n${block.replaceAll('node_modules/.bin/', '')}`);
  const script = [programs, ...pasted].join('\n');
  const shell = await promisify(execFile)('bash', ['-euc', script], {
    cwd: example.root,
    env: { ...env, NODE: process.execPath, COMMANDS },
  });
  const parts = shell.stdout.split(/^== \d+\n/m).slice(1);
  const holds = (block: number, words: RegExp) => assert.match(parts[block] ?? '', words);
  holds(0, /^I am main$/m);
  holds(1, /^main {2}529 .*\n.*\n.*\nI am (?:east|west)$/m);
  assert.equal(parts[2]!.match(/^I am (?:east|west)$/gm)?.length, 10);
  holds(2, /^main {2}529 +\d+ requests$/m);
  holds(3, /^main +coder-1 +(?:open|half-open) .* status 529/m);
  holds(4, /^I am main\nI am (?:east|west)$/m);
  holds(5, /^I am (?:east|west)$/m);
  holds(6, /^main {2}refuse .*\n.*\n.*\nI am (?:east|west)$/m);
  holds(
    7,
    /^TOTAL +16 .*\n(?:.*\n)*What happened\n(?: {2}\S.*\n)+ {2}1 {2}main: unreachable.*\n(?: {5,}.*\n)* {2}2 {2}(?:east|west): answered/m,
  );
  holds(8, /next_overloaded/);
  assert.match(said.join(''), /Drained "main": .*Resumed "main", which was drained by service failover-demo/s);
});
