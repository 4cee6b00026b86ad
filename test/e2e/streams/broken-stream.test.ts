import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { serverSection } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  type Exchange,
  message,
  messageEvents,
} from '../../support/model-provider/scripted-upstream.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, messagesBody, open, type Response, readAll } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { idOf } from '../support/odd.ts';
import { type LedgerRow, ledgerRow, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';
import { eventsIn } from './streams.ts';

const IDLE_SECONDS = 60;
const server = serverSection({ timeouts: { idle_seconds: IDLE_SECONDS } });
const clock = movableClock();
const spend_limits = { defaults: { user_daily_usd: 1000, team_monthly_usd: 1000 }, on_exceeded: 'deny' };
const { gateway, upstream } = useGateway({ server, spend_limits }, clock);

/** The one ledger row of a forwarded request. */
async function rowOf(response: Response): Promise<LedgerRow> {
  const row = await ledgerRow(gateway.database, idOf(response));
  assert.equal(row.protocol, 'messages');
  return row;
}

/** Asks for a stream, and reads it while something happens. */
async function readWhile(act: (received: () => string) => Promise<void>): Promise<Response> {
  const { head } = open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) });
  const response = await head;
  let received = '';
  response.on('data', (chunk) => {
    received += chunk;
  });
  const [whole] = await Promise.all([readAll(response), act(() => received)]);
  return whole;
}

/** What says that a stream is alive may come at any time. */
const withoutPings = (text: string) => text.replaceAll(/event: ping\ndata: .*\n\n/g, '');

describe('an upstream that answers out of turn', () => {
  test('with more bytes than it announced does not spoil the next answer', async () => {
    const json = JSON.stringify(message());
    const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n`;
    const smuggled = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n"forged"';
    upstream.script = ({ socket }) => void socket.write(head + json + smuggled);
    assert.equal((await ask(gateway.url, gateway.token)).text, json);
    upstream.script = answerJson(message({ input_tokens: 1, output_tokens: 1 }));
    const next = await ask(gateway.url, gateway.token);
    assert.equal(next.text, JSON.stringify(message({ input_tokens: 1, output_tokens: 1 })));
  });
});

describe('a stream that breaks off', () => {
  const opening = messageEvents().slice(0, 4);

  async function assertEndsWithErrorEvent(response: Response, type: string): Promise<void> {
    assert.equal(response.status, 200);
    assert.ok(response.text.startsWith(opening.join('')), "the upstream's bytes came first");
    const events = eventsIn(response.text);
    const errors = events.filter(({ name }) => name === 'error');
    assert.equal(errors.length, 1, response.text);
    assert.equal(events.at(-1), errors[0]);
    const { data } = errors[0]!;
    assert.deepEqual([data.type, data.error.type, data.request_id], ['error', type, idOf(response)]);
    const row = await rowOf(response);
    assert.equal(row.input_tokens, 100);
    assert.ok(row.output_tokens > 0, 'the relayed part is billed');
    await nothingReserved(gateway.database);
  }

  test('because the upstream falls silent ends with one error event', async () => {
    upstream.script = ({ res }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.write(opening.join(''));
    };
    const response = await readWhile(async (received) => {
      await until('the client has the sent part', () => received() === opening.join(''));
      clock.advance(IDLE_SECONDS * 1000);
    });
    await assertEndsWithErrorEvent(response, 'timeout_error');
    await until('the upstream request is cancelled', () => upstream.only().cancelled);
  });

  test('because a JSON response is cut off is a broken connection, not half a response that looks whole', async () => {
    upstream.script = ({ res, socket }) => {
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': '5000' });
      res.write('{"id":"msg_1","content":[', () => socket.resetAndDestroy());
    };
    const head = await open(gateway.url, { headers: bearer(gateway.token), body: messagesBody() }).head;
    await assert.rejects(readAll(head), /aborted|ECONNRESET|socket hang up|terminated/);
    await ledgerRow(gateway.database, String(head.headers['x-gateway-request-id']));
    await nothingReserved(gateway.database);
  });

  test('cut at any byte is whole events and one error event, unless complete, with any chunks', async () => {
    const plan = fc.record({
      words: fc.array(fc.string({ unit: 'grapheme', maxLength: 12 }), { minLength: 1, maxLength: 4 }),
      line_end: fc.constantFrom('\n', '\r\n'),
      cut: fc.nat(),
      chunk_ends: fc.array(fc.nat(), { maxLength: 6 }),
    });
    await fc.assert(
      fc.asyncProperty(plan, async ({ words, line_end, cut, chunk_ends }) => {
        const events = messageEvents(words).map((event) => Buffer.from(event.replaceAll('\n', line_end)));
        const stream = Buffer.concat(events);
        const sent = stream.subarray(0, cut % stream.length);
        const ends = [...new Set(chunk_ends.map((end) => end % (sent.length + 1)))].sort((a, b) => a - b);
        const lengths = events.map((_, i) => Buffer.concat(events.slice(0, i + 1)).length);
        const length = lengths.findLast((whole) => whole <= sent.length) ?? 0;
        let received = Buffer.alloc(0);
        upstream.script = async ({ res, socket }) => {
          res.writeHead(200, EVENT_STREAM as string[]);
          for (const [i, start] of [0, ...ends].entries())
            await new Promise<void>((done) => res.write(sent.subarray(start, ends[i] ?? sent.length), () => done()));
          await until('the client has the whole events', () => received.length >= length);
          socket.destroy();
        };
        const headers = bearer(gateway.token);
        const response = await open(gateway.url, { headers, body: messagesBody({ stream: true }) }).head;
        for await (const chunk of response) received = Buffer.concat([received, chunk as Buffer]);
        // A carriage return alone ends a line, too.
        if (length === 0 && !sent.toString('latin1').endsWith('\r\n\r')) {
          assert.equal(response.statusCode, 502, 'nothing is passed on before the first event is whole');
          assert.equal(JSON.parse(received.toString()).error.code, 'upstream_failed');
          return;
        }
        assert.deepEqual(received.subarray(0, length), sent.subarray(0, length));
        const rest = received.subarray(length).toString();
        // Behind the reason for stopping nothing is missed.
        if (length >= lengths.at(-2)!) {
          assert.equal(rest, '');
          return;
        }
        const [, data = ''] = /^event: error\ndata: (.*)\n\n$/.exec(rest) ?? [];
        assert.equal(JSON.parse(data).error.code, 'upstream_failed', rest);
      }),
      { numRuns: times(20) },
    );
    await nothingReserved(gateway.database);
  });

  test('after a slow start continues as long as something arrives within the idle timeout', async () => {
    const events = messageEvents(['a', 'b', 'c', 'd']);
    const asked = Promise.withResolvers<Exchange>();
    upstream.script = ({ res, ...exchange }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.write(events[0]);
      asked.resolve({ res, ...exchange });
    };
    const response = await readWhile(async (received) => {
      const { res } = await asked.promise;
      for (const [index] of events.entries()) {
        if (index > 0) res.write(events[index]);
        const so_far = events.slice(0, index + 1).join('');
        await until('the client has the event', () => withoutPings(received()) === withoutPings(so_far));
        clock.advance(0.6 * IDLE_SECONDS * 1000);
      }
      res.end();
    });
    assert.equal(withoutPings(response.text), withoutPings(events.join('')));
  });
});
