/** The resources one caller can occupy: bodies in memory, requests and connections, by any number of tokens. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { beforeEach, describe, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { grantLimit } from '../../../engine/domain/budget/limits/limit-settings.ts';
import { bootGateway, serverSection } from '../../support/gateway.ts';
import { hang } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { ask, bearer, collect, connect, messagesBody, open, parseRaw, send } from '../support/client.ts';
import { auditRecord } from '../support/state.ts';
import { useUpstream } from '../support/use-gateway.ts';

const MB = 1024 * 1024;
/** One body of the largest size is a caller's share. */
const LIMITS = {
  body_bytes: 2 * MB,
  buffered_bytes: 8 * MB,
  requests_per_principal: 6,
  connections: 60,
  connections_per_principal: 3,
};

const sockets: Socket[] = [];

const upstream = useUpstream();
const gateway = use(
  () => {
    const when = { in: [{ var: 'principal.email' }, ['two@example.com', 'more@example.com']] };
    const rules = [{ name: 'parallel', when, scope: 'user', concurrency: 2 }];
    const config = { server: serverSection({ limits: LIMITS }), spend_limits: { rules } };
    return bootGateway({ upstream_url: upstream.url, config });
  },
  async ({ close }) => {
    for (const socket of sockets.splice(0)) socket.destroy();
    // First, since the gateway waits for its silent upstream.
    await upstream.close();
    await close();
  },
);
beforeEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

const head = (token: string, framing: string) =>
  `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`;

/** Begins a request whose body never ends. */
async function unfinished(token: string, length: number) {
  const socket = await connect(gateway.url);
  sockets.push(socket);
  const received = collect(socket);
  socket.write(`${head(token, `content-length: ${length}`)}{"model": "coder-1", `);
  return { socket, received };
}

type Unfinished = Awaited<ReturnType<typeof unfinished>>;

const responses = (all: readonly Unfinished[]) =>
  all.map(({ received }) => received.text()).filter((text) => text.includes('\r\n\r\n'));

const errorOf = (raw: string) => {
  const response = parseRaw(raw);
  return { status: response.status, headers: response.headers, ...JSON.parse(response.body).error };
};

describe('unfinished bodies of one caller', () => {
  test('use no more than a share of the memory, with all tokens; other callers are unaffected', async () => {
    const user = 'greedy@example.com';
    const tokens = [await gateway.newToken({ user }), await gateway.newToken({ user, name: 'another' })];
    const many = await Promise.all(Array.from({ length: 5 }, (_, i) => unfinished(tokens[i % 2]!, LIMITS.body_bytes)));
    const refused = await until('all but one are rejected', () => responses(many).length === 4 && responses(many));
    for (const raw of refused) {
      const { status, type, code, limit, unit, headers } = errorOf(raw);
      assert.deepEqual([status, type, code], [429, 'rate_limit_error', 'rate_limit_exceeded']);
      assert.deepEqual([limit, unit, headers['retry-after']], [2 * MB, 'bytes', '3']);
    }
    const others = await Promise.all([1, 2, 3].map((n) => gateway.newToken({ user: `honest-${n}@example.com` })));
    const served = await Promise.all(others.map((token) => ask(gateway.url, token, { note: 'x'.repeat(1.5 * MB) })));
    const statuses = served.map(({ status }) => status);
    assert.deepEqual(statuses, [200, 200, 200]);
    for (const { socket } of many) socket.destroy();
    await until('the share is free again', async () => {
      const response = await ask(gateway.url, tokens[0]!, { note: 'x'.repeat(1.5 * MB) });
      return response.status === 200;
    });
  });

  test('are no more than requests_per_principal, however small', async () => {
    const token = await gateway.newToken({ user: 'busy@example.com' });
    const many = await Promise.all(Array.from({ length: 9 }, () => unfinished(token, 1000)));
    const refused = await until('three are rejected', () => responses(many).length === 3 && responses(many));
    const { status, code, limit, unit } = errorOf(refused[0]!);
    assert.deepEqual([status, code, limit, unit], [429, 'rate_limit_exceeded', 6, 'requests']);
    assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  });

  test('count against a limit on requests at once before they are read', async () => {
    const token = await gateway.newToken({ user: 'two@example.com' });
    const many = await Promise.all(Array.from({ length: 5 }, () => unfinished(token, 100_000)));
    const refused = await until('three are rejected', () => responses(many).length === 3 && responses(many));
    for (const raw of refused) {
      const { status, code, rule, limit, in_flight, window, scope, key, message: text } = errorOf(raw);
      assert.deepEqual([status, code, rule], [429, 'rate_limit_exceeded', 'parallel']);
      assert.deepEqual([limit, in_flight, window, scope, key], [2, 2, 'open', 'user', 'two@example.com']);
      assert.match(text, /2 requests at once for user two@example.com is reached.* Spend rule parallel: 2 requests/);
    }
    const { record } = await auditRecord(gateway.database, parseRaw(refused[0]!).headers['x-gateway-request-id']!);
    const { spend_rule, stage } = record as Record<string, unknown>;
    assert.deepEqual([spend_rule, stage], ['parallel', 'read-body']);
    for (const { socket } of many) socket.destroy();
    for (let i = 0; i < 5; i++) {
      await until('requests one after the other pass', async () => (await ask(gateway.url, token)).status === 200);
    }
  });

  test('count against it as it was raised at run time', async () => {
    const user = 'more@example.com';
    const token = await gateway.newToken({ user });
    const by = { database: gateway.database, clock: systemClock, actor: { kind: 'command', name: 'test' } } as const;
    const name = { scope: 'user', key: user, window: 'open', unit: 'requests' } as const;
    await grantLimit(by, { name, amount: 2, expires_at: new Date(Date.now() + 3_600_000) });
    upstream.script = hang;
    const served = Array.from({ length: 4 }, () => open(gateway.url, { headers: bearer(token), body: messagesBody() }));
    await upstream.arrived(4);
    const refused = await ask(gateway.url, token);
    assert.deepEqual([refused.status, refused.json().error.limit], [429, 4]);
    for (const { abort } of served) abort();
  });
});

describe('connections', () => {
  test('of one caller beyond connections_per_principal are closed after their response', async () => {
    const token = await gateway.newToken({ user: 'connected@example.com' });
    const kept: string[] = [];
    for (let i = 0; i < 5; i++) {
      const socket = await connect(gateway.url);
      sockets.push(socket);
      const received = collect(socket);
      const body = messagesBody();
      socket.write(`${head(token, `content-length: ${body.length}`)}${body}`);
      await until('there is a response', () => received.text().includes('"usage"'));
      kept.push(parseRaw(received.text()).headers.connection!);
    }
    assert.deepEqual(kept, ['keep-alive', 'keep-alive', 'keep-alive', 'close', 'close']);
  });

  test('beyond the total get 503', async () => {
    for (let i = 0; i < 70; i++) sockets.push(await connect(gateway.url));
    const socket = await connect(gateway.url);
    const { status, code, type } = errorOf(await collect(socket).closed);
    assert.deepEqual([status, code, type], [503, 'overloaded', 'overloaded_error']);
    for (const each of sockets.splice(0)) each.destroy();
    await until(
      'there is capacity again',
      async () =>
        (await send(gateway.url, { headers: bearer(gateway.token), body: messagesBody() }).catch(() => ({ status: 0 })))
          .status === 200,
    );
  });
});
