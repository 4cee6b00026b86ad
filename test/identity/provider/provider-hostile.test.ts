import assert from 'node:assert/strict';
import { createHmac, createPublicKey, type JsonWebKey } from 'node:crypto';
import { describe, type TestContext, test } from 'node:test';
import { ProviderError, type ProviderProblem } from '../../../engine/domain/identity/provider/provider.ts';
import { ATTEMPT, fails, makeProvider, REDIRECT_URI, SECRET } from '../../support/identity/provider-client.ts';
import {
  answerJson,
  NONCE,
  type ScriptedProvider,
  startScriptedProvider,
  tokens,
} from '../../support/identity/scripted-identity-provider.ts';

const CALLBACK = new URL(`${REDIRECT_URI}?code=code-of-this-attempt&state=${ATTEMPT.state}`);

const SECRETS = [SECRET, 'code-of-this-attempt', NONCE, ATTEMPT.state, ATTEMPT.code_verifier, 'access-token-1'];

const GRANT = { subject: 'anna', refresh_token: 'refresh-token-1' };

async function setUp(t: TestContext, changes: Parameters<typeof makeProvider>[1] = {}, secret?: string) {
  const scripted = await startScriptedProvider(t);
  const made = makeProvider(scripted.issuer, changes, secret);
  const refuse = (status: number, body: object | string, headers: Record<string, string> = {}) => {
    scripted.token = (_req, res) => {
      if (typeof body === 'object') return answerJson(res, status, body, headers);
      res.writeHead(status, { 'content-type': 'text/html', ...headers });
      res.end(body);
    };
  };
  const count = (path: string) => scripted.requests.filter((each) => each === path).length;
  return { scripted, ...made, refuse, count, identify: () => made.provider.identify(CALLBACK, ATTEMPT) };
}

async function refusal(promise: Promise<unknown>, problem: ProviderProblem, message: RegExp): Promise<ProviderError> {
  const error = await fails(promise, problem, message);
  for (const secret of SECRETS) {
    assert.ok(!`${error.message} ${JSON.stringify(error)} ${error.stack}`.includes(secret), error.message);
  }
  return error;
}

describe('rejects an ID token', () => {
  const cases: Record<string, [(scripted: ScriptedProvider) => Promise<string | undefined>, RegExp]> = {
    'without a signature': [async (s) => `${base64url({ alg: 'none' })}.${base64url(s.claims())}.`, /JWT "alg"/],
    'signed with a key the provider does not have': [(s) => s.forge(s.claims()), /signature verification failed/],
    'signed with a key of another name': [(s) => s.forge(s.claims(), { kid: 'key-9' }), /no applicable keys/],
    'whose signature was made with the public key as a secret': [signedWithPublicKey, /unexpected JWT "alg"/],
    'of another issuer': [(s) => s.sign(s.claims({ iss: 'https://evil.example.com' })), /"iss"/],
    'for another client': [(s) => s.sign(s.claims({ aud: 'somebody-else' })), /"aud"/],
    'for several clients': [(s) => s.sign(s.claims({ aud: ['gateway', 'somebody-else'] })), /untrusted audiences/],
    'of another attempt': [(s) => s.sign(s.claims({ nonce: 'nonce-of-another-attempt' })), /"nonce"/],
    'without a nonce': [(s) => s.sign(s.claims({ nonce: undefined })), /nonce/],
    'that has expired': [(s) => s.sign(s.claims({ exp: Math.floor(Date.now() / 1000) - 31 })), /"exp".*clock_skew/],
    'without a subject': [(s) => s.sign(s.claims({ sub: undefined })), /sub/],
    'with unknown critical headers': [(s) => s.sign(s.claims(), { crit: ['b64'], b64: true }), /crit/],
    'that is none': [async () => 'eyJ.not.one', /token endpoint/],
    'that is not there': [async () => undefined, /id_token/],
  };
  for (const [name, [make, message]] of Object.entries(cases)) {
    test(name, async (t) => {
      const { scripted, identify } = await setUp(t);
      scripted.token = tokens(await make(scripted));
      await refusal(identify(), 'invalid', message);
      scripted.token = tokens(await scripted.sign(scripted.claims()));
      assert.equal((await identify()).claims.sub, 'anna', 'a valid one is accepted afterwards');
    });
  }

  test('when there is none', async (t) => {
    const { scripted, identify } = await setUp(t);
    scripted.token = tokens(undefined);
    await refusal(identify(), 'invalid', /id_token/);
  });

  test('signed with a shared secret even where the provider declares that', async (t) => {
    const { scripted, identify } = await setUp(t);
    scripted.metadata = { id_token_signing_alg_values_supported: ['HS256', 'ES256'] };
    scripted.token = tokens(await signedWithPublicKey(scripted));
    await refusal(identify(), 'invalid', /unsupported/);
  });

  test('for the time between two clocks only within the configured skew', async (t) => {
    const { scripted, identify } = await setUp(t, { clock_skew_seconds: 120 });
    scripted.token = tokens(await scripted.sign(scripted.claims({ exp: Math.floor(Date.now() / 1000) - 100 })));
    assert.equal((await identify()).claims.sub, 'anna');
    scripted.token = tokens(await scripted.sign(scripted.claims({ exp: Math.floor(Date.now() / 1000) - 130 })));
    await refusal(identify(), 'invalid', /"exp"/);
  });
});

