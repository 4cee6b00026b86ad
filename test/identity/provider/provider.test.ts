import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ProviderProblem } from '../../../engine/identity/provider/provider.ts';
import {
  approveAt,
  denyAt,
  type Endpoint,
  type Mode,
  type TestIdentityProvider,
} from '../../support/identity/identity-provider.ts';
import { ATTEMPT, fails, makeProvider, REDIRECT_URI, useProvider } from '../../support/identity/provider-client.ts';
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

  test('ends with the claims of the person and what it takes to ask again', async (t) => {
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

  test('asks the userinfo endpoint for what the ID token leaves out', async (t) => {
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

  test('that the person declines is refused', async (t) => {
    const { provider } = await useProvider(t);
    const callback = await denyAt(await provider.authorizationUrl(ATTEMPT));
    await fails(provider.identify(callback, ATTEMPT), 'refused', /^authorization response: access_denied/);
  });

  test('needs the verifier it began with, and takes its code once', async (t) => {
    const { provider } = await useProvider(t);
    const callback = await approveAt(await provider.authorizationUrl(ATTEMPT), 'anna');
    const stolen = { ...ATTEMPT, code_verifier: 'v'.repeat(43) };
    await fails(provider.identify(callback, stolen), 'invalid', /^token endpoint: invalid_grant/);
    const again = await approveAt(await provider.authorizationUrl(ATTEMPT), 'anna');
    await provider.identify(again, ATTEMPT);
    await fails(provider.identify(again, ATTEMPT), 'invalid', /^token endpoint: invalid_grant/);
  });

  test('asks for offline_access only where the provider offers it, and always for openid', async (t) => {
    const without = await useProvider(t, { refresh_tokens: false });
    const scopeOf = (url: URL) => url.searchParams.get('scope');
    assert.equal(scopeOf(await without.provider.authorizationUrl(ATTEMPT)), 'openid profile email');
    const own = makeProvider(without.remote.issuer, { scopes: ['email', 'groups'] });
    assert.equal(scopeOf(await own.provider.authorizationUrl(ATTEMPT)), 'openid email groups');
  });
});

describe('asking about a person again', () => {
  test('finds changed groups by the refresh token, which is replaced each time', async (t) => {
    const { remote, provider, signIn } = await useProvider(t);
    const first = (await signIn('anna')).grant;
    remote.people.get('anna')!.groups = ['marketing'];
    const { claims, grant } = await provider.recheck(first);
    assert.deepEqual([claims.iss, claims.sub, claims.groups], [remote.issuer, 'anna', ['marketing']]);
    assert.ok(!('nonce' in claims));
    assert.notEqual(grant.refresh_token, first.refresh_token);
    await provider.recheck(grant);
    await fails(provider.recheck(first), 'refused', /^token endpoint: invalid_grant/);
  });

  test('keeps a refresh token that the provider lets live', async (t) => {
    const { provider, signIn } = await useProvider(t, { rotate_refresh_tokens: false });
    const { grant } = await signIn('anna');
    assert.deepEqual((await provider.recheck(grant)).grant, grant);
  });

  test('refuses somebody who is gone', async (t) => {
    const { remote, provider, signIn } = await useProvider(t);
    const { grant } = await signIn('anna');
    remote.people.delete('anna');
    await fails(provider.recheck(grant), 'refused', /^token endpoint: invalid_grant/);
  });

  test('goes by the access token where there is no refresh token, while that lives', async (t) => {
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
    await fails(provider.recheck(grant), 'unaskable', /gave no refresh token, and access has expired; let it/);
    await fails(provider.recheck({ subject: 'anna' }), 'unaskable', /gave no refresh token/);
  });
});

describe('a provider in trouble', () => {
  const cases: [Mode, ProviderProblem, RegExp][] = [
    ['down', 'unavailable', /: the connection was cut$/],
    ['error500', 'unavailable', /HTTP 500/],
    ['garbage', 'invalid', /something else than JSON \(content-type: text\/html\)/],
  ];
  const endpoints: Endpoint[] = ['discovery', 'token', 'jwks', 'userinfo'];
  for (const [mode, problem, message] of cases) {
    test(`is told from one that says no: ${mode}`, async (t) => {
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
        await fails(Promise.reject(await waiting), 'unavailable', /no complete answer within 5 seconds/);
      }
    });
  }

  test('that cannot be reached at all is not available', async () => {
    const { provider } = makeProvider('http://127.0.0.1:9');
    await fails(provider.authorizationUrl(ATTEMPT), 'unavailable', /GET http:.*: connection refused$/);
  });

  test('without TLS is taken on the own machine only', async () => {
    const { provider } = makeProvider('http://id.example.com');
    await fails(provider.authorizationUrl(ATTEMPT), 'invalid', /only requests to HTTPS/);
  });
});

test('a refresh token that was replaced before something failed is not lost, even on a gateway that has no keys yet', async (t) => {
  const { remote, signIn } = await useProvider(t);
  const { grant } = await signIn('anna');
  const { provider: replica } = makeProvider(remote.issuer, {}, remote.client_secret);
  remote.setMode('down', 'jwks');
  const failure = await fails(replica.recheck(grant), 'unavailable', /GET .*jwks/);
  remote.setMode('up', 'jwks');
  assert.equal((await replica.recheck(failure.grant!)).claims.sub, 'anna');
  await fails(replica.recheck(grant), 'refused', /invalid_grant/);
});

describe('the discovery document', () => {
  test('is read once for everybody, and again after an hour', async (t) => {
    const { remote, provider, clock } = await useProvider(t);
    const ask = () => provider.authorizationUrl(ATTEMPT);
    await Promise.all([ask(), ask(), ask()]);
    clock.advance(3_599_999);
    await ask();
    assert.deepEqual(endpointsAsked(remote), ['discovery']);
    clock.advance(1);
    await ask();
    assert.deepEqual(endpointsAsked(remote), ['discovery', 'discovery']);
  });

  test('is not needed before a sign-in, and a failure to read it is not kept', async (t) => {
    const { remote, provider } = await useProvider(t);
    assert.equal(remote.requests.length, 0);
    remote.setMode('error500');
    await fails(provider.authorizationUrl(ATTEMPT), 'unavailable', /HTTP 500/);
    remote.setMode('up');
    await provider.authorizationUrl(ATTEMPT);
  });

  test('serves on while the provider is down, with a word in the log', async (t) => {
    const { remote, provider, clock, lines } = await useProvider(t);
    await provider.authorizationUrl(ATTEMPT);
    remote.setMode('down');
    clock.advance(3_600_000);
    await provider.authorizationUrl(ATTEMPT);
    await provider.authorizationUrl(ATTEMPT);
    assert.equal(endpointsAsked(remote).length, 2);
    assert.equal(lines.length, 1);
    assert.match(lines[0]!, /could not be renewed/);
    remote.setMode('up');
    clock.advance(60_000);
    await provider.authorizationUrl(ATTEMPT);
    assert.equal(endpointsAsked(remote).length, 3);
  });
});
