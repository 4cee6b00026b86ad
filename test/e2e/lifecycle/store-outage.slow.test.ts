import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { answerJson, EVENT_STREAM, message, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { standIn, use } from '../../support/use.ts';
import { ask, bearer, messagesBody, open, readAll, send } from '../support/client.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { askWhileOneWaits, assertStoreError, readiness, startOutage } from './outage.ts';

// The error of requests that wait for the database; those with leased headroom do not.
const scene = use(() => startOutage({ on_store_error: 'deny', lease: 'off' }));
const gateway = standIn(() => scene.gateway);
const upstream = standIn(() => scene.upstream);
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.script = answerJson(message());
});

test('a stopped database is 503 for every caller, known or new, never 401; a started one is used again', async () => {
  const fresh = await gateway.newToken({ user: 'fresh@example.com' });
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  await scene.stop();
  upstream.requests.length = 0;

  const ready = await until('/readyz reports it', async () => {
    const response = await readiness(gateway.url);
    return response.status === 503 && response;
  });
  ready.json();
  assert.equal(
    (await send(gateway.url, { method: 'GET', path: '/healthz' })).status,
    200,
    'the process itself is well',
  );
  for (let round = 0; round < 3; round++) {
    assertStoreError(await ask(gateway.url, gateway.token));
    assertStoreError(await ask(gateway.url, fresh));
  }
  const counting = { path: '/v1/messages/count_tokens', headers: bearer(fresh), body: messagesBody() };
  const counted = await send(gateway.url, counting);
  assert.notEqual(counted.status, 401);
  assert.equal(upstream.requests.length, 0, 'nothing is forwarded without a reservation');

  await scene.start();
  await scene.servesAgain();
  assert.equal((await ask(gateway.url, fresh)).status, 200);
  await nothingReserved(gateway.database);
});

test('requests in flight when the database stops finish, and are settled when it is back', async () => {
  const events = messageEvents(['one ', 'two ', 'three']);
  let finish: (() => void) | undefined;
  upstream.script = async ({ res }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    res.write(events.slice(0, 3).join(''));
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    res.end(events.slice(3).join(''));
  };
  const { head } = open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) });
  const response = await head;
  await scene.stop();
  finish?.();
  const whole = await readAll(response);
  assert.equal(whole.text, events.join(''), 'the stream is whole');
  upstream.script = answerJson(message());

  await scene.start();
  await scene.servesAgain();
  const row = await ledgerRow(gateway.database, String(whole.headers['x-gateway-request-id']));
  assert.deepEqual([row.input_tokens, row.output_tokens, row.aborted], [100, 40, false]);
  await nothingReserved(gateway.database);
});

test('a silent database is 503 after its timeout, and no later request waits', async () => {
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  await nothingReserved(gateway.database);
  const forwarded = upstream.requests.length;
  await scene.allow(1);
  scene.relay.fallSilent();
  try {
    const refused = async () => {
      const response = await ask(gateway.url, gateway.token);
      assertStoreError(response);
      return response.json().error.message.includes('did not respond in time');
    };
    await until('a request is rejected for the permitted time', refused);
    await until('/readyz reports it', async () => (await readiness(gateway.url)).status === 503);
    for (const response of await askWhileOneWaits(scene)) assertStoreError(response);
    assert.equal(upstream.requests.length, forwarded);
  } finally {
    scene.relay.speakAgain();
    await scene.allow();
  }
  await scene.servesAgain();
  await nothingReserved(gateway.database);
});

test('requests wait for a busy database within their time, and all are served after it', async () => {
  await scene.servesAgain();
  await scene.allow(1);
  const busy = await scene.connect();
  await busy.query('begin');
  await busy.query('lock table spend_counters in access exclusive mode');
  try {
    // The second one begins after the first was rejected: no request has had a response for twice the time.
    for (let n = 0; n < 2; n++) assertStoreError(await ask(gateway.url, gateway.token));
    await scene.allow();
    const others = Array.from({ length: 5 }, () => ask(gateway.url, gateway.token));
    await busy.query('commit');
    for (const response of await Promise.all(others)) assert.equal(response.status, 200, response.text);
  } finally {
    await busy.end();
    await scene.allow();
  }
  await nothingReserved(gateway.database);
});
