/** What a signal does to a gateway with a stream under way. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { test } from 'node:test';
import { serverSection } from '../../support/gateway.ts';
import { EVENT_STREAM, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, open, readAll, send } from '../support/client.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { type ProcessScene, useProcessScene } from '../support/process-scene.ts';

/** Longer than any test may run, which fails when it waits for that. */
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
    sections: () => ({ server: serverSection({ timeouts: { drain_seconds: ENDLESS_SECONDS } }) }),
    script: ({ res }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.write(BEGINNING);
      finish = () => res.end(EVENTS.slice(3).join(''));
    },
  },
);

const beginStream = () => open(gateway.url, { headers: bearer(token), body: messagesBody({ stream: true }) }).head;

const refusesConnections = () =>
  send(gateway.url, { method: 'GET', path: '/healthz' }).then(
    ({ status }) => status === 503,
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET',
  );

test('SIGTERM lets a running stream finish and takes no new connection; idle ones do not keep the process from ending with 0', async () => {
  gateway = await scene.start();
  token = await scene.newToken();
  const agent = new Agent({ keepAlive: true });
  const [idle] = await once(get(`${gateway.url}/healthz`, { agent }), 'response');
  await once(idle.resume(), 'end');
  const response = await beginStream();
  gateway.child.kill('SIGTERM');
  await until('new connections are rejected', refusesConnections);
  assert.equal(gateway.child.exitCode, null, 'it is still running for the stream');
  finish();
  assert.equal((await readAll(response)).text, EVENTS.join(''));
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
  agent.destroy();
});
