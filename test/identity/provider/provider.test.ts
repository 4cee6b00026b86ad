import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { StartError } from '../../../engine/base/contract/start-error.ts';
import type { ProviderProblem } from '../../../engine/domain/identity/provider/provider.ts';
import { CERTIFICATES, LOOPBACK_CERTIFICATE } from '../../support/certificates.ts';
import {
  type Endpoint,
  type Mode,
  startIdentityProvider,
  type TestIdentityProvider,
} from '../../support/identity/identity-provider.ts';
import {
  ATTEMPT,
  fails,
  makeProvider,
  REDIRECT_URI,
  SECRET,
  useProvider,
} from '../../support/identity/provider-client.ts';
import { answerJson, startScriptedProvider } from '../../support/identity/scripted-identity-provider.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { until } from '../../support/until.ts';

const endpointsAsked = ({ requests }: TestIdentityProvider) =>
  requests.map(({ endpoint }) => endpoint).filter((endpoint) => endpoint !== 'other' && endpoint !== 'authorization');

describe('a sign-in', () => {
  test('sends the browser to the provider with code, PKCE, state and nonce', async (t) => {
    const { provider, remote } = await useProvider(
      t,
      {},
      { authorization_parameters: { prompt: 'login', state: 'mine' } },
    );
    const url = await provider.authorizationUrl(ATTEMPT);
    assert.equal(url.origin, remote.issuer);
    const { code_challenge, ...rest } = Object.fromEntries(url.searchParams);
    assert.match(code_challenge ?? '', /^[\w-]{43}$/);
    assert.deepEqual(rest, {
      client_id: 'gateway',
      response_type: 'code',
      redirect_uri: REDIRECT_URI,
      scope: 'openid profile email offline_access',
      state: ATTEMPT.state,
      nonce: ATTEMPT.nonce,
      code_challenge_method: 'S256',
      prompt: 'login',
    });
  });

  test("ends with the user's claims and the grant for later checks", async (t) => {
    const { remote, signIn } = await useProvider(t);
    const { claims, grant } = await signIn('anna');
    const { iss, sub, email, email_verified, name, groups } = claims;
    const person = {
      email: 'Anna@example.com',
      email_verified: true,
      name: 'Anna Adler',
      groups: ['engineering', 'admins'],
    };
    assert.deepEqual({ iss, sub, email, email_verified, name, groups }, { iss: remote.issuer, sub: 'anna', ...person });
    assert.ok(!('nonce' in claims));
    assert.deepEqual(Object.keys(grant), ['subject', 'refresh_token', 'in_id_token']);
    assert.deepEqual(endpointsAsked(remote), ['discovery', 'token', 'jwks'], 'userinfo has nothing to add');
  });

  test('queries the userinfo endpoint for claims missing from the ID token', async (t) => {
    const { remote, signIn } = await useProvider(t, {}, { allowed_email_domains: ['example.com'] });
    for (const claim of ['email', 'email_verified', 'groups']) {
      remote.only_in_userinfo.clear();
      remote.only_in_userinfo.add(claim);
      remote.requests.length = 0;
      const { claims } = await signIn('anna');
      const { email, email_verified, groups } = claims;
      const all = { email: 'Anna@example.com', email_verified: true, groups: ['engineering', 'admins'] };
      assert.deepEqual({ email, email_verified, groups }, all, claim);
      assert.equal(endpointsAsked(remote).at(-1), 'userinfo', claim);
    }
  });

  test('learns from the userinfo endpoint that an address is not verified, also where that may be missing', async (t) => {
    const { remote, provider, signIn } = await useProvider(t);
    remote.only_in_userinfo.add('email_verified');
    remote.people.get('anna')!.email_verified = false;
    const { claims, grant } = await signIn('anna');
    assert.equal(claims.email_verified, false);
    remote.people.get('anna')!.email_verified = true;
    assert.equal((await provider.recheck(grant)).claims.email_verified, true);
  });

  test('finds groups that the provider keeps out of a token because they are many', async (t) => {
    const { remote, signIn } = await useProvider(t);
    Object.assign(remote.people.get('anna')!, {
      _claim_names: { groups: 'src1' },
      _claim_sources: { src1: { endpoint: 'https://graph.example.com/groups' } },
    });
    remote.only_in_userinfo.add('groups');
    const { claims } = await signIn('anna');
    assert.deepEqual(claims.groups, ['engineering', 'admins']);
  });

  test('requests offline_access only where the provider offers it, and always openid', async (t) => {
    const without = await useProvider(t, { refresh_tokens: false });
    const scopeOf = (url: URL) => url.searchParams.get('scope');
    assert.equal(scopeOf(await without.provider.authorizationUrl(ATTEMPT)), 'openid profile email');
    const own = makeProvider(without.remote.issuer, { scopes: ['email', 'groups'] });
    assert.equal(scopeOf(await own.provider.authorizationUrl(ATTEMPT)), 'openid email groups');
  });
});