describe('a provider that uses new signing keys within a minute', () => {
  for (const kid of ['key-2', 'key-1']) {
    test(`fails no sign-in or renewal, ${kid === 'key-1' ? 'even if the new key is named as the old' : 'whatever its name'}`, async (t) => {
      const { scripted, provider, identify, count } = await setUp(t);
      scripted.token = tokens(await scripted.sign(scripted.claims()));
      await identify();
      await scripted.rotateKey(kid);
      scripted.token = tokens(await scripted.sign(scripted.claims()));
      assert.equal((await identify()).claims.sub, 'anna');
      assert.deepEqual([count('/token'), count('/jwks')], [2, 2], 'a code is redeemed once');
      await scripted.rotateKey(kid === 'key-1' ? kid : 'key-3');
      scripted.token = tokens(await scripted.sign(scripted.claims()), { refresh_token: 'refresh-token-2' });
      const { grant } = await provider.recheck(GRANT);
      assert.equal(grant.refresh_token, 'refresh-token-2');
      assert.deepEqual([count('/token'), count('/jwks')], [3, 3]);
    });
  }

  test('and signs with unpublished keys is queried for them a few times a minute, not for each sign-in', async (t) => {
    const { scripted, identify, clock, count } = await setUp(t);
    scripted.token = tokens(await scripted.sign(scripted.claims()));
    await identify();
    for (let attempt = 0; attempt < 30; attempt++) {
      scripted.token = tokens(await scripted.forge(scripted.claims(), { kid: `made-up-${attempt}` }));
      await fails(identify(), 'invalid', /no applicable keys/);
    }
    assert.equal(count('/jwks'), 1 + 6);
    scripted.token = tokens(await scripted.sign(scripted.claims()));
    assert.equal((await identify()).claims.sub, 'anna', 'valid keys are still known');
    assert.equal(count('/jwks'), 1 + 6);
    clock.advance(10_000);
    await scripted.rotateKey('key-2');
    scripted.token = tokens(await scripted.sign(scripted.claims()));
    assert.equal((await identify()).claims.sub, 'anna');
  });

  test('and is unreachable for them leaves the old ones valid', async (t) => {
    const { scripted, identify } = await setUp(t);
    const good = tokens(await scripted.sign(scripted.claims()));
    scripted.token = good;
    await identify();
    scripted.token = tokens(await scripted.forge(scripted.claims(), { kid: 'key-9' }));
    scripted.jwks = (_req, res) => void res.socket?.destroy();
    await fails(identify(), 'unavailable', /jwks/);
    scripted.token = good;
    assert.equal((await identify()).claims.sub, 'anna');
  });
});

test('an ID token may be signed in any way but with a shared secret where the provider does not list its ways', async (t) => {
  const { scripted, identify } = await setUp(t);
  scripted.metadata = { id_token_signing_alg_values_supported: undefined };
  scripted.token = tokens(await scripted.sign(scripted.claims()));
  assert.equal((await identify()).claims.sub, 'anna');
  for (const bad of [await signedWithPublicKey(scripted), `${base64url({ alg: 'none' })}.${base64url({})}.`]) {
    scripted.token = tokens(bad);
    await refusal(identify(), 'invalid', /unexpected JWT "alg"/);
  }
});

