import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { type EmbeddedPostgres, openEmbeddedPostgres } from '../../engine/services/embedded-postgres.ts';
import { bootGateway, serverSection, type TestGateway } from '../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  type ScriptedUpstream,
  startUpstream,
} from '../support/scripted-upstream.ts';
import { until } from '../support/until.ts';
import { ask, bearer, messagesBody, open, type Response, readAll, send } from './client.ts';
import { ledgerRow, ledgerRows, nothingHeld } from './state.ts';
import { startRelay, type TcpRelay } from './tcp-relay.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

let directory: string;
let postgres: EmbeddedPostgres;
let relay: TcpRelay;
let upstream: ScriptedUpstream;
let gateway: TestGateway;

async function startPostgres(): Promise<void> {
  const settings = { fsync: 'off' };
  const data_dir = join(directory, 'postgres');
  postgres = await openEmbeddedPostgres({ data_dir, log: quiet, supervise: false, settings });
  if (relay !== undefined) relay.target_port = postgres.settings().port;
}

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'appscli-outage-'));
  // As root, PostgreSQL runs under another account, which has to get in.
  await chmod(directory, 0o711);
  await startPostgres();
  const { user, password, port, database } = postgres.settings();
  relay = await startRelay(port);
  upstream = await startUpstream();
  gateway = await bootGateway({
    upstream_url: upstream.url,
    database_url: `postgres://${user}:${password}@127.0.0.1:${relay.port}/${database}`,
    config: {
      server: serverSection({}),
      spend_limits: { defaults: { user_daily_usd: 100 }, on_exceeded: 'deny' },
    },
  });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await relay?.close();
  await postgres?.close();
  await rm(directory, { recursive: true, force: true });
});
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.script = answerJson(message());
});

const get = (path: string) => send(gateway.url, { method: 'GET', path });

function assertStoreError(response: Response): void {
  assert.equal(response.status, 503, response.text);
  const { type, error } = response.json();
  assert.deepEqual([type, error.type, error.code], ['error', 'api_error', 'store_unavailable']);
  assert.equal(response.headers['x-should-retry'], 'true');
  assert.doesNotMatch(response.text, /postgres:|ECONN|127\.0\.0\.1|password/i);
}

async function servesAgain(): Promise<void> {
  await until('the gateway is ready', async () => (await get('/readyz')).status === 200);
  await until('the gateway serves', async () => (await ask(gateway.url, gateway.token)).status === 200);
}

test('a stopped database is 503 for every caller, known or new, never 401; a started one is used again', async () => {
  const fresh = await gateway.newToken({ user: 'fresh@example.com' });
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  await postgres.close();
  upstream.requests.length = 0;

  const ready = await until('/readyz says so', async () => {
    const response = await get('/readyz');
    return response.status === 503 && response;
  });
  ready.json();
  assert.equal((await get('/healthz')).status, 200, 'the process itself is well');
  for (let round = 0; round < 3; round++) {
    assertStoreError(await ask(gateway.url, gateway.token));
    assertStoreError(await ask(gateway.url, fresh));
  }
  const counting = { path: '/v1/messages/count_tokens', headers: bearer(fresh), body: messagesBody() };
  const counted = await send(gateway.url, counting);
  assert.notEqual(counted.status, 401);
  assert.equal(upstream.requests.length, 0, 'nothing is forwarded without a reservation');

  await startPostgres();
  await servesAgain();
  assert.equal((await ask(gateway.url, fresh)).status, 200);
  await nothingHeld(gateway.database);
});

test('requests under way when the database stops are finished, and settled when it is back', async () => {
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
  await postgres.close();
  finish?.();
  const whole = await readAll(response);
  assert.equal(whole.text, events.join(''), 'the stream is whole');
  upstream.script = answerJson(message());

  await startPostgres();
  await servesAgain();
  const row = await ledgerRow(gateway.database, String(whole.headers['x-gateway-request-id']));
  assert.deepEqual([row.input_tokens, row.output_tokens, row.aborted], [100, 40, false]);
  await nothingHeld(gateway.database);
});

test('many requests during a restart are each answered 200 or 503, and every forwarded one has one row', async () => {
  const rows_before = new Set((await ledgerRows(gateway.database)).map(({ request_id }) => request_id));
  const statuses: number[] = [];
  const served: string[] = [];
  let running = true;
  const callers = Array.from({ length: 8 }, async () => {
    while (running) {
      const response = await ask(gateway.url, gateway.token);
      statuses.push(response.status);
      if (response.status === 200) served.push(String(response.headers['x-gateway-request-id']));
      else assertStoreError(response);
    }
  });
  await until('requests flow', () => served.length > 20);
  await postgres.close();
  await until('the outage is felt', () => statuses.includes(503));
  await startPostgres();
  const before_recovery = served.length;
  await until('requests flow again', () => served.length > before_recovery + 20);
  running = false;
  await Promise.all(callers);
  assert.deepEqual([...new Set(statuses)].sort(), [200, 503]);

  await nothingHeld(gateway.database);
  const seen = upstream.requests.length;
  const rows = await until('all are settled', async () => {
    const found = (await ledgerRows(gateway.database)).filter(({ request_id }) => !rows_before.has(request_id));
    return found.length >= seen && found;
  });
  const ids = rows.map(({ request_id }) => request_id);
  assert.equal(new Set(ids).size, ids.length, 'no request has two rows');
  for (const id of served) assert.ok(ids.includes(id), `request ${id} was served and has no row`);
});

test('a database that has fallen silent is 503 within seconds, not a hang', async () => {
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  await nothingHeld(gateway.database);
  relay.fallSilent();
  try {
    const started = performance.now();
    const responses = await Promise.all([ask(gateway.url, gateway.token), get('/readyz')]);
    const seconds = (performance.now() - started) / 1000;
    assertStoreError(responses[0]);
    assert.equal(responses[1].status, 503);
    assert.ok(seconds < 8, `it took ${seconds.toFixed(1)} s`);
  } finally {
    relay.speakAgain();
  }
  await servesAgain();
  await nothingHeld(gateway.database);
});