describe('checking a user again', () => {
  test('keeps a reusable refresh token', async (t) => {
    const { provider, signIn } = await useProvider(t, { rotate_refresh_tokens: false });
    const { grant } = await signIn('anna');
    assert.deepEqual((await provider.recheck(grant)).grant, grant);
  });

  test('uses the access token without a refresh token, while it lives', async (t) => {
    const options = { refresh_tokens: false, access_token_seconds: 300 };
    const { remote, provider, signIn, clock } = await useProvider(t, options);
    const { grant } = await signIn('anna');
    assert.deepEqual(Object.keys(grant), ['subject', 'access_token', 'access_token_expires_at', 'in_id_token']);
    assert.equal(grant.access_token_expires_at, clock.now() + 300_000);
    remote.people.get('anna')!.groups = ['marketing'];
    const { claims, grant: same } = await provider.recheck(grant);
    assert.deepEqual([claims.iss, claims.sub, claims.groups], [remote.issuer, 'anna', ['marketing']]);
    assert.deepEqual(same, grant);
    remote.people.delete('anna');
    await fails(provider.recheck(grant), 'refused', /^userinfo endpoint: .*\(HTTP 401\)/);
    clock.advance(300_000);
    await fails(provider.recheck(grant), 'unaskable', /had no refresh token, and the access token has expired; let it/);
    await fails(provider.recheck({ subject: 'anna' }), 'unaskable', /has no refresh token/);
  });
});

describe('a failing provider', () => {
  const cases: [Mode, ProviderProblem, RegExp][] = [
    ['down', 'unavailable', /: the connection was cut$/],
    ['error500', 'unavailable', /HTTP 500/],
    ['garbage', 'invalid', /without JSON \(content-type: text\/html\)/],
  ];
  const endpoints: Endpoint[] = ['discovery', 'token', 'jwks', 'userinfo'];
  for (const [mode, problem, message] of cases) {
    test(`is distinguished from a rejection: ${mode}`, async (t) => {
      for (const endpoint of endpoints) {
        const { remote, provider, signIn } = await useProvider(t);
        remote.only_in_userinfo.add('groups');
        remote.setMode(mode, endpoint);
        if (endpoint === 'discovery') await fails(provider.authorizationUrl(ATTEMPT), problem, message);
        await fails(signIn('anna'), problem, message);
        remote.setMode('up', endpoint);
        const { grant } = await signIn('anna');
        remote.setMode(mode, endpoint);
        if (endpoint === 'discovery' || endpoint === 'jwks') await provider.recheck(grant);
        else {
          const failure = await fails(provider.recheck(grant), problem, message);
          remote.setMode('up', endpoint);
          await provider.recheck(failure.grant ?? grant);
        }
      }
    });
  }

  for (const mode of ['hang', 'slow_body'] as const) {
    test(`is waited for no longer than configured: ${mode}`, async (t) => {
      for (const endpoint of endpoints) {
        const { remote, signIn, clock } = await useProvider(t, {}, { timeout_seconds: 5 });
        remote.only_in_userinfo.add('groups');
        remote.setMode(mode, endpoint);
        const waiting = signIn('anna').catch((error: unknown) => error);
        await until(`${endpoint} is asked`, () => remote.requests.some((request) => request.endpoint === endpoint));
        clock.advance(5000);
        await fails(Promise.reject(await waiting), 'unavailable', /no complete response within 5 seconds/);
      }
    });
  }

  test('without TLS is accepted on the own machine only', async () => {
    const { provider } = makeProvider('http://id.example.com');
    await fails(provider.authorizationUrl(ATTEMPT), 'invalid', /only requests to HTTPS/);
  });
});

