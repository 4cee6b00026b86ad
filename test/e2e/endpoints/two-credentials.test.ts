/** Clients send a good credential beside one that is left over; whichever it is, it serves, at every endpoint alike. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { createServiceToken } from '../../../engine/domain/identity/tokens/service-tokens.ts';
import { generateToken } from '../../../engine/domain/identity/tokens/token-format.ts';
import type { createToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { MESSAGES, messagesBody, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

let by: Parameters<typeof createToken>[0];
/** Credentials by kind. */
const sent: Record<string, string> = {};

const { gateway, upstream } = useGateway();

before(async () => {
  by = { database: gateway.database, clock: systemClock, actor: { kind: 'command', name: 'test' } };
  const expires_at = new Date(Date.now() - 1000);
  sent.good = gateway.token;
  sent.expired = await gateway.newToken({ name: 'expired', expires_at });
  sent.unknown = generateToken();
  sent.foreign = 'sk-left-over-0123456789';
  sent.malformed = `${gateway.token}x`;
  sent.session = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl';
});

const chat = JSON.stringify({ model: 'coder-1', messages: [{ role: 'user', content: 'Say hello.' }] });
/** An endpoint with a caller's credential, and its response. */
const ENDPOINTS: readonly (readonly [string, string, string | undefined, number])[] = [
  ['POST', MESSAGES, messagesBody(), 200],
  ['POST', '/v1/chat/completions', chat, 200],
  ['GET', '/v1/models', undefined, 200],
  ['GET', '/api/oauth/usage', undefined, 200],
  ['GET', '/managed/settings', undefined, 404],
  ['POST', '/v1/logs', '{"resourceLogs":[]}', 200],
];

function ask(method: string, path: string, body: string | undefined, credentials: readonly string[]) {
  const type = body === undefined ? [] : ['content-type', 'application/json'];
  return send(gateway.url, { method, path, ...(body !== undefined && { body }), headers: [...type, ...credentials] });
}

const credentials = (authorization: string, key: string) => [
  ...['authorization', authorization.includes(' ') ? authorization : `Bearer ${sent[authorization]}`],
  ...['x-api-key', sent[key]!],
];

describe('of two credentials', () => {
  for (const [method, path, body, served] of ENDPOINTS) {
    for (const bad of path === MESSAGES ? ['expired', 'unknown', 'foreign', 'malformed', 'session'] : ['unknown']) {
      test(`the good one serves at ${path}, and not the ${bad} one`, async () => {
        for (const [first, second] of [
          [bad, 'good'],
          ['good', bad],
        ] as const) {
          const { status, text } = await ask(method, path, body, credentials(first, second));
          assert.equal(status, served, text);
          for (const value of Object.values(sent)) assert.ok(!text.includes(value));
        }
      });
    }

    test(`rejects both at ${path}: the error has the reason for each, and repeats neither`, async () => {
      for (const [first, second, why] of [
        ['expired', 'unknown', /: The access token .* expired on .* x-api-key: The access token is unknown/],
        ['session', 'foreign', /: This looks like a session token.* x-api-key: The access token is malformed/],
        ['Basic YTpi', 'unknown', /: The Authorization header is malformed.* x-api-key: The access token is unknown/],
      ] as const) {
        const { status, headers, text } = await ask(method, path, body, credentials(first, second));
        assert.equal(status, 401);
        assert.match(text, /two credentials, and neither is valid/);
        assert.match(text, why);
        assert.equal(headers['x-should-retry'], 'false');
        assert.equal(headers['www-authenticate'], 'Bearer');
        for (const value of Object.values(sent)) assert.ok(!text.includes(value));
      }
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('two equal x-api-key headers are accepted, different ones rejected', async () => {
    const asked = (...keys: string[]) =>
      ask(
        'POST',
        MESSAGES,
        messagesBody(),
        keys.flatMap((key) => ['x-api-key', key]),
      );
    assert.equal((await asked(sent.good!, sent.good!)).status, 200);
    const { status, text } = await asked(sent.unknown!, sent.good!);
    assert.equal(status, 401);
    for (const value of Object.values(sent)) assert.ok(!text.includes(value));
  });

  test('neither reaches the upstream', async () => {
    await ask('POST', MESSAGES, messagesBody(), credentials('unknown', 'good'));
    const headers = upstream.only().raw_headers.join(' ');
    assert.ok(!headers.includes(sent.good!) && !headers.includes(sent.unknown!));
  });

  test('the one that opens the admin API serves there', async () => {
    const expires_at = new Date(Date.now() + 3_600_000);
    const { token } = await createServiceToken(by, { name: 'limits', scopes: ['limits:read'], expires_at });
    for (const headers of [
      ['authorization', `Bearer ${token}`, 'x-api-key', gateway.token],
      ['authorization', `Bearer ${gateway.token}`, 'x-api-key', token],
    ]) {
      assert.equal((await ask('GET', '/admin/api/limits', undefined, headers)).status, 200);
    }
    const both = await ask('GET', '/admin/api/limits', undefined, credentials('good', 'unknown'));
    assert.equal(both.status, 403);
    assert.match(both.text, /Authorization: Access tokens are for models only.* x-api-key: The access token is/);
  });
});