describe('rejects the response of the authorization endpoint', () => {
  const cases: Record<string, [string, ProviderProblem, RegExp]> = {
    'with another state': ['code=abcd&state=state-of-another', 'invalid', /"state"/],
    'without a state': ['code=abcd', 'invalid', /"state"/],
    'with two codes': [`code=abcd&code=efgh&state=${ATTEMPT.state}`, 'invalid', /only once/],
    'that names another issuer': [`code=abcd&state=${ATTEMPT.state}&iss=https://evil.example.com`, 'invalid', /"iss"/],
    'that is a no': [`error=access_denied&state=${ATTEMPT.state}`, 'refused', /access_denied/],
    'that fails itself': [`error=temporarily_unavailable&state=${ATTEMPT.state}`, 'unavailable', /temporarily/],
    'that complains about the gateway': [`error=invalid_scope&state=${ATTEMPT.state}`, 'invalid', /invalid_scope/],
  };
  for (const [name, [query, problem, message]] of Object.entries(cases)) {
    test(name, async (t) => {
      const { scripted, provider } = await setUp(t);
      await refusal(provider.identify(new URL(`${REDIRECT_URI}?${query}`), ATTEMPT), problem, message);
      assert.ok(!scripted.requests.includes('/token'), 'no code is redeemed');
    });
  }
});

describe('the token endpoint', () => {
  test('can repeat secrets in its description without them getting anywhere', async (t) => {
    const { scripted, identify } = await setUp(t, { token_endpoint_auth_method: 'client_secret_post' });
    scripted.token = (_req, res, form) => {
      const error_description = `wrong: ${form.get('client_secret')} ${form.get('code')}\r\nforged: log line\u001b[2J`;
      answerJson(res, 400, { error: 'invalid_grant', error_description });
    };
    const { message } = await refusal(identify(), 'invalid', /invalid_grant: wrong: \[secret\] \[secret\] forged/);
    assert.doesNotMatch(message, /\p{Cc}/u);
  });

  test('is aborted when its response is endless', async (t) => {
    const { scripted, identify } = await setUp(t);
    scripted.token = (_req, res) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      const more = () => {
        while (res.write(' '.repeat(65_536)));
      };
      res.on('drain', more);
      more();
    };
    await refusal(identify(), 'invalid', /longer than 1 MiB/);
  });

  test('leads nowhere else', async (t) => {
    const { scripted, identify } = await setUp(t);
    scripted.token = (_req, res) => {
      res.writeHead(307, { location: `${scripted.issuer}/userinfo` });
      res.end();
    };
    await refusal(identify(), 'invalid', /307, a redirect/);
    assert.ok(!scripted.requests.includes('/userinfo'));
  });
});

describe('the userinfo endpoint', () => {
  test('is not believed about another user', async (t) => {
    const { scripted, identify } = await setUp(t);
    scripted.token = tokens(await scripted.sign(scripted.claims({ groups: undefined })));
    scripted.userinfo = { sub: 'ben', groups: ['admins'] };
    await refusal(identify(), 'invalid', /"sub"/);
  });

  test('that rejects a fresh access token reports nothing about the user', async (t) => {
    const { scripted, identify, provider } = await setUp(t);
    scripted.token = tokens(await scripted.sign(scripted.claims({ groups: undefined })));
    for (const status of [401, 403]) {
      scripted.userinfo = (_req, res) => answerJson(res, status, {}, { 'www-authenticate': 'Bearer' });
      await refusal(identify(), 'invalid', /^userinfo endpoint: .*HTTP 40/);
    }
    await refusal(
      provider.recheck({ subject: 'anna', access_token: 'old-token' }),
      'refused',
      /no longer accepts .* \(HTTP 403\)/,
    );
  });

  test('that only reports the verification may be missing or false, but not without a response', async (t) => {
    const { scripted, identify, provider } = await setUp(t, { email_verification: 'if_stated' });
    scripted.token = tokens(await scripted.sign(scripted.claims()), { refresh_token: 'refresh-token-2' });
    scripted.userinfo = (_req, res) => answerJson(res, 403, {}, { 'www-authenticate': 'Bearer' });
    for (const { claims } of [await identify(), await provider.recheck(GRANT)]) {
      assert.deepEqual([claims.email, 'email_verified' in claims], ['anna@example.com', false]);
    }
    scripted.userinfo = (_req, res) => answerJson(res, 503, {});
    await refusal(identify(), 'unavailable', /userinfo.*HTTP 503/);
    assert.equal((await refusal(provider.recheck(GRANT), 'unavailable', /./)).grant?.refresh_token, 'refresh-token-2');
    scripted.userinfo = { sub: 'ben', email: 'anna@example.com', email_verified: true };
    await refusal(identify(), 'invalid', /"sub"/);
    scripted.metadata = { userinfo_endpoint: undefined };
    assert.equal((await makeProvider(scripted.issuer).provider.identify(CALLBACK, ATTEMPT)).claims.sub, 'anna');
  });

  test('that rejects is no way around a required verification', async (t) => {
    const { scripted, identify } = await setUp(t);
    scripted.token = tokens(await scripted.sign(scripted.claims()));
    scripted.userinfo = (_req, res) => answerJson(res, 403, {}, { 'www-authenticate': 'Bearer' });
    await refusal(identify(), 'invalid', /^userinfo endpoint/);
  });
});

