/** Failures that are harder to see: no connection of other kinds, errors inside responses, responses that are early or stop. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { serverSection } from '../../support/gateway.ts';
import {
  answers,
  errorEvent,
  eventsBy,
  hangs,
  inTurn,
  type Play,
  resets,
  servedBy,
  serves,
  USED,
} from '../../support/model-provider/fault-server.ts';
import { documentOf } from '../../support/model-provider/model-provider.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { startDeafServer } from '../lifecycle/deaf-server.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { bearer, messagesBody, type Response, send } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { nothingReserved } from '../support/state.ts';
import { errorsIn } from './scene.ts';
import { faultsInBooks, openSeveral, type Several } from './several.ts';

/** Nothing else waits for so long. */
const CONNECT_SECONDS = 41;
const FIRST_BYTE_SECONDS = 43;
/** A stream pauses for longer than it may be silent. */
const server = serverSection({
  timeouts: { connect_seconds: CONNECT_SECONDS, first_byte_seconds: FIRST_BYTE_SECONDS, commit_seconds: 300 },
});

/** Every attempt of a request: upstream, outcome, why it continued, how often it was sent. */
async function attemptsOf(several: Several, got: Response): Promise<string[]> {
  await nothingReserved(several.gateway.database);
  const found = await several.attempts(String(got.headers['x-gateway-request-id']));
  return found.map(
    ({ upstream, certainty, status, reason, sends }) => `${upstream} ${certainty} ${status} ${reason} ${sends}`,
  );
}

describe('an upstream without a possible connection', () => {
  test('because it is deaf, unknown or speaks no TLS gets nothing, and the next one serves', async () => {
    const deaf = await startDeafServer();
    const plain = await startUpstream();
    const clock = movableClock();
    const several = await openSeveral({
      count: 4,
      clock,
      each: {
        a: { base_url: deaf.url },
        b: { base_url: 'https://no-such-host.invalid' },
        c: { base_url: plain.url.replace('http:', 'https:') },
      },
      config: { server },
    });
    try {
      const asking = several.ask('s1');
      await until('it tries to connect', () => clock.begun(CONNECT_SECONDS * 1000) > 0);
      clock.advance(CONNECT_SECONDS * 1000);
      const got = await asking;
      assert.equal(textIn('messages', got.json()), servedBy('d'));
      assert.deepEqual(await attemptsOf(several, got), [
        'a not_sent null next_unreachable 0',
        'b not_sent null next_unreachable 0',
        'c not_sent null next_unreachable 0',
        'd answered 200 served 1',
      ]);
      assert.equal(plain.requests.length, 0);
    } finally {
      await several.close();
      await plain.close();
      deaf.close();
    }
  });
});

