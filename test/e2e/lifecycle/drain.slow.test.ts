import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { cli } from '../../cli/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, open, readAll, send } from '../support/client.ts';
import { type GatewayProcess, startGatewayProcess } from '../support/gateway-process.ts';

const DRAIN_SECONDS = 2;

let upstream: ScriptedUpstream;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let config: Awaited<ReturnType<typeof writeConfig>>;
let env: NodeJS.ProcessEnv;
let token: string;
let gateway: GatewayProcess;

before(async () => {
  upstream = await startUpstream();
  database = await createTestDatabase();
  env = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: database.url };
  const timeouts = { drain_seconds: DRAIN_SECONDS, first_byte_seconds: 30 };
  const server = {
    listen: '127.0.0.1:0',
    public_url: 'http://127.0.0.1',
    timeouts,
    drain: { accept_seconds: 0 },
  };
  config = await writeConfig(gatewayConfig(upstream.url, { server }));
});
after(async () => {
  await database?.drop();
  await upstream?.close();
  await rm(config.directory, { recursive: true, force: true });
});
beforeEach(async () => {
  upstream.requests.length = 0;
  gateway = await startGatewayProcess(config.config_file, env);
  if (token === undefined) {
    const args = ['--config', config.config_file, '--user', 'dev@example.com', '--group', 'all', '--name', 'drain'];
    const created = await cli(['tokens', 'create', ...args], { env });
    assert.equal(created.exit_code, 0, created.stderr);
    token = created.stdout.trim();
    assert.match(token, /^gw_\S+$/, 'the token alone is on standard output');
  }
});
afterEach(async () => {
  gateway.child.kill('SIGKILL');
  await gateway.ended;
});

/** Streams the first events, then waits for `finish` to send the rest. */
function streamInTwoParts(): { finish(): void; events: string[] } {
  const events = messageEvents(['one ', 'two ', 'three']);
  let finish = () => {};
  const told = new Promise<void>((resolve) => {
    finish = resolve;
  });
  upstream.script = async ({ res }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    res.write(events.slice(0, 3).join(''));
    await told;
    res.end(events.slice(3).join(''));
  };
  return { events, finish: () => finish() };
}

const refusesConnections = () =>
  send(gateway.url, { method: 'GET', path: '/healthz' }).then(
    ({ status }) => status === 503,
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET',
  );

test('SIGTERM lets a running stream finish, takes no new connection, and the process ends with 0', async () => {
  const { events, finish } = streamInTwoParts();
  const sending = { headers: bearer(token), body: messagesBody({ stream: true }) };
  const response = await open(gateway.url, sending).head;
  gateway.child.kill('SIGTERM');
  await until('new connections are refused', refusesConnections);
  assert.equal(gateway.child.exitCode, null, 'it is still running for the stream');
  finish();
  assert.equal((await readAll(response)).text, events.join(''));
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
});

test('SIGTERM without requests ends at once, also with idle connections open', async () => {
  upstream.script = answerJson(message());
  const agent = new Agent({ keepAlive: true });
  await new Promise<void>((resolve, reject) => {
    const { hostname, port } = new URL(gateway.url);
    const req = request({ hostname, port, path: '/healthz', agent }, (res) => res.resume().on('end', resolve));
    req.on('error', reject).end();
  });
  const started = performance.now();
  assert.deepEqual(await gateway.end('SIGTERM'), { code: 0, signal: null }, gateway.output());
  assert.ok(performance.now() - started < 1500, 'well before the drain time');
  agent.destroy();
});

test('a stream that outlasts the drain time ends with an error event, and the process still ends with 0', async () => {
  const { events } = streamInTwoParts();
  const sending = { headers: bearer(token), body: messagesBody({ stream: true }) };
  const response = await open(gateway.url, sending).head;
  const started = performance.now();
  gateway.child.kill('SIGTERM');
  const { text } = await readAll(response);
  assert.ok(text.startsWith(events.slice(0, 3).join('')));
  assert.match(text, /event: error\ndata: .*"api_error"/);
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
  const seconds = (performance.now() - started) / 1000;
  assert.ok(seconds < DRAIN_SECONDS + 3, `it took ${seconds.toFixed(1)} s`);
});

test('a request that has no answer yet when the drain time is over is told so as JSON', async () => {
  upstream.script = () => {};
  const { head } = open(gateway.url, { headers: bearer(token), body: messagesBody() });
  await upstream.arrived(1);
  gateway.child.kill('SIGTERM');
  const response = await readAll(await head);
  assert.equal(response.status, 503, response.text);
  assert.equal(response.json().error.code, 'draining');
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
});

test('a second signal ends the process at once', async () => {
  streamInTwoParts();
  const sending = { headers: bearer(token), body: messagesBody({ stream: true }) };
  const response = await open(gateway.url, sending).head;
  response.on('error', () => {});
  response.resume();
  gateway.child.kill('SIGTERM');
  const started = performance.now();
  // A second signal within half a second counts as the first.
  await until('the process has ended', () => {
    gateway.child.kill('SIGTERM');
    return gateway.child.exitCode !== null || gateway.child.signalCode !== null;
  });
  assert.ok(performance.now() - started < DRAIN_SECONDS * 1000);
});
