/** Who leaves early, as coding clients do behind every tool call, is not kept out by the answers that are read on for the bill. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverSection, type TestGateway } from '../../support/gateway.ts';
import {
  EVENT_STREAM,
  messageEvents,
  type Script,
  type ScriptedUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { open, send } from '../support/client.ts';
import { askBody, sending } from '../support/nine.ts';
import { ledgerRows } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

let upstream: ScriptedUpstream;
let gateway: TestGateway;
useGateway(
  (opened) => {
    ({ upstream, gateway } = opened);
  },
  {
    server: serverSection({ limits: { requests_per_principal: 2 } }),
    spend_limits: {
      rules: [
        { name: 'one-at-once', scope: 'user', concurrency: 1, when: { '===': [{ var: 'principal.team' }, 'red'] } },
      ],
    },
  },
);

const [first, ...rest] = messageEvents();

/** Says something at once, and the end of it when it is told. */
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
}

async function costs(user: string): Promise<unknown[]> {
  const rows = (await ledgerRows(gateway.database)).filter(({ user_email }) => user_email === user);
  return rows.map(({ provenance }) => provenance.cost);
}

test('the next request waits a moment for an answer that nobody waits for', async () => {
  const token = await gateway.newToken({ user: 'quick@example.com', team: 'red' });
  const end = Promise.withResolvers<void>();
  upstream.script = endsWhen(end.promise);
  await leave(token);
  upstream.script = endsWhen(Promise.resolve());
  const next = send(gateway.url, asking(token));
  setTimeout(end.resolve, 50);
  assert.equal((await next).status, 200, (await next).text);
  await until('both are settled', async () => (await costs('quick@example.com')).length === 2);
  assert.deepEqual(await costs('quick@example.com'), ['upstream', 'upstream']);
});

for (const [what, team, at_once] of [
  ['a limit on requests at once', 'red', 1],
  ['requests_per_principal', undefined, 2],
] as const) {
  test(`under ${what} an answer that is read on too long gives way, and is charged what such requests cost`, async () => {
    const user = `slow-${at_once}@example.com`;
    const token = await gateway.newToken({ user, ...(team && { team }) });
    let closed = 0;
    upstream.script = endsWhen(new Promise(() => {}), () => closed++);
    for (let i = 0; i < at_once; i++) await leave(token);
    upstream.script = endsWhen(Promise.resolve());
    const response = await send(gateway.url, asking(token));
    assert.equal(response.status, 200, response.text);
    await until('the upstream knows', () => closed === 1);
    await until('both are settled', async () => (await costs(user)).length === 2);
    assert.deepEqual((await costs(user)).toSorted(), ['most', 'upstream']);
  });
}

test('an answer that somebody waits for gives no way', async () => {
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
