/** Failures that are harder to see: early responses, closed connections, and what the ledger has of them. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import {
  answers,
  inTurn,
  type Play,
  resets,
  servedBy,
  serves,
  USED,
} from '../../support/model-provider/fault-server.ts';
import { documentOf } from '../../support/model-provider/model-provider.ts';
import { rawServer } from '../../support/net/raw-server.ts';
import { textIn } from '../streams/streams.ts';
import { bearer, messagesBody, type Response, send } from '../support/client.ts';
import { nothingReserved } from '../support/state.ts';
import { faultsInBooks, openSeveral, type Several, useSeveral } from './several.ts';

/** Every attempt of a request: upstream, outcome, why it continued, how often it was sent. */
async function attemptsOf(several: Several, got: Response): Promise<string[]> {
  await nothingReserved(several.gateway.database);
  const found = await several.attempts(String(got.headers['x-gateway-request-id']));
  return found.map(
    ({ upstream, certainty, status, reason, sends }) => `${upstream} ${certainty} ${status} ${reason} ${sends}`,
  );
}

describe('an upstream', () => {
  // Before it is closed.
  after(async () => assert.deepEqual(await faultsInBooks(several), {}));
  const upstreams = { breaker: { mode: 'off' }, supports: { count_tokens: true } };
  const several = useSeveral({ count: 2, upstreams });

  test('that responds before it has read a large request is used, and the next one gets all of it', async () => {
    const head = 'HTTP/1.1 529 Overloaded\r\ncontent-type: application/json\r\nretry-after: 30\r\nconnection: close';
    const body = '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}';
    await using early = await rawServer((socket) => {
      socket.end(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    });
    const other = await openSeveral({ count: 2, each: { a: { base_url: early.url } } });
    try {
      const got = await other.ask('early', { note: 'x'.repeat(5_000_000) });
      assert.equal(got.status, 200, got.text.slice(0, 300));
      assert.deepEqual(await attemptsOf(other, got), ['a answered 529 next_overloaded 1', 'b answered 200 served 1']);
      assert.ok(other.faults[1]!.requests('b')[0]!.body.length > 5_000_000);
    } finally {
      await other.close();
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

  test('that serves after another one is in the ledger with its time and its id, as far as writable', async () => {
    several.faults[0]!.plays.set('a', answers(500));
    several.faults[1]!.plays.set('b', (call) => {
      call.res.setHeader('request-id', `req_\u00e9\u00a0\t${'x'.repeat(300)}`);
      call.res.writeHead(200, { 'content-type': 'application/json' });
      call.res.end(JSON.stringify(documentOf('messages', { said: [], used: USED, piece: 4 })));
    });
    const got = await several.ask('books');
    assert.equal(got.status, 200, got.text);
    await attemptsOf(several, got);
    const [first, last] = await several.attempts(String(got.headers['x-gateway-request-id']));
    const { reason, ms, upstream_request_id, request_id } = last!;
    assert.deepEqual([reason, upstream_request_id], ['served', `req_???${'x'.repeat(193)}`]);
    assert.ok(ms! > 0, `answered in ${ms} ms`);
    assert.equal(first!.upstream_request_id, 'req_fault');
    const [row] = await several.gateway.database.knex('ledger').where({ request_id });
    assert.deepEqual([row.upstream_ms, row.upstream_request_id], [ms, upstream_request_id]);
  });

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
