/**
 * Clients that leave early: the response is read on for its bill, at any moment, or settled at no less. Failures of the
 * upstream meanwhile are the upstream's.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { Clock } from '../../../engine/base/contract/services.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { bootGateway, serverSection, type TestGateway } from '../../support/gateway.ts';
import { type Answer, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import {
  EVENT_STREAM,
  type Exchange,
  type Script,
  type ScriptedUpstream,
  sse,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { connect, open, send } from '../support/client.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, sending } from '../support/nine.ts';
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

let upstream: ScriptedUpstream;
let gateway: TestGateway;

useGateway(
  (opened) => {
    ({ upstream, gateway } = opened);
  },
  (url) => {
    const nine = nineConfig(url) as { upstreams: object[]; routing: { rules: object[] } };
    const cancelling = { ...nine.upstreams[1], name: 'cancel-chat', on_client_abort: 'cancel' };
    const rules = [{ name: 'cancelled', models: ['budget-1'], upstream: 'cancel-chat' }, ...nine.routing.rules];
    return {
      ...nine,
      server: serverSection({ timeouts: { commit_seconds: 0 } }),
      upstreams: [...nine.upstreams, cancelling],
      routing: { ...nine.routing, rules },
    };
  },
);

const protocolOf = ({ received }: Exchange): Protocol =>
  received.url.includes('messages') ? 'messages' : received.url.includes('chat') ? 'chat' : 'responses';

/** Responds in parts; before each of them `step` is awaited. */
function inParts(steps: readonly Promise<unknown>[], encoding?: 'gzip'): Script {
  return async (exchange) => {
    const protocol = protocolOf(exchange);
    const stream = JSON.parse(exchange.received.body.toString()).stream === true;
    const whole = stream ? eventsOf(protocol, ANSWER).join('') : JSON.stringify(documentOf(protocol, ANSWER));
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

const bodyOf = (spoken: Protocol, protocol: Protocol, stream: boolean): string =>
  JSON.stringify(
    askBody(spoken, modelVia(protocol), 'Hi', {
      stream,
      ...(spoken === 'messages' && { max_tokens: 20_000 }),
      ...(spoken === 'chat' && stream && { stream_options: { include_usage: true } }),
    }),
  );

describe('a client that leaves', () => {
  for (const [spoken, protocol] of COMBINATIONS) {
    test(`${spoken} at a ${protocol} upstream in the middle of a stream pays the whole response`, async () => {
      const left = Promise.withResolvers<void>();
      upstream.script = inParts([Promise.resolve(), left.promise]);
      const row = await newRow(async () => {
        const asked = open(gateway.url, sending(spoken, gateway.token, bodyOf(spoken, protocol, true)));
        for await (const _ of await asked.head) break;
        asked.abort();
        await until('the gateway knows', async () => (await reserved(gateway.database)).reservations === 1);
        left.resolve();
      });
      await assertDrained(row);
    });
  }

  for (const protocol of PROTOCOLS) {
    for (const stream of [true, false]) {
      test(`${protocol} ${stream ? 'streamed' : 'unstreamed'} before the first byte pays it all`, async () => {
        const left = Promise.withResolvers<void>();
        upstream.script = inParts([left.promise]);
        const row = await newRow(async () => {
          const asked = open(gateway.url, sending(protocol, gateway.token, bodyOf(protocol, protocol, stream)));
          await upstream.arrived(1);
          asked.abort();
          await asked.head.catch(() => {});
          left.resolve();
        });
        await assertDrained(row);
      });
    }
  }

  test('a compressed response pays it', async () => {
    const left = Promise.withResolvers<void>();
    upstream.script = inParts([Promise.resolve(), left.promise], 'gzip');
    const row = await newRow(async () => {
      const asked = open(gateway.url, sending('messages', gateway.token, bodyOf('messages', 'messages', true)));
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
      const body = bodyOf('messages', 'messages', true);
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
    const response = await send(url, sending('messages', token, bodyOf('messages', 'messages', false)));
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

describe('an upstream that fails after the client left', () => {
  const failures: [string, boolean, (exchange: Exchange, left: Promise<void>) => Promise<void>][] = [
    [
      'before it answers',
      false,
      async ({ socket }, left) => {
        await left;
        socket.resetAndDestroy();
      },
    ],
    [
      'in the middle of a stream',
      true,
      async ({ res, socket }, left) => {
        res.writeHead(200, [...EVENT_STREAM]);
        res.write(': working\n\n');
        await left;
        socket.resetAndDestroy();
      },
    ],
    [
      'by ending a stream in which it said nothing',
      true,
      async ({ res }, left) => {
        res.writeHead(200, [...EVENT_STREAM]);
        res.write(': working\n\n');
        await left;
        res.end();
      },
    ],
  ];
  for (const [when, stream, fail] of failures) {
    test(`${when} costs the leaver nothing, and is recorded apart`, async () => {
      const left = Promise.withResolvers<void>();
      upstream.script = (exchange) => fail(exchange, left.promise);
      const row = await newRow(async () => {
        const seen = upstream.requests.length;
        const asked = open(gateway.url, asking(modelVia('chat'), stream));
        if (stream) for await (const _ of await asked.head) break;
        else await upstream.arrived(seen + 1);
        asked.abort();
        await asked.head.catch(() => {});
        await until('it is reserved', async () => (await reserved(gateway.database)).reservations === 1);
        left.resolve();
      });
      assert.equal(row.aborted, true);
      assertOwedByNobody(row);
    });
  }
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