describe('a refresh', () => {
  test('with the ID token of another user is rejected', async (t) => {
    const { scripted, provider } = await setUp(t);
    scripted.token = tokens(await scripted.sign(scripted.claims({ sub: 'ben' })));
    await refusal(provider.recheck(GRANT), 'invalid', /about another person/);
  });

  test('without an ID token queries the userinfo endpoint', async (t) => {
    const { scripted, provider } = await setUp(t);
    scripted.token = tokens(undefined, { refresh_token: 'refresh-token-2' });
    scripted.userinfo = { sub: 'anna', email: 'anna@example.com', groups: ['staff'], iss: 'https://evil.example.com' };
    const { scopes: _, ...found } = await provider.recheck(GRANT);
    assert.deepEqual(found, {
      claims: { sub: 'anna', email: 'anna@example.com', groups: ['staff'], iss: scripted.issuer },
      grant: { subject: 'anna', refresh_token: 'refresh-token-2' },
    });
    scripted.metadata = { userinfo_endpoint: undefined };
    const other = makeProvider(scripted.issuer).provider;
    await refusal(other.recheck(GRANT), 'invalid', /no ID token/);
  });

  test('does not treat claims only in ID tokens as removed when there is none', async (t) => {
    const { scripted, provider } = await setUp(t);
    const grant = { ...GRANT, in_id_token: ['email', 'groups'] };
    scripted.userinfo = { sub: 'anna', email: 'anna@example.com' };
    scripted.token = tokens(undefined);
    await refusal(provider.recheck(grant), 'unaskable', /omits groups, which only the ID token has/);
    const { subject, in_id_token } = grant;
    const without_refresh_token = { subject, access_token: 'access-token-1', in_id_token };
    await refusal(provider.recheck(without_refresh_token), 'unaskable', /omits groups, which only the ID token has/);
    scripted.token = tokens(await scripted.sign(scripted.claims({ groups: undefined })));
    assert.equal((await provider.recheck(grant)).claims.groups, undefined, 'a new ID token has the last word');
  });

  test('returns the new refresh token also when something fails afterwards', async (t) => {
    const { scripted, provider } = await setUp(t);
    scripted.token = tokens(await scripted.sign(scripted.claims({ groups: undefined })), {
      refresh_token: 'refresh-token-2',
    });
    const next = { subject: 'anna', refresh_token: 'refresh-token-2' };
    scripted.userinfo = (_req, res) => void res.socket?.destroy();
    const down = await refusal(provider.recheck(GRANT), 'unavailable', /GET .*userinfo/);
    assert.deepEqual(down.grant, next);
    assert.ok(!JSON.stringify(down).includes('refresh-token-2'));
    scripted.token = tokens(await scripted.forge(scripted.claims()), { refresh_token: 'refresh-token-2' });
    assert.deepEqual((await refusal(provider.recheck(GRANT), 'invalid', /signature/)).grant, next);
    scripted.token = (_req, res) => answerJson(res, 400, { error: 'invalid_grant' });
    assert.equal((await refusal(provider.recheck(GRANT), 'refused', /invalid_grant/)).grant, undefined);
  });
});

