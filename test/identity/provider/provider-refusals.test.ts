import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { ProviderProblem } from '../../../engine/identity/provider/provider.ts';
import { ATTEMPT, fails, makeProvider, REDIRECT_URI, SECRET } from '../../support/identity/provider-client.ts';
import { answerJson, startScriptedProvider, tokens } from '../../support/identity/scripted-identity-provider.ts';

const CALLBACK = new URL(`${REDIRECT_URI}?code=code-of-this-attempt&state=${ATTEMPT.state}`);
const GRANT = { subject: 'anna', refresh_token: 'refresh-token-1' };

async function setUp(t: TestContext, changes: Parameters<typeof makeProvider>[1] = {}, secret?: string) {
  const scripted = await startScriptedProvider(t);
  const { provider } = makeProvider(scripted.issuer, changes, secret);
  const refuse = (status: number, body: object | string, headers: Record<string, string> = {}) => {
    scripted.token = (_req, res) => {
      if (typeof body === 'object') return answerJson(res, status, body, headers);
      res.writeHead(status, { 'content-type': 'text/html', ...headers });
      res.end(body);
    };
  };
  return { scripted, provider, refuse, identify: () => provider.identify(CALLBACK, ATTEMPT) };
}

test('client id and secret stay as they are in the header, but for what a form could not hold', async (t) => {
  const seen: string[] = [];
  const cases: [string, string, string][] = [
    ['model-gateway', "kept.as_it-is~!*'()", "model-gateway:kept.as_it-is~!*'()"],
    ['my gateway', 'a:b+c/d=e%f&g', 'my+gateway:a%3Ab%2Bc%2Fd%3De%25f%26g'],
    ['gatewäy', 'sécret', 'gatew%C3%A4y:s%C3%A9cret'],
  ];
  for (const [client_id, secret] of cases) {
    const { scripted, identify } = await setUp(t, { client_id }, secret);
    const good = tokens(await scripted.sign(scripted.claims({ aud: client_id })));
    scripted.token = (req, res) => {
      const [scheme, credentials = ''] = (req.headers.authorization ?? '').split(' ');
      assert.equal(scheme, 'Basic');
      seen.push(Buffer.from(credentials, 'base64').toString());
      answerJson(res, 200, good);
    };
    await identify();
  }
  assert.deepEqual(
    seen,
    cases.map(([, , sent]) => sent),
  );
});

describe('a no of the token endpoint to the gateway says what to look at', () => {
  const cases: [string, number, string, RegExp][] = [
    [
      'a wrong id or secret',
      401,
      'invalid_client',
      /check auth\.oidc\.client_id \(gateway\) and the secret in OIDC_CLIENT_SECRET/,
    ],
    [
      'a secret it wants in another way',
      401,
      'invalid_client',
      /set auth\.oidc\.token_endpoint_auth_method to client_secret_post/,
    ],
    [
      'a wrong secret, as Keycloak has it',
      401,
      'unauthorized_client',
      /secret in OIDC_CLIENT_SECRET is wrong.*or.*may not use this grant type/,
    ],
    [
      'a code for another redirect URI',
      400,
      'invalid_grant',
      /another redirect URI than http:\/\/127\.0\.0\.1:9\/oauth\/callback/,
    ],
    ['a redirect URI it does not know', 400, 'invalid_request', /redirect URI http:.* is registered there/],
  ];
  for (const [name, status, error, message] of cases) {
    test(`after ${name}`, async (t) => {
      const { identify, refuse } = await setUp(t);
      refuse(status, { error }, { 'www-authenticate': 'Basic realm="id"' });
      const failure = await fails(identify(), 'invalid', message);
      assert.ok(!failure.message.includes(SECRET));
      assert.equal(failure.error, error);
    });
  }

  test('and names the way that is not in use', async (t) => {
    const { identify, refuse } = await setUp(t, { token_endpoint_auth_method: 'client_secret_post' });
    refuse(401, { error: 'invalid_client' });
    await fails(identify(), 'invalid', /token_endpoint_auth_method to client_secret_basic/);
  });
});

describe('a renewal that is refused without JSON', () => {
  const page = '<html><h1>Error</h1></html>';
  const bearer = { 'www-authenticate': 'Bearer error="invalid_token"' };
  const basic = { 'www-authenticate': 'Basic realm="id"' };
  const cases: [string, number, object | string, Record<string, string>, ProviderProblem][] = [
    ['is a no to the person with 400 and a page', 400, page, {}, 'refused'],
    ['is a no with 400 and nothing at all', 400, '', {}, 'refused'],
    ['is a no with 401 and a page', 401, page, {}, 'refused'],
    ['is a no with a challenge for another token', 401, page, bearer, 'refused'],
    ['is a no with JSON of another kind', 400, { message: 'no such session' }, {}, 'refused'],
    [
      'is a no with the JSON of the standard under another content type',
      400,
      '{"error":"invalid_grant"}',
      {},
      'refused',
    ],
    ['is a no with that behind a challenge', 401, { error: 'invalid_grant' }, basic, 'refused'],
    ['is about the gateway where the challenge is for its secret', 401, page, basic, 'invalid'],
    ['is about the gateway where JSON says so', 400, '{"error":"invalid_client"}', {}, 'invalid'],
    ['decides nothing with 403: a firewall answers so', 403, page, {}, 'invalid'],
    ['decides nothing with 404', 404, page, {}, 'invalid'],
    ['decides nothing with 429', 429, page, {}, 'unavailable'],
    ['decides nothing with 502', 502, page, {}, 'unavailable'],
    ['decides nothing with 200', 200, page, {}, 'invalid'],
    ['decides nothing with a redirect', 302, page, { location: '/login' }, 'invalid'],
  ];
  for (const [name, status, body, headers, problem] of cases) {
    test(name, async (t) => {
      const { provider, refuse } = await setUp(t);
      refuse(status, body, headers);
      await fails(provider.recheck(GRANT), problem, /./);
    });
  }

  test('says nothing about a person who is just signing in', async (t) => {
    const { identify, refuse } = await setUp(t);
    refuse(400, page);
    await fails(identify(), 'invalid', /HTTP 400 and something else than JSON/);
  });
});