describe('the discovery document', () => {
  test('is not needed before a sign-in, then read once for all callers, again after an hour or a failure', async (t) => {
    const { remote, provider, clock } = await useProvider(t);
    const ask = () => provider.authorizationUrl(ATTEMPT);
    assert.equal(remote.requests.length, 0);
    remote.setMode('error500');
    await fails(ask(), 'unavailable', /HTTP 500/);
    remote.setMode('up');
    remote.requests.length = 0;
    await Promise.all([ask(), ask(), ask()]);
    clock.advance(3_599_999);
    await ask();
    assert.deepEqual(endpointsAsked(remote), ['discovery']);
    clock.advance(1);
    await ask();
    assert.deepEqual(endpointsAsked(remote), ['discovery', 'discovery']);
  });

  test('keeps serving while the provider is down, with a log line', async (t) => {
    const { remote, provider, clock, lines } = await useProvider(t);
    await provider.authorizationUrl(ATTEMPT);
    remote.setMode('down');
    clock.advance(3_600_000);
    await provider.authorizationUrl(ATTEMPT);
    await provider.authorizationUrl(ATTEMPT);
    assert.equal(endpointsAsked(remote).length, 2);
    assert.equal(lines.length, 1);
    assert.match(lines[0]!, /could not renew/);
    remote.setMode('up');
    clock.advance(60_000);
    await provider.authorizationUrl(ATTEMPT);
    assert.equal(endpointsAsked(remote).length, 3);
  });
});