describe('an upstream', () => {
  const clock = movableClock();
  let several: Several;
  before(async () => {
    several = await openSeveral({
      count: 2,
      clock,
      upstreams: { breaker: { mode: 'off' }, supports: { count_tokens: true } },
      config: { server },
    });
  });
  after(async () => {
    assert.deepEqual(await faultsInBooks(several), {});
    await several.close();
  });
  beforeEach(() => several.forget());

  const stream = (...parts: readonly (string | Buffer)[]): Play => {
    return async ({ res }) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const part of parts) {
        await new Promise<void>((sent) => res.write(part, () => sent()));
        await new Promise((resolve) => setImmediate(resolve));
      }
      res.end();
    };
  };
  /** Passes the time for a response that an upstream has begun to wait for. */
  const passTime = async (upstream: number) => {
    await until('it gets a request', () => several.counts()[upstream]! > 0);
    clock.advance(FIRST_BYTE_SECONDS * 1000);
  };
  const failed = errorEvent('messages', { status: 500, message: 'Failed' });
  const half = Math.floor(failed.length / 2);

  const FIRST: Readonly<Record<string, Play>> = {
    'in two pieces': stream(failed.slice(0, half), failed.slice(half)),
    'with other line ends and a byte order mark': stream(`\ufeff${failed.replaceAll('\n', '\r\n')}`),
    compressed: ({ res }) => {
      res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
      res.end(gzipSync(failed));
    },
    'in a document with status 200': ({ res }) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end('{"type":"error","error":{"type":"api_error","message":"Internal"}}');
    },
  };
  for (const [how, play] of Object.entries(FIRST)) {
    test(`that begins with an error ${how} has failed, and the next one serves`, async () => {
      several.faults[0]!.plays.set('a', play);
      const got = await several.ask(how, { stream: true }, ['accept-encoding', 'gzip']);
      assert.equal(got.status, 200);
      assert.equal(textIn('messages', eventsIn(got.text)), servedBy('b'), got.text);
      assert.deepEqual(await attemptsOf(several, got), ['a answered 500 next_failed 1', 'b answered 200 served 1']);
    });
  }

  test('that only sends keep-alives before it fails has failed', async () => {
    several.faults[0]!.plays.set('a', stream('event: ping\ndata: {"type":"ping"}\n\n', failed));
    const got = await several.ask('ping', { stream: true });
    assert.equal(textIn('messages', eventsIn(got.text)), servedBy('b'), got.text);
  });

  test('that fails after a preamble has responded: its error goes to the client, without a retry', async () => {
    several.faults[0]!.plays.set('a', stream(eventsBy('messages', 'a')[0]!, failed));
    const got = await several.ask('greeting', { stream: true });
    assert.equal(got.status, 200);
    assert.equal(errorsIn(got.text), 1, got.text);
    assert.deepEqual(several.counts(), [1, 0]);
  });

  test('that falls silent after its head has not responded', async () => {
    several.faults[0]!.plays.set('a', ({ res }) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.flushHeaders();
    });
    const begun = clock.begun(FIRST_BYTE_SECONDS * 1000);
    const asking = several.ask('silent', { stream: true });
    await until('its head is here', () => clock.begun(FIRST_BYTE_SECONDS * 1000) === begun + 2);
    clock.advance(FIRST_BYTE_SECONDS * 1000);
    const got = await asking;
    assert.equal(textIn('messages', eventsIn(got.text)), servedBy('b'), got.text);
    const [first] = await attemptsOf(several, got);
    assert.equal(first, 'a answered 200 next_unconfirmed 1');
  });

  test('that may be at work on such requests gets no client retries: each would be billed again', async () => {
    several.faults[0]!.plays.set('a', hangs);
    several.faults[1]!.plays.set('b', hangs);
    const hanging = several.ask('hanging', { stream: true });
    for (const upstream of [0, 1]) await passTime(upstream);
    const got = await hanging;
    assert.deepEqual([got.status, got.headers['x-should-retry']], [502, 'false'], got.text);
    assert.match(got.text, /billed again/);
    several.forget();
    several.faults[0]!.plays.set('a', hangs);
    several.faults[1]!.plays.set('b', answers(529));
    const half = several.ask('half', { stream: true }, ['x-stainless-retry-count', '1']);
    await passTime(0);
    const one = await half;
    assert.equal(one.headers['x-should-retry'], 'true');
  });

  test('that truncates a document after a part reached the client has responded', async () => {
    several.faults[0]!.plays.set('a', ({ res, socket }) => {
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': '5000' });
      res.write('{"id":"msg_1","content":[', () => socket.destroy());
    });
    await assert.rejects(several.ask('broken'), /aborted|ECONNRESET|socket hang up|terminated/);
    assert.deepEqual(several.counts(), [1, 0]);
    await nothingReserved(several.gateway.database);
  });

  test('that responds before it has read a large request is used, and the next one gets all of it', async () => {
    const early = await startUpstream(({ res }) => {
      res.writeHead(529, { 'content-type': 'application/json', connection: 'close', 'retry-after': '30' });
      res.end('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}');
    });
    early.early = true;
    const other = await openSeveral({ count: 2, each: { a: { base_url: early.url } } });
    try {
      const got = await other.ask('early', { note: 'x'.repeat(5_000_000) });
      assert.equal(got.status, 200, got.text.slice(0, 300));
      assert.deepEqual(await attemptsOf(other, got), ['a answered 529 next_overloaded 1', 'b answered 200 served 1']);
      assert.ok(other.faults[1]!.requests('b')[0]!.body.length > 5_000_000);
    } finally {
      await other.close();
      await early.close();
    }
  });

  test('that closes a kept connection on use gets the request once more, in one attempt', async () => {
    several.faults[0]!.plays.set('a', inTurn(serves, resets, serves));
    assert.equal((await several.ask('stale-1')).status, 200);
    const got = await several.ask('stale-2');
    assert.equal(textIn('messages', got.json()), servedBy('a'));
    assert.deepEqual(several.counts(), [3, 0]);
    assert.deepEqual(await attemptsOf(several, got), ['a answered 200 served 2']);
  });

  for (const [when, first] of [
    ['at once', undefined],
    ['after another one', answers(500)],
  ] as const) {
    test(`that serves ${when} is in the ledger with its time and its id, as far as writable`, async () => {
      const silent: Play = (call) => {
        call.res.setHeader('request-id', `req_\u00e9\u00a0\t${'x'.repeat(300)}`);
        call.res.writeHead(200, { 'content-type': 'application/json' });
        call.res.end(JSON.stringify(documentOf('messages', { said: [], used: USED, piece: 4 })));
      };
      several.faults[0]!.plays.set('a', first ?? silent);
      several.faults[1]!.plays.set('b', silent);
      const got = await several.ask(`books ${when}`);
      assert.equal(got.status, 200, got.text);
      await attemptsOf(several, got);
      const attempts = await several.attempts(String(got.headers['x-gateway-request-id']));
      const { reason, ms, upstream_request_id } = attempts.at(-1)!;
      assert.deepEqual([reason, upstream_request_id], ['served', `req_???${'x'.repeat(193)}`]);
      assert.ok(ms! > 0, `answered in ${ms} ms`);
      if (first !== undefined) assert.equal(attempts[0]!.upstream_request_id, 'req_fault');
      const [row] = await several.gateway.database.knex('ledger').where({ request_id: attempts[0]!.request_id });
      assert.deepEqual([row.upstream_ms, row.upstream_request_id], [ms, upstream_request_id]);
      assert.equal(row.attempts === null, first === undefined);
    });
  }

  test('that cannot count tokens now leaves it to the next one', async () => {
    const COUNT = '/v1/messages/count_tokens';
    const counted: Play = ({ res }) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end('{"input_tokens":7}');
    };
    several.faults[0]!.plays.set('a', answers(500));
    several.faults[1]!.plays.set('b', counted);
    const headers = bearer(several.gateway.token, ['x-claude-code-session-id', 'counting']);
    const got = await send(several.gateway.url, { path: COUNT, headers, body: messagesBody() });
    assert.deepEqual([got.status, got.text], [200, '{"input_tokens":7}']);
  });
});

