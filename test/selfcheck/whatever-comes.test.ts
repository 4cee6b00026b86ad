import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Exchange } from '../../engine/base/kit/net/exchange.ts';
import { isPrintableLine } from '../../engine/base/kit/text/printable.ts';
import { CHECKS } from '../../engine/edge/selfcheck/checks.ts';
import type { Echo, EchoedRequest } from '../../engine/edge/selfcheck/echo.ts';
import { times } from '../support/times.ts';
import { subjectAt } from './support.ts';

const ESCAPE = '\u001b[2J\u001b]0;gone\u0007\u202e';
const value = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>(ESCAPE, [ESCAPE], { [ESCAPE]: ESCAPE }, 1e99, -1, 'x'.repeat(20_000)),
);
const named = fc.dictionary(
  fc.constantFrom(
    ...['error', 'message', 'type', 'code', 'choices', 'usage', 'data', 'id', 'object', 'model', 'delta', 'response'],
    ...['output', 'status', 'limit', 'window', 'resets_at', 'finish_reason', 'sequence_number', 'content', ESCAPE],
  ),
  fc.oneof(value, fc.dictionary(fc.constantFrom('message', 'type', 'usage', 'id', 'model', 'error'), value)),
);
const event = fc.tuple(fc.option(fc.constantFrom('error', 'response.created', ESCAPE)), named);
const body = fc.oneof(
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  named.map((fields) => Buffer.from(JSON.stringify(fields))),
  fc
    .array(event)
    .map((events) =>
      Buffer.from(
        events
          .map(([name, fields]) => `${name === null ? '' : `event: ${name}\n`}data: ${JSON.stringify(fields)}\n\n`)
          .join(''),
      ),
    ),
);
const exchange: fc.Arbitrary<Exchange> = fc.record({
  status: fc.constantFrom(200, 302, 400, 401, 403, 404, 429, 500, 529),
  headers: fc.dictionary(
    fc.constantFrom('content-type', 'retry-after', 'location', 'content-encoding', 'server', 'x-cache-5m'),
    fc.constantFrom('application/json', 'text/event-stream', 'text/html', 'gzip', '7', 'yesterday', ESCAPE),
  ),
  body,
  arrivals: body.map((bytes) => [{ at_ms: 5, bytes: bytes.length }]),
  head_ms: fc.constant(1),
  total_ms: fc.constant(5),
  ending: fc.constantFrom<Exchange['ending']>('whole', 'whole', 'cut', 'too_large', 'too_late'),
});

function echoOf(received: EchoedRequest | undefined): Echo {
  const expected = { text: 'selfcheck words', received: () => received, count: () => 1 };
  return { url: 'http://127.0.0.1:4010', expect: () => expected, close: async () => {} };
}

const received: fc.Arbitrary<EchoedRequest> = fc.record({
  method: fc.constant('POST'),
  path: fc.constantFrom('/v1/messages', `/v1/${ESCAPE}?x`),
  raw_headers: fc.constant(['x', ESCAPE]),
  headers: fc.dictionary(fc.constantFrom('vendor-version', 'vendor-beta', 'user-agent'), fc.constantFrom('', ESCAPE)),
  body,
  protocol: fc.constantFrom('messages', 'messages', 'chat', 'responses'),
});

test('for any response and forwarding of a gateway, each check ends with a printable line and a remedy', async () => {
  const checks = CHECKS.filter(({ id }) => !id.startsWith('clients.'));
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...checks), exchange, fc.option(received), async (check, came, arrived) => {
      const echo = echoOf(arrived ?? undefined);
      const subject = {
        ...subjectAt('http://127.0.0.1:9', { echo, limit_token: 'gw_used-up' }),
        ask: async () => came,
      };
      const { verdict, found, remedy, sent, came: line, details = [] } = await check.run(subject);
      for (const text of [found, remedy, sent, line, ...details]) {
        if (text === undefined) continue;
        assert.ok(isPrintableLine(text), `${check.id}: ${JSON.stringify(text)}`);
        assert.ok(text.length < 1500, `${check.id}: ${text.length} characters`);
      }
      assert.notEqual(found, '');
      if (verdict === 'failed' || verdict === 'warning') assert.ok(remedy, `${check.id}: ${found}`);
    }),
    { numRuns: times(40) },
  );
});