describe('rejects the discovery document', () => {
  test('of another issuer', async (t) => {
    const { scripted, identify } = await setUp(t);
    for (const issuer of ['nonsense\u001b[2J', 7]) {
      scripted.metadata = { issuer };
      await refusal(identify(), 'invalid', /discovery document/);
    }
    for (const issuer of ['https://evil.example.com', `${scripted.issuer}/tenant/`]) {
      scripted.metadata = { issuer };
      const { message } = await refusal(
        identify(),
        'invalid',
        /^discovery document: .*auth\.oidc\.issuer_url to exactly/,
      );
      assert.ok(message.includes(`"${issuer}", not "${scripted.issuer}/"`), message);
    }
  });

  test('that leads out of the machine without TLS', async (t) => {
    const { scripted, identify } = await setUp(t);
    scripted.metadata = { token_endpoint: 'http://192.0.2.1/token' };
    await refusal(identify(), 'invalid', /must have an https address/);
  });

  test('with values of any shape, or read where they do no harm', async (t) => {
    const keys = ['authorization_endpoint', 'token_endpoint', 'jwks_uri', 'userinfo_endpoint', 'scopes_supported'];
    const more = ['id_token_signing_alg_values_supported', 'authorization_response_iss_parameter_supported'];
    for (const key of [...keys, ...more]) {
      for (const value of [7, null, '', {}, ['x'], 'javascript:alert(1)', 'http://user:pass@192.0.2.1/']) {
        const { scripted, provider, identify } = await setUp(t);
        scripted.metadata = { [key]: value };
        scripted.token = tokens(await scripted.sign(scripted.claims()));
        for (const each of [() => provider.authorizationUrl(ATTEMPT), identify]) {
          const failure = await each().catch((error: unknown) => error);
          assert.ok(!(failure instanceof Error) || failure instanceof ProviderError, `${key}: ${failure}`);
          if (failure instanceof URL) assert.equal(failure.protocol, 'http:', `${key}: ${failure}`);
        }
      }
    }
  });

  test('without an authorization endpoint', async (t) => {
    const { scripted, provider } = await setUp(t);
    scripted.metadata = { authorization_endpoint: undefined };
    await refusal(provider.authorizationUrl(ATTEMPT), 'invalid', /authorization_endpoint/);
  });
});

test('client id and secret stay literal in the header, except for form encoding', async (t) => {
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

describe('a rejection by the token endpoint suggests what to check', () => {
  const cases: [string, number, string, RegExp][] = [
    ['a wrong id or secret', 401, 'invalid_client', /check auth\.oidc\.client_id \(gateway\) and the secret in OIDC_/],
    ['a secret it wants in another way', 401, 'invalid_client', /token_endpoint_auth_method to client_secret_post/],
    ['a wrong secret, as Keycloak has it', 401, 'unauthorized_client', /the grant types.*the secret in OIDC_CLIENT_/],
    ['a code for another redirect URI', 400, 'invalid_grant', /another redirect URI than http:.*:9\/oauth\/callback/],
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

describe('a renewal that is rejected without JSON', () => {
  const page = '<html><h1>Error</h1></html>';
  const bearer = { 'www-authenticate': 'Bearer error="invalid_token"' };
  const basic = { 'www-authenticate': 'Basic realm="id"' };
  const cases: [string, number, object | string, Record<string, string>, ProviderProblem][] = [
    ['is a no to the person with 400 and a page', 400, page, {}, 'refused'],
    ['is a no with 401 and a page', 401, page, {}, 'refused'],
    ['is a no with a challenge for another token', 401, page, bearer, 'refused'],
    ['is a no with JSON of another kind', 400, { message: 'no such session' }, {}, 'refused'],
    ['is a no with the standard JSON under another content type', 400, '{"error":"invalid_grant"}', {}, 'refused'],
    ['is a no with that behind a challenge', 401, { error: 'invalid_grant' }, basic, 'refused'],
    ['is about the gateway where the challenge is for its secret', 401, page, basic, 'invalid'],
    ['is about the gateway where JSON says so', 400, '{"error":"invalid_client"}', {}, 'invalid'],
    ['decides nothing with 403: a firewall answers so', 403, page, {}, 'invalid'],
    ['decides nothing with 429', 429, page, {}, 'unavailable'],
    ['decides nothing with 502', 502, page, {}, 'unavailable'],
    ['decides nothing with 200', 200, page, {}, 'invalid'],
  ];
  for (const [name, status, body, headers, problem] of cases) {
    test(name, async (t) => {
      const { provider, refuse } = await setUp(t);
      refuse(status, body, headers);
      await fails(provider.recheck(GRANT), problem, /./);
    });
  }

  test('reports nothing about a user who is just signing in', async (t) => {
    const { identify, refuse } = await setUp(t);
    refuse(400, page);
    await fails(identify(), 'invalid', /HTTP 400 without JSON/);
  });
});

function base64url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** The attack that works where a verifier takes the algorithm from the token and the key from the provider. */
async function signedWithPublicKey(scripted: ScriptedProvider): Promise<string> {
  const { keys } = scripted.jwks as { keys: JsonWebKey[] };
  const pem = createPublicKey({ key: keys[0]!, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  const signed = `${base64url({ alg: 'HS256', kid: 'key-1' })}.${base64url(scripted.claims())}`;
  return `${signed}.${createHmac('sha256', pem).update(signed).digest('base64url')}`;
}
