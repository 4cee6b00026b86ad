import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { answerRaw, message, type Script } from '../../support/model-provider/scripted-upstream.ts';
import { inTurn, times } from '../../support/times.ts';
import { bearer, messagesBody, parseRaw, sendRaw } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { auditRecord, ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const clock = movableClock();

const LONGER_THAN_ANY_LIMIT_MS = 3_600_000;
const spend_limits = { defaults: { user_daily_usd: 1000 }, on_exceeded: 'deny' };
const { upstream, gateway } = useGateway({ spend_limits }, clock);

const BODY = JSON.stringify(message());
const FIELDS = `content-type: application/json\r\ncontent-length: ${BODY.length}\r\n`;
const head = (line: string, fields = FIELDS, body = BODY) => Buffer.from(`${line}\r\n${fields}\r\n${body}`, 'latin1');

/** Everything the gateway sends for one request. */
async function exchange(script: Script, more: object = {}): Promise<string> {
  upstream.script = script;
  const fields = bearer(gateway.token, ['host', 'gateway.example', 'connection', 'close']);
  const body = messagesBody(more);
  const lines = Array.from({ length: fields.length / 2 }, (_, at) => `${fields[2 * at]}: ${fields[2 * at + 1]}\r\n`);
  return sendRaw(
    gateway.url,
    `POST /v1/messages HTTP/1.1\r\n${lines.join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/** Checks that a request which left has its one ledger row, its audit record and nothing reserved. */
async function assertFinished(raw: string): Promise<number> {
  assert.notEqual(raw, '');
  const { status, headers } = parseRaw(raw);
  const request_id = headers['x-gateway-request-id']!;
  // The reservation of a quick request is still on its way to the database when its response is there.
  await ledgerRow(gateway.database, request_id);
  await nothingReserved(gateway.database);
  assert.equal((await ledgerRows(gateway.database)).filter((row) => row.request_id === request_id).length, 1);
  const record = await auditRecord(gateway.database, request_id);
  assert.equal((record.record as { status: number }).status, status);
  const found = gateway.logs.filter((line) => /the engine failed|a stage failed/.test(line));
  assert.deepEqual(found, []);
  return status;
}

describe('a reason phrase of the upstream', () => {
  const PHRASES: Record<string, string> = {
    'with a control character': 'O\x01K',
    'with NUL': 'O\0K',
    'with ESC': '\x1b[2J',
    'with DEL': 'OK\x7f',
    'with a vertical tab': 'O\x0bK',
    'with a tab': 'O\tK',
    'in latin1': 'Tr\xe8s bien',
    'in UTF-8': Buffer.from('好').toString('latin1'),
    'of ten kilobytes': 'O'.repeat(10_000),
    'that is empty': '',
  };
  for (const [place, [what, phrase]] of Object.entries(PHRASES).entries()) {
    for (const status of inTurn([200, 429], place)) {
      test(`${what} beside ${status} changes nothing for the caller`, async () => {
        const raw = await exchange(answerRaw(head(`HTTP/1.1 ${status} ${phrase}`)));
        assert.equal(parseRaw(raw).body, BODY);
        assert.match(raw, /^HTTP\/1\.1 \d{3} [\x20-\x7e]{0,100}\r\n/, 'the phrase is one to show');
        assert.equal(await assertFinished(raw), status);
      });
    }
  }

  test('that is an ordinary one of its own passes', async () => {
    const raw = await exchange(answerRaw(head('HTTP/1.1 200 Fine')));
    assert.match(raw, /^HTTP\/1\.1 200 Fine\r\n/);
  });
});

describe('a status of the upstream', () => {
  for (const status of ['000', '042', '099', '101', '199', '204', '205', '304', '600', '999', '1234', '-20', '2x0']) {
    test(`that is ${status} becomes an error, with its row`, async () => {
      const raw = await exchange(answerRaw(head(`HTTP/1.1 ${status} Odd`)));
      assert.ok([502, 504].includes(await assertFinished(raw)), raw);
      assert.equal(JSON.parse(parseRaw(raw).body).type, 'error');
    });
  }

  test('that only announces, before the final one, is left out', async () => {
    const early = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\nset-cookie: a=b\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n';
    const raw = await exchange(answerRaw(Buffer.concat([Buffer.from(early), head('HTTP/1.1 200 OK')])));
    assert.equal(parseRaw(raw).body, BODY);
    assert.doesNotMatch(raw, /early|set-cookie/i);
    assert.equal(await assertFinished(raw), 200);
  });
});

describe('a head of the upstream', () => {
  const HEADS: Record<string, Buffer> = {
    'without an end': Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n'),
    'larger than any': head('HTTP/1.1 200 OK', `x-large: ${'a'.repeat(100_000)}\r\n${FIELDS}`),
    'of endless headers': head('HTTP/1.1 200 OK', 'x-many: a\r\n'.repeat(50_000)),
    'with two lengths': head('HTTP/1.1 200 OK', `${FIELDS}content-length: 3\r\n`),
    'with a length that is no number': head('HTTP/1.1 200 OK', 'content-length: 1e3\r\n'),
    'with length and transfer coding': head('HTTP/1.1 200 OK', `${FIELDS}transfer-encoding: chunked\r\n`),
    'with NUL in a header': head('HTTP/1.1 200 OK', `x-a: a\0b\r\n${FIELDS}`),
    'with a control character in a header': head('HTTP/1.1 200 OK', `x-a: a\x1bb\r\n${FIELDS}`),
    'with a space in a header name': head('HTTP/1.1 200 OK', `x a: b\r\n${FIELDS}`),
    'with a folded header': head('HTTP/1.1 200 OK', `x-a: a\r\n b\r\n${FIELDS}`),
    'with a bare carriage return': head('HTTP/1.1 200 OK', `x-a: a\rset-cookie: b\r\n${FIELDS}`),
  };
  for (const [what, bytes] of Object.entries(HEADS)) {
    test(`${what} is an error with its row`, async () => {
      const raw = await exchange(answerRaw(bytes));
      assert.ok([502, 504].includes(await assertFinished(raw)), raw.slice(0, 300));
      assert.doesNotMatch(raw, /set-cookie/i);
    });
  }

  test('with bytes beyond ASCII in a value passes byte for byte', async () => {
    const name = Buffer.from('Müller').toString('latin1');
    const raw = await exchange(answerRaw(head('HTTP/1.1 200 OK', `x-name: ${name}\r\n${FIELDS}`)));
    assert.match(raw, /^x-name: Müller\r$/m);
    assert.equal(await assertFinished(raw), 200);
  });

  test('with trailers behind the body loses them', async () => {
    const chunked = 'content-type: application/json\r\ntrailer: set-cookie\r\ntransfer-encoding: chunked\r\n';
    const body = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\nset-cookie: a=b\r\n\r\n`;
    const raw = await exchange(answerRaw(head('HTTP/1.1 200 OK', chunked, body)));
    assert.doesNotMatch(raw, /set-cookie|trailer/i);
    assert.equal(await assertFinished(raw), 200);
  });

  test('behind a flood of announcements that never ends is an error with its row', async () => {
    const answered = exchange(async ({ socket }) => {
      const flood = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(200);
      for (let turns = 0; !socket.destroyed; turns++) {
        socket.write(flood);
        // After one limit no client waits for it any more, and after another its bill is given up.
        if (turns % 100 === 10) clock.advance(LONGER_THAN_ANY_LIMIT_MS);
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
    assert.ok([502, 504].includes(await assertFinished(await answered)));
  });
});

test('with any head of an upstream, a sent request has a response or a cut, one row, and nothing reserved', async () => {
  const bytes = (max: number) =>
    fc.uint8Array({ maxLength: max }).map((values) => Buffer.from(values).toString('latin1'));
  const name = fc.oneof(
    fc.constantFrom('content-length', 'content-type', 'content-encoding', 'connection', 'transfer-encoding', 'trailer'),
    fc.constantFrom('retry-after', 'request-id', 'x-gateway-request-id', 'upgrade', 'location'),
    bytes(5),
  );
  const value = fc.oneof(
    fc.constantFrom('0', '5', '999999', 'chunked', 'gzip', 'close', 'text/event-stream', 'application/json', ''),
    bytes(12),
  );
  const status = fc.oneof(
    fc.integer({ min: 0, max: 999 }).map((code) => String(code).padStart(3, '0')),
    fc.constantFrom('200', '200', '200', '500', '429'),
    bytes(4),
  );
  const line = fc.tuple(fc.constantFrom('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0'), status, bytes(10));
  const fields = fc.array(fc.tuple(name, value), { maxLength: 5 });
  const bodies = fc.oneof(fc.constantFrom(BODY, '', 'data: {}\n\n', '0\r\n\r\n'), bytes(30));
  await fc.assert(
    fc.asyncProperty(line, fields, bodies, fc.boolean(), async (start, pairs, body, stream) => {
      const text = pairs.map(([key, input]) => `${key}: ${input}\r\n`).join('');
      const raw = await exchange(answerRaw(head(start.join(' '), text, body)), { stream });
      await assertFinished(raw);
    }),
    { numRuns: times(12) },
  );
});
