/**
 * Clients that leave early: the response is read on for its bill, at any moment, or settled at no less. Failures of the
 * upstream meanwhile are the upstream's.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { Clock } from '../../../engine/base/contract/services.ts';
import { frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import { bootGateway, type ConfigSections, serverSection } from '../../support/gateway.ts';
import { type Answer, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import {
  EVENT_STREAM,
  type Exchange,
  messageEvents,
  type Script,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { randomOf } from '../../support/random.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { connect, open, type Response, send } from '../support/client.ts';
import { askBody, modelVia, nineConfig, PRICING, sending } from '../support/nine.ts';
import { auditRecord, type LedgerRow, ledgerRow, ledgerRows, nothingReserved, reserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The hidden part of the response: reasoning on the bill. */
const HIDDEN = 9000;
const ANSWER: Answer = {
  said: [
    { kind: 'text', text: 'A word, and then thought.' },
    { kind: 'call', name: 'read', arguments: '{"path":"/a"}' },
  ],
  used: { input: 1003, output: HIDDEN, cache_read: 50_000, cache_write: 0, reasoning: HIDDEN - 20 },
};
/** A time limit that nothing else has. */
const LIMIT_SECONDS = 123;
/** 1003 x 3000 + 50000 x 300 + 9000 x 15000 */
const BILL = 153_009_000;

const { upstream, gateway } = useGateway((url) => {
  const nine = nineConfig(url) as { upstreams: object[]; routing: { rules: object[] } };
  const cancelling = { ...nine.upstreams[1], name: 'cancel-chat', on_client_abort: 'cancel' };
  const rules = [{ name: 'cancelled', models: ['budget-1'], upstream: 'cancel-chat' }, ...nine.routing.rules];
  return {
    ...nine,
    server: serverSection({ timeouts: { commit_seconds: 0 } }),
    upstreams: [...nine.upstreams, cancelling],
    routing: { ...nine.routing, rules },
  };
});

/** Responds in parts; before each of them `step` is awaited. */
function inParts(steps: readonly Promise<unknown>[], encoding?: 'gzip'): Script {
  return async (exchange) => {
    const stream = JSON.parse(exchange.received.body.toString()).stream === true;
    const whole = stream ? eventsOf('messages', ANSWER).join('') : JSON.stringify(documentOf('messages', ANSWER));
    const bytes = Buffer.from(whole);
    const share = Math.ceil(bytes.length / Math.max(1, steps.length));
    // Each part is readable at once.
    const compress = encoding === 'gzip' ? gzipSync : (part: Buffer) => part;
    const { res } = exchange;
    for (const [index, step] of steps.entries()) {
      await step;
      if (!res.headersSent) {
        const type = stream ? [...EVENT_STREAM] : ['content-type', 'application/json'];
        res.writeHead(200, encoding === undefined ? type : [...type, 'content-encoding', encoding]);
      }
      res.write(compress(bytes.subarray(index * share, (index + 1) * share)));
    }
    res.end();
  };
}

/** The row that is new once `act` is through. */
async function newRow(act: () => Promise<unknown>): Promise<LedgerRow> {
  // The row of the test before may still be on its way.
  await nothingReserved(gateway.database);
  const known = new Set((await ledgerRows(gateway.database)).map(({ request_id }) => request_id));
  await act();
  return await until('the request is settled', async () =>
    (await ledgerRows(gateway.database)).find(({ request_id }) => !known.has(request_id)),
  );
}

async function assertDrained(row: LedgerRow, { aborted = true, database = gateway.database } = {}): Promise<void> {
  assert.deepEqual([row.cost_nano_usd, row.provenance.cost, row.aborted], [BILL, 'upstream', aborted]);
  const { record } = (await auditRecord(database, row.request_id)) as { record: Record<string, unknown> };
  assert.equal(record.aborted, aborted);
  // Absent where the response was complete before the gateway heard of it.
  assert.notEqual(record.drained, false);
  await nothingReserved(database);
}

