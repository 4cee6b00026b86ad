/** What a signal does to a gateway with requests under way. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { test } from 'node:test';
import { gatewayConfig, serverSection } from '../../support/gateway.ts';
import { EVENT_STREAM, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, open, readAll, send } from '../support/client.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { type ProcessScene, useProcessScene } from '../support/process-scene.ts';

/** Longer than any test may take, which fails when it waits for that. */
const ENDLESS_SECONDS = 86_400;

const EVENTS = messageEvents(['one ', 'two ', 'three']);
const BEGINNING = EVENTS.slice(0, 3).join('');

let scene: ProcessScene;
let token: string;
let gateway: GatewayProcess;
/** Sends the rest of the stream. */
let finish: () => void;

useProcessScene(
  (opened) => {
    scene = opened;
  },
  {
    script: ({ received, res }) => {
      // What is not streamed is never answered.
      if (!received.body.includes('"stream":true')) return;
      res.writeHead(200, EVENT_STREAM as string[]);
      res.write(BEGINNING);
      finish = () => res.end(EVENTS.slice(3).join(''));
    },
  },
);

async function start(drain_seconds: number): Promise<void> {
  const server = serverSection({ timeouts: { drain_seconds } });
  await scene.write('gateway.yaml', JSON.stringify(gatewayConfig(scene.upstream.url, { server })));
  gateway = await scene.start();
  token ??= await scene.newToken();
}

const beginStream = () => open(gateway.url, { headers: bearer(token), body: messagesBody({ stream: true }) }).head;

const refusesConnections = () =>
  send(gateway.url, { method: 'GET', path: '/healthz' }).then(
    ({ status }) => status === 503,
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET',
  );

test('SIGTERM lets a running stream finish and takes no new connection; idle ones do not keep the process from ending with 0', async () => {
  await start(ENDLESS_SECONDS);
  const agent = new Agent({ keepAlive: true });
  const [idle] = await once(get(`${gateway.url}/healthz`, { agent }), 'response');
  await once(idle.resume(), 'end');
  const response = await beginStream();
  gateway.child.kill('SIGTERM');
  await until('new connections are refused', refusesConnections);
  assert.equal(gateway.child.exitCode, null, 'it is still running for the stream');
  finish();
  assert.equal((await readAll(response)).text, EVENTS.join(''));
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
  agent.destroy();
});

test('what outlasts the drain time ends with an error, as an event or as JSON, and the process still ends with 0', async () => {
  await start(1);
  const { upstream } = scene;
  const before = upstream.requests.length;
  const { head: unanswered } = open(gateway.url, { headers: bearer(token), body: messagesBody() });
  await upstream.arrived(before + 1);
  const streamed = await beginStream();
  gateway.child.kill('SIGTERM');
  const { text } = await readAll(streamed);
  assert.ok(text.startsWith(BEGINNING));
  assert.match(text, /event: error\ndata: .*"api_error"/);
  const response = await readAll(await unanswered);
  assert.equal(response.status, 503, response.text);
  assert.equal(response.json().error.code, 'draining');
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
});
