import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { serverSection } from '../../support/gateway.ts';
import {
  answerBytes,
  answerJson,
  answerRaw,
  hang,
  message,
  reset,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, type Response } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { idOf } from '../support/odd.ts';
import { auditRecord, type LedgerRow, ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const FIRST_BYTE_SECONDS = 601;
const server = serverSection({ timeouts: { non_streaming_first_byte_seconds: FIRST_BYTE_SECONDS } });
const clock = movableClock();
const spend_limits = { defaults: { user_daily_usd: 1000, team_monthly_usd: 1000 }, on_exceeded: 'deny' };
const { gateway, upstream } = useGateway({ server, spend_limits }, clock);

/** Checks an error the gateway itself made, and that nothing stays reserved. */
async function assertGatewayError(response: Response, status: number, type: string, code: string): Promise<void> {
  assert.equal(response.status, status, response.text);
  assert.match(String(response.headers['content-type']), /^application\/json/);
  assert.equal(response.headers.location, undefined);
  const { error, request_id } = response.json();
  assert.deepEqual([error.type, error.code, request_id], [type, code, idOf(response)]);
  assert.match(error.message, /main/, 'the message names the upstream');
  assert.doesNotMatch(response.text, /127\.0\.0\.1|<html/i, 'neither addresses nor pages leak');
  await nothingReserved(gateway.database);
}

/** The one ledger row of a forwarded request. */
async function rowOf(response: Response): Promise<LedgerRow> {
  const row = await ledgerRow(gateway.database, idOf(response));
  assert.equal(row.protocol, 'messages');
  return row;
}

/** Checks that a request cost nothing, and that the upstream's possible bill is recorded apart. */
async function assertPossiblyBilled(response: Response): Promise<void> {
  const row = await rowOf(response);
  assert.equal(row.cost_nano_usd, 0);
  assert.ok(Number(row.provenance.possibly_billed_nano_usd) > 0, JSON.stringify(row.provenance));
  assert.deepEqual([row.status, row.provenance.cost], [null, 'estimate']);
  const { record } = (await auditRecord(gateway.database, row.request_id)) as { record: Record<string, number> };
  assert.equal(record.possibly_billed_usd, Number(row.provenance.possibly_billed_nano_usd) / 1e9);
}

describe('an upstream without a response', () => {
  test('because it rejects the connection is 502, costs nothing and leaves no row', async () => {
    await upstream.pause();
    try {
      const response = await ask(gateway.url, gateway.token);
      await assertGatewayError(response, 502, 'api_error', 'upstream_unreachable');
      assert.equal(response.headers['x-should-retry'], 'true');
      const rows = await ledgerRows(gateway.database);
      assert.ok(!rows.some((row) => row.request_id === idOf(response)), 'it never reached an upstream');
    } finally {
      await upstream.resume();
    }
  });

  test('because it takes too long for the first byte is 504, and its request is cancelled', async () => {
    upstream.script = hang;
    const asking = ask(gateway.url, gateway.token);
    await until('the upstream got the request', () => upstream.requests.length === 1);
    clock.advance(FIRST_BYTE_SECONDS * 1000);
    const response = await asking;
    // For its bill the gateway waits once more as long.
    clock.advance(FIRST_BYTE_SECONDS * 1000);
    await assertGatewayError(response, 504, 'timeout_error', 'upstream_timeout');
    await until('the upstream request is cancelled', () => upstream.only().cancelled);
    await assertPossiblyBilled(response);
  });

  test('because it resets the connection is 502 with a row', async () => {
    upstream.script = reset;
    const response = await ask(gateway.url, gateway.token);
    await assertGatewayError(response, 502, 'api_error', 'upstream_failed');
    await assertPossiblyBilled(response);
  });

  test('costs its callers nothing of their limits, however often they try', async () => {
    const token = await gateway.newToken({ user: 'patient@example.com' });
    for (const script of [reset, answerRaw('220 mail.example ESMTP\r\n'), answerJson({ error: 'boom' }, 500)]) {
      upstream.script = script;
      for (let i = 0; i < 5; i++) assert.ok((await ask(gateway.url, token)).status >= 500);
    }
    upstream.script = answerJson(message());
    const response = await ask(gateway.url, token);
    assert.equal(response.status, 200, response.text);
    await rowOf(response);
    const rows = await until('all of them are in the ledger', async () => {
      const found = (await ledgerRows(gateway.database)).filter((row) => row.user_email === 'patient@example.com');
      return found.length >= 16 && found;
    });
    assert.equal(rows.length, 16);
    assert.equal(rows.filter((row) => row.cost_nano_usd > 0).length, 1);
  });
});

describe('an upstream with a non-API response', () => {
  const FOREIGN = {
    'an HTML page with 200': answerBytes(200, ['content-type', 'text/html'], '<!doctype html><h1>Sign in</h1>'),
    'an HTML page without a type': answerBytes(200, [], '\n<html><body>hi</body></html>'),
    'an HTML error page': answerBytes(502, ['content-type', 'text/html; charset=utf-8'], '<h1>502 Bad Gateway</h1>'),
    'a redirect': answerBytes(302, ['location', 'https://id.example/login'], ''),
    'a permanent redirect with a page': answerBytes(
      308,
      ['location', 'http://127.0.0.1:1/', 'content-type', 'text/html'],
      '<a>',
    ),
    'an empty body with 200': answerBytes(200, ['content-type', 'application/json'], ''),
  };
  for (const [what, script] of Object.entries(FOREIGN)) {
    test(`such as ${what} is a JSON 502 with a row, and nothing of it is passed on`, async () => {
      upstream.script = script;
      const response = await ask(gateway.url, gateway.token);
      await assertGatewayError(response, 502, 'api_error', 'upstream_invalid');
      assert.doesNotMatch(response.text, /doctype|<h1>|id\.example/);
      assert.equal(upstream.requests.length, 1, 'the redirect was not followed');
      const { cost_nano_usd, provenance } = await rowOf(response);
      const is_unclear = /error page|empty/.test(what);
      assert.deepEqual([cost_nano_usd, provenance.possibly_billed_nano_usd !== undefined], [0, is_unclear]);
    });
  }
});

describe("an upstream's own error", () => {
  const ERRORS: readonly (readonly [status: number, body: string])[] = [
    [
      400,
      '{ "type":"error",\n"error":{"message":"prompt is too long: 201000 tokens","type":"invalid_request_error","zz":1,"zz":2}}',
    ],
    [422, '["odd",12345678901234567890]'],
    [529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}'],
  ];
  for (const [status, body] of ERRORS) {
    test(`with status ${status} reaches the client byte for byte with its headers, has a row and costs nothing`, async () => {
      const headers = { 'retry-after': '17', 'request-id': 'req_1', 'x-should-retry': 'true' };
      upstream.script = answerBytes(status, { 'content-type': 'application/json', ...headers }, body);
      const response = await ask(gateway.url, gateway.token);
      assert.equal(response.status, status);
      assert.equal(response.text, body);
      assert.deepEqual({ ...response.headers, ...headers }, response.headers);
      const row = await rowOf(response);
      assert.deepEqual([row.status, row.cost_nano_usd], [status, 0]);
      await nothingReserved(gateway.database);
    });
  }

  test("that is a proxy's page of plain text keeps its status and becomes JSON", async () => {
    const text = 'upstream connect error or disconnect/reset before headers';
    upstream.script = answerBytes(503, ['content-type', 'text/plain', 'retry-after', '4'], text);
    const response = await ask(gateway.url, gateway.token);
    assert.equal(response.status, 503, response.text);
    assert.match(String(response.headers['content-type']), /json/);
    assert.equal(response.json().type, 'error');
    await rowOf(response);
  });

  test('in response to a streamed request is passed on as JSON', async () => {
    upstream.script = answerJson({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 529);
    const response = await ask(gateway.url, gateway.token, { stream: true });
    assert.equal(response.status, 529);
    assert.match(String(response.headers['content-type']), /json/);
    assert.equal(response.json().error.type, 'overloaded_error');
  });
});