describe('an upstream that greets before it fails, and is known to', () => {
  const BROKE_OFF = '{"type":"message_delta","delta":{"stop_reason":"network_error"},"usage":{"output_tokens":1}}';
  test('gets more time: its earlier text is not passed on', async () => {
    const several = await openSeveral({ count: 2, upstreams: { commit_after: 'first_content' } });
    try {
      const [start, block] = eventsBy('messages', 'a');
      for (const [session, end] of [
        ['s1', errorEvent('messages', { status: 500, message: 'Failed' })],
        ['s2', `event: message_delta\ndata: ${BROKE_OFF}\n\n`],
        // Without its blank line.
        ['s3', `event: message_delta\ndata: ${BROKE_OFF}`],
      ] as const) {
        several.forget();
        several.faults[0]!.plays.set('a', ({ res }) => {
          res.writeHead(200, { 'content-type': 'text/event-stream' });
          res.write(`${start}event: ping\ndata: {"type":"ping"}\n\n${block}`);
          res.end(end);
        });
        const got = await several.ask(session, { stream: true });
        assert.equal(textIn('messages', eventsIn(got.text)), servedBy('b'), got.text);
        assert.equal(eventsIn(got.text).filter(({ name }) => name === 'message_start').length, 1);
        assert.deepEqual(several.counts(), [1, 1]);
      }
    } finally {
      await several.close();
    }
  });

  /** How long the gateway waits behind a greeting. */
  const GREETING_MS = 2000;
  for (const [how, end] of [
    ['an error', (res: ServerResponse) => res.end(errorEvent('responses', { status: 529, message: 'Overloaded' }, 1))],
    ['nothing', (res: ServerResponse) => res.destroy()],
  ] as const) {
    test(`as all of Responses do, is followed by the next one after a greeting and ${how}`, async () => {
      const responses = { type: 'compat', protocols: ['responses'], retry_budget: { min: 0, percent: 0 } };
      const clock = movableClock({ stands: true });
      const several = await openSeveral({ count: 2, upstreams: responses, clock });
      try {
        several.faults[0]!.plays.set('a', async ({ res }) => {
          res.writeHead(200, { 'content-type': 'text/event-stream' });
          res.write(eventsBy('responses', 'a')[0]!);
          await until('its greeting is heard', () => clock.begun(GREETING_MS) > 0);
          end(res);
        });
        const body = JSON.stringify({ model: 'coder-1', input: 'Hello.', stream: true });
        const got = await send(several.gateway.url, {
          path: '/v1/responses',
          headers: bearer(several.gateway.token),
          body,
        });
        assert.equal(textIn('responses', eventsIn(got.text)), servedBy('b'), got.text);
        assert.equal(eventsIn(got.text).filter(({ name }) => name === 'response.created').length, 1);
      } finally {
        await several.close();
      }
    });
  }
});