const bodyOf = (stream: boolean): string =>
  JSON.stringify(askBody('messages', modelVia('messages'), 'Hi', { stream, max_tokens: 20_000 }));

describe('a client that leaves', () => {
  test('a compressed response pays it', async () => {
    const left = Promise.withResolvers<void>();
    upstream.script = inParts([Promise.resolve(), left.promise], 'gzip');
    const row = await newRow(async () => {
      const asked = open(gateway.url, sending('messages', gateway.token, bodyOf(true)));
      for await (const _ of await asked.head) break;
      asked.abort();
      left.resolve();
    });
    await assertDrained(row);
  });

  test('under backpressure, with a paused upstream, pays the whole response', async () => {
    const delta = { type: 'text_delta', text: 'x'.repeat(1_000_000) };
    const long = sse({ type: 'content_block_delta', index: 0, delta });
    const events = eventsOf('messages', ANSWER);
    upstream.script = async ({ res }) => {
      res.writeHead(200, [...EVENT_STREAM]);
      for (const event of events.toSpliced(2, 0, ...Array<string>(28).fill(long))) {
        if (!res.write(event)) await new Promise((resolve) => res.once('drain', resolve));
      }
      res.end();
    };
    const row = await newRow(async () => {
      const body = bodyOf(true);
      const socket = await connect(gateway.url);
      const { path, headers } = sending('messages', gateway.token, '');
      const lines = headers.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
      socket.pause();
      socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\n${lines}content-length: ${body.length}\r\n\r\n${body}`);
      await until('the upstream got the request', () => upstream.requests.length === 1);
      await until('the response waits in the socket', () => socket.readableLength > 0 || socket.bytesRead > 0);
      socket.destroy();
    });
    await assertDrained(row);
  });
});

test('a response after the first-byte limit is 504 for the client and on its bill in full', async () => {
  const asked = Promise.withResolvers<void>();
  const late = Promise.withResolvers<void>();
  const answer = inParts([late.promise]);
  upstream.script = (exchange) => {
    asked.resolve();
    return answer(exchange);
  };
  // The limit is reached at once after the request; what is read after that has unlimited time.
  let is_reached = false;
  const inTime: Clock['after'] = (ms, task) => {
    if (ms !== LIMIT_SECONDS * 1000 || is_reached) return systemClock.after(ms, task);
    is_reached = true;
    const timer = systemClock.after(ms, task);
    void asked.promise.then(() => {
      timer.close();
      task();
    });
    return timer;
  };
  const timeouts = { first_byte_seconds: LIMIT_SECONDS, non_streaming_first_byte_seconds: LIMIT_SECONDS };
  const config = { ...nineConfig(upstream.url), server: serverSection({ timeouts }) };
  const impatient = await bootGateway({ upstream_url: upstream.url, config, clock: { ...systemClock, after: inTime } });
  const { url, token, database } = impatient;
  try {
    const response = await send(url, sending('messages', token, bodyOf(false)));
    assert.equal(response.status, 504, response.text);
    assert.equal((await reserved(database)).reservations, 1, 'it is under way as long as it may cost something');
    late.resolve();
    const row = await ledgerRow(database, String(response.headers['x-gateway-request-id']));
    await assertDrained(row, { aborted: false, database });
  } finally {
    late.resolve();
    await impatient.close();
  }
});

const asking = (model: string, stream: boolean) =>
  sending('chat', gateway.token, JSON.stringify(askBody('chat', model, 'Hi', { stream })));

function assertOwedByNobody({ cost_nano_usd, provenance }: LedgerRow): void {
  assert.equal(cost_nano_usd, 0);
  assert.ok(Number(provenance.possibly_billed_nano_usd) > 0, JSON.stringify(provenance));
}

test('an upstream that fails in the middle of a stream costs a leaver nothing, and is recorded apart', async () => {
  const left = Promise.withResolvers<void>();
  upstream.script = async ({ res, socket }) => {
    res.writeHead(200, [...EVENT_STREAM]);
    res.write(': working\n\n');
    await left.promise;
    socket.resetAndDestroy();
  };
  const row = await newRow(async () => {
    const asked = open(gateway.url, asking(modelVia('chat'), true));
    for await (const _ of await asked.head) break;
    asked.abort();
    await until('it is reserved', async () => (await reserved(gateway.database)).reservations === 1);
    left.resolve();
  });
  assert.equal(row.aborted, true);
  assertOwedByNobody(row);
});

test('a stream of comments and nothing else costs who stayed nothing', async () => {
  upstream.script = ({ res }) => {
    res.writeHead(200, [...EVENT_STREAM]);
    res.end(': working\n\n: working\n\n');
  };
  assertOwedByNobody(await newRow(() => send(gateway.url, asking(modelVia('chat'), true))));
});

test('leaving a cancelled chat after its last word, before its usage, costs the typical amount', async () => {
  upstream.script = async ({ res }) => {
    res.writeHead(200, [...EVENT_STREAM]);
    const choices = [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }];
    res.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'm', choices })}\n\n`);
  };
  const row = await newRow(async () => {
    const asked = open(gateway.url, asking('budget-1', true));
    for await (const _ of await asked.head) break;
    asked.abort();
  });
  assert.equal(row.provenance.cost, 'most');
  assert.ok(row.cost_nano_usd > 100_000_000, String(row.cost_nano_usd));
});

const LEAVERS = times(200);
const AT_ONCE = 40;
const MAX_TOKENS = 20_000;
/** USD per token, and the maximum cost of 20,000 tokens out and 600 bytes in: no request can be off by more. */
const OFF_BY_AT_MOST_USD = (MAX_TOKENS * PRICING.output + 600 * PRICING.cache_write_1h) / 1e6;

interface Billed {
  requests: number;
  usd: number;
}

const { upstream: provider, gateway: crowded } = useGateway(config);
/** By the first letters of the path. */
const bills: Record<'drain' | 'cancel', Billed> = { drain: { requests: 0, usd: 0 }, cancel: { requests: 0, usd: 0 } };

/** Whole numbers below another one. */
function diceOf(name: string): (below: number) => number {
  const random = randomOf(name);
  return (below) => Math.floor(random() * below);
}

/** Says a few words and calls a tool; most of what it bills is hidden reasoning. */
async function answer({ received, res }: Exchange): Promise<void> {
  const url = received.url;
  const protocol: Protocol = url.includes('messages') ? 'messages' : url.includes('chat') ? 'chat' : 'responses';
  const random = diceOf(`answer ${provider.requests.length}`);
  const thought = random(9000);
  const used = { input: 40 + random(60), output: 30 + thought, cache_read: 0, cache_write: 0, reasoning: thought };
  const bill = bills[url.startsWith('/cancel') ? 'cancel' : 'drain'];
  bill.requests++;
  bill.usd += (used.input * 3 + used.output * 15) / 1e6;
  const { said } = ANSWER;
  const stream = JSON.parse(received.body.toString()).stream === true;
  const parts = stream ? eventsOf(protocol, { said, used }) : [JSON.stringify(documentOf(protocol, { said, used }))];
  for (let i = random(4); i > 0; i--) await new Promise((resolve) => setImmediate(resolve));
  res.writeHead(200, stream ? [...EVENT_STREAM] : ['content-type', 'application/json']);
  for (const part of parts) {
    res.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
  res.end();
}

function config(url: string): ConfigSections {
  const key = { api_key_env: 'TEST_UPSTREAM_KEY' };
  const modes = ['drain', 'cancel'] as const;
  const each = modes.flatMap((mode) => PROTOCOLS.map((protocol) => ({ mode, protocol, name: `${mode}-${protocol}` })));
  return {
    ...nineConfig(url),
    upstreams: each.map(({ mode, protocol, name }) => ({
      name,
      ...(protocol === 'messages' ? { type: 'vendor' } : { type: 'compat', protocols: [protocol] }),
      base_url: `${url}/${mode}`,
      on_client_abort: mode,
      ...key,
    })),
    models: each.map(({ name }) => ({
      id: name,
      context_window: 200_000,
      max_output_tokens: MAX_TOKENS,
      pricing: PRICING,
    })),
    routing: {
      default_upstream: 'drain-messages',
      rules: each.map(({ name }) => ({ name, models: [name], upstream: name })),
    },
  };
}

/** Sends a request, and leaves at some moment: before the response, or after so many bytes of it, which may be all. */
async function leaveEarly(number: number): Promise<void> {
  const random = diceOf(`leaver ${number}`);
  const spoken = PROTOCOLS[random(3)]!;
  const protocol = PROTOCOLS[random(3)]!;
  const stream = random(3) > 0;
  const body = askBody(spoken, `${number % 2 === 0 ? 'drain' : 'cancel'}-${protocol}`, 'Hi', {
    stream,
    ...(spoken === 'messages' && { max_tokens: MAX_TOKENS }),
    ...(spoken === 'chat' && stream && { stream_options: { include_usage: true } }),
  });
  const asked = open(crowded.url, sending(spoken, crowded.token, JSON.stringify(body)));
  if (random(4) === 0) {
    for (let i = random(40); i > 0; i--) await new Promise((resolve) => setImmediate(resolve));
    asked.abort();
    await asked.head.catch(() => {});
    return;
  }
  let left = random(4000);
  const head = await asked.head;
  head.on('error', () => {});
  try {
    for await (const chunk of head) {
      left -= chunk.length;
      if (left <= 0) break;
    }
  } catch {}
  asked.abort();
}

/**
 * In three protocols, streamed or not, at upstreams whose responses are read on or cancelled. The provider bills every response in full,
 * read or unread, by rules that are written down here.
 */
describe('a crowd of early leavers', () => {
  test('is charged at least what the provider bills, and no more than check allows', async () => {
    provider.script = answer;
    let next = 0;
    const leave = async () => {
      while (next < LEAVERS) await leaveEarly(next++);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, leave));
    await nothingReserved(crowded.database);
    const rows = await ledgerRows(crowded.database);
    assert.equal(rows.length, bills.drain.requests + bills.cancel.requests, 'a row for each that reached the provider');
    assert.ok(rows.some(({ aborted }) => aborted));
    const charged = (mode: string) =>
      rows.filter((row) => row.upstream.startsWith(mode)).reduce((sum, row) => sum + row.cost_nano_usd, 0) / 1e9;
    assert.ok(Math.abs(charged('drain') - bills.drain.usd) < 1e-6, `${charged('drain')} of ${bills.drain.usd} USD`);
    const unknown = rows.filter(({ provenance }) => provenance.cost !== 'upstream');
    assert.ok(
      unknown.length > 0 && unknown.every((row) => row.upstream.startsWith('cancel')),
      `${unknown.length} unknown`,
    );
    assert.ok(charged('cancel') >= bills.cancel.usd, `${charged('cancel')} of ${bills.cancel.usd} USD`);
    assert.ok(charged('cancel') - bills.cancel.usd <= unknown.length * OFF_BY_AT_MOST_USD);
  });
});

/** A client that leaves early, as coding clients do after every tool call, is not blocked by responses read on for the bill. */
describe('the place of a client that left', () => {
  /** So long a request waits for a place that somebody who left has. */
  const TIMEOUT_MS = 1000;
  /** After so long at most the gateway reads what has come of a stream, for its bill. */
  const READ_MS = 200;

  const clock = frozenClock(Date.now());

  const rules = [
    { name: 'one-at-once', scope: 'user', concurrency: 1, when: { '===': [{ var: 'principal.team' }, 'red'] } },
    { name: 'one-of-team', scope: 'team', concurrency: 1, when: { '===': [{ var: 'principal.team' }, 'blue'] } },
  ];
  const { upstream, gateway } = useGateway(
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
});