describe('the gateway proves itself', () => {
  test('with the method that the provider supports, if it lists them', async (t) => {
    const scripted = await startScriptedProvider(t);
    const seen: unknown[] = [];
    scripted.token = (req, res, form) => {
      seen.push([/^Basic /.test(req.headers.authorization ?? ''), form.get('client_secret') === SECRET]);
      answerJson(res, 401, { error: 'invalid_client' });
    };
    const offers = [['client_secret_post'], ['client_secret_post', 'client_secret_basic'], ['private_key_jwt'], 7];
    for (const token_endpoint_auth_methods_supported of offers) {
      scripted.metadata = { token_endpoint_auth_methods_supported };
      const { provider } = makeProvider(scripted.issuer);
      await fails(provider.recheck({ subject: 'anna', refresh_token: 'r' }), 'invalid', /check auth\.oidc\.client_id/);
    }
    const [header, form] = [
      [true, false],
      [false, true],
    ];
    assert.deepEqual(seen, [form, header, header, header]);
  });

  const with_key = { private_key_env: 'OIDC_PRIVATE_KEY' };
  const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString();
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ed = generateKeyPairSync('ed25519');
  const keys = {
    'an RSA key in PEM': [pem(rsa.privateKey), rsa.publicKey, 'RS256'],
    'an RSA key as a JWK for PS256': [
      JSON.stringify({ ...rsa.privateKey.export({ format: 'jwk' }), alg: 'PS256', kid: 'kid-of-jwk' }),
      rsa.publicKey,
      'PS256',
    ],
    'an EC key in PEM': [pem(ec.privateKey), ec.publicKey, 'ES256'],
    'an Ed25519 key in PEM': [pem(ed.privateKey), ed.publicKey, 'Ed25519'],
  } as const;
  for (const [name, [secret, public_key, alg]] of Object.entries(keys)) {
    test(`with ${name}`, async (t) => {
      const kid = alg === 'PS256' ? 'kid-of-jwk' : 'kid-1';
      const client_key = { ...public_key.export({ format: 'jwk' }), alg, kid, use: 'sig' };
      const method = 'private_key_jwt' as const;
      const changes = { ...with_key, ...(kid === 'kid-1' && { private_key_id: kid }) };
      const { remote, signIn } = await useProvider(
        t,
        { token_endpoint_auth_method: method, client_key },
        changes,
        secret,
      );
      assert.equal((await signIn('anna')).claims.sub, 'anna');
      const { body } = remote.requests.find(({ endpoint }) => endpoint === 'token')!;
      const assertion = new URLSearchParams(body).get('client_assertion') ?? '';
      assert.deepEqual(JSON.parse(Buffer.from(assertion.split('.')[0]!, 'base64url').toString()), { alg, kid });
    });
  }

  test('and reports at the start when its key is useless, without showing it', () => {
    const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
    const odd = generateKeyPairSync('ec', { namedCurve: 'secp256k1' });
    const passphrase = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' } as const;
    const cases: [string, RegExp][] = [
      ['the-secret-that-is-no-key', /can't be read: expected PKCS #8/],
      ['{"kty":"the-secret-that-is-no-key"', /can't be read/],
      ['{"kty":"the-secret-that-is-no-key"}', /can't be read/],
      [JSON.stringify(ec.publicKey.export({ format: 'jwk' })), /can't be read/],
      [rsa.privateKey.export(passphrase).toString(), /without a passphrase/],
      [pem(small.privateKey), /unsupported type \(rsa 1024\): expected RSA of at least 2048 bits/],
      [pem(odd.privateKey), /unsupported type \(ec secp256k1\)/],
      [pem(generateKeyPairSync('x25519').privateKey), /unsupported type \(x25519\)/],
    ];
    for (const [secret, message] of cases) {
      const make = () => makeProvider('https://id.example.com', with_key, secret);
      assert.throws(make, (error) => {
        assert.ok(error instanceof StartError && error.exit_code === 78);
        assert.match(error.message, message);
        assert.match(error.message, /OIDC_PRIVATE_KEY/);
        assert.doesNotMatch(error.stack ?? '', /the-secret-that/);
        return true;
      });
    }
  });
});

describe('certificates', () => {
  const directory = ownDirectory();
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };

  test('of an authority that only the configuration names are trusted', async (t) => {
    const remote = await startIdentityProvider({ tls: LOOPBACK_CERTIFICATE });
    t.after(() => remote.close());
    const ca_file = file(
      'ca.pem',
      `# ours
${CERTIFICATES.second.cert}
${LOOPBACK_CERTIFICATE.cert}`,
    );
    const trusting = makeProvider(remote.issuer, { ca_file });
    assert.equal((await trusting.provider.authorizationUrl(ATTEMPT)).origin, remote.issuer);
    const { provider } = makeProvider(remote.issuer);
    await fails(
      provider.authorizationUrl(ATTEMPT),
      'invalid',
      /not trusted: it is self-signed; set auth\.oidc\.ca_file/,
    );
  });

  test('are valid only for their own name', async (t) => {
    const remote = await startIdentityProvider({ tls: CERTIFICATES.first });
    t.after(() => remote.close());
    const ca_file = file('ca.pem', CERTIFICATES.first.cert);
    const { provider } = makeProvider(remote.issuer, { ca_file });
    await fails(provider.authorizationUrl(ATTEMPT), 'invalid', /its certificate is for another host$/);
  });

  test('that can not be read are named at the start', () => {
    const damaged = CERTIFICATES.second.cert.replace(/MII.{20}/, 'AAAA');
    const cases: [string, RegExp][] = [
      [join(directory, 'missing.pem'), /missing\.pem .*can't be read: ENOENT/],
      [file('empty.pem', 'nothing'), /contains no certificate/],
      [file('damaged.pem', `${CERTIFICATES.first.cert}${damaged}`), /certificate number 2 can't be read/],
    ];
    for (const [ca_file, message] of cases) {
      assert.throws(
        () => makeProvider('https://id.example.com', { ca_file }),
        (error) => {
          assert.ok(error instanceof StartError && error.exit_code === 78);
          assert.match(error.message, message);
          return true;
        },
      );
    }
  });
});
