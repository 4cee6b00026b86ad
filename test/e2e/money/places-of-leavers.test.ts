/** A client that leaves early, as coding clients do after every tool call, is not blocked by responses read on for the bill. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { serverSection, type TestGateway } from '../../support/gateway.ts';
import {
  EVENT_STREAM,
  messageEvents,
  type Script,
  type ScriptedUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { open, type Response, send } from '../support/client.ts';
import { askBody, sending } from '../support/nine.ts';
import { ledgerRows } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

/** So long a request waits for a place that somebody who left has. */
const TIMEOUT_MS = 1000;
/** After so long at most the gateway reads what has come of a stream, for its bill. */
const READ_MS = 50;

let upstream: ScriptedUpstream;
let gateway: TestGateway;
const clock = frozenClock(Date.now());

const rules = [
  { name: 'one-at-once', scope: 'user', concurrency: 1, when: { '===': [{ var: 'principal.team' }, 'red'] } },
  { name: 'one-of-team', scope: 'team', concurrency: 1, when: { '===': [{ var: 'principal.team' }, 'blue'] } },
];
useGateway(
  (opened) => {
    ({ upstream, gateway } = opened);
  },
  { server: serverSection({ limits: { requests_per_principal: 2 } }), spend_limits: { rules } },
  clock,
);

const [first, ...rest] = messageEvents();

/** Says something at once, and the end of it on demand. */
function endsWhen(end: Promise<void>, closed = () => {}): Script {
  return async ({ res }) => {
    res.on('close', closed);
    res.writeHead(200, [...EVENT_STREAM]);
    res.write(first);
    await end;
    res.end(rest.join(''));
  };
}

const asking = (token: string) =>
  sending('messages', token, JSON.stringify(askBody('messages', 'coder-1', 'Hi', { stream: true })));

async function leave(token: string): Promise<void> {
  const asked = open(gateway.url, asking(token));
  for await (const _ of await asked.head) break;
  asked.abort();
  // Nothing else waits for so short a time: what has come of the answer is read.
  clock.advance(READ_MS);
}

/** Retries until a request waits for a place: at first the gateway may not know that a client left. */
async function waitForPlace(token: string): Promise<{ answer: Promise<Response> }> {
  return await until('a request waits for a place', async () => {
    let refused = false;
    const answer = send(gateway.url, asking(token)).then((response) => {
      refused = response.status === 429;
      return response;
    });
    await until('it waits or is rejected', () => refused || (clock.next() ?? Infinity) <= TIMEOUT_MS);
    return !refused && { answer };
  });
}

async function costs(user: string): Promise<unknown[]> {
  const rows = (await ledgerRows(gateway.database)).filter(({ user_email }) => user_email === user);
  return rows.map(({ provenance }) => provenance.cost);
}

test('the next request waits briefly for a response without a client', async () => {
  const token = await gateway.newToken({ user: 'quick@example.com', team: 'red' });
  const end = Promise.withResolvers<void>();
  upstream.script = endsWhen(end.promise);
  await leave(token);
  upstream.script = endsWhen(Promise.resolve());
  const { answer: response } = await waitForPlace(token);
  end.resolve();
  assert.equal((await response).status, 200, (await response).text);
  await until('both are settled', async () => (await costs('quick@example.com')).length === 2);
  assert.deepEqual(await costs('quick@example.com'), ['upstream', 'upstream']);
});

for (const [what, team, at_once] of [
  ['a limit on requests at once', 'red', 1],
  ['requests_per_principal', undefined, 2],
] as const) {
  test(`under ${what} a response that is read on too long is preempted, and costs the typical amount`, async () => {
    const user = `slow-${at_once}@example.com`;
    const token = await gateway.newToken({ user, ...(team && { team }) });
    let closed = 0;
    const end = Promise.withResolvers<void>();
    upstream.script = endsWhen(end.promise, () => closed++);
    for (let i = 0; i < at_once; i++) await leave(token);
    upstream.script = endsWhen(Promise.resolve());
    const { answer: response } = await waitForPlace(token);
    clock.advance(TIMEOUT_MS - 1);
    assert.equal(closed, 0);
    clock.advance(1);
    assert.equal((await response).status, 200, (await response).text);
    await until('the upstream noticed', () => closed === 1);
    await until('both are settled', async () => (await costs(user)).length === 2);
    assert.deepEqual((await costs(user)).toSorted(), ['most', 'upstream']);
    // The gateway reads the other one on until it ends.
    end.resolve();
  });
}

test('a response with a waiting client is not preempted', async () => {
  const token = await gateway.newToken({ user: 'stays@example.com', team: 'red' });
  const end = Promise.withResolvers<void>();
  upstream.script = endsWhen(end.promise);
  const staying = open(gateway.url, asking(token));
  const head = await staying.head;
  const response = await send(gateway.url, asking(token));
  assert.equal(response.status, 429, response.text);
  end.resolve();
  for await (const _ of head);
});

test('a request that hangs up while it waits for a place leaves it to the others of its team at once', async () => {
  const leaver = await gateway.newToken({ user: 'hangs-up@example.com', team: 'blue' });
  const colleague = await gateway.newToken({ user: 'colleague@example.com', team: 'blue' });
  const end = Promise.withResolvers<void>();
  upstream.script = endsWhen(end.promise);
  await leave(leaver);
  const isWaiting = () => (clock.next() ?? Infinity) <= TIMEOUT_MS;
  const waiting = await until('a request waits for a place', async () => {
    let refused = false;
    const asked = open(gateway.url, asking(leaver));
    asked.head.then(
      () => {
        refused = true;
      },
      () => {},
    );
    await until('it waits or is rejected', () => refused || isWaiting());
    return !refused && asked;
  });
  waiting.abort();
  await until('it waits no more', () => !isWaiting());
  upstream.script = endsWhen(Promise.resolve());
  const { answer: response } = await waitForPlace(colleague);
  clock.advance(TIMEOUT_MS);
  assert.equal((await response).status, 200, (await response).text);
  end.resolve();
});
