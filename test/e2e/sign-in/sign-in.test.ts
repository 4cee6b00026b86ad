import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import * as oauth from 'openid-client';
import { PEOPLE } from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, confirmInBrowser, pollWith, SIGNING_KEY } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({ frozen: true, oidc: { allowed_groups: ['engineering'], timeout_seconds: 5 } });
const { use, statusOf, refused, renew, revoke, configure } = scene;

beforeEach(() => configure());

describe('a user who signs in', () => {
  it('uses the gateway, renews the session token, signs out', async () => {
    const { gateway } = scene;
    const first = await scene.signIn('anna');
    assert.deepEqual([first.expires_in, first.email], [3600, 'anna@example.com']);
    assert.equal(await statusOf(first.access_token), 200);
    assert.equal((await ask(gateway.url, first.access_token)).status, 200);

    const second = await renew(first.refresh_token);
    assert.equal(second.status, 200);
    assert.equal(await statusOf(second.body.access_token), 200);

    assert.equal((await revoke(second.body.access_token)).status, 200);
    const refusal = await use(second.body.access_token);
    assert.deepEqual([refusal.status, refusal.headers['x-should-retry']], [401, 'false'], 'by the very next request');
    assert.equal(refusal.json().error.code, 'credential_revoked');
    assert.equal((await renew(second.body.refresh_token)).status, 401);
  });

  it('does so with a device client that knows OAuth and nothing of this gateway', async () => {
    const client = await oauth.discovery(new URL(scene.gateway.url), 'any-client', undefined, oauth.None(), {
      algorithm: 'oauth2',
      execute: [oauth.allowInsecureRequests],
    });
    const begun = await oauth.initiateDeviceAuthorization(client, { scope: 'openid profile' });
    await confirmInBrowser(scene.gateway.url, begun.user_code, 'anna');
    // The first poll comes after an interval, and one that is early slows no client down when all is decided.
    const first = await oauth.pollDeviceAuthorizationGrant(client, { ...begun, interval: 0.01 });
    const second = await oauth.refreshTokenGrant(client, first.refresh_token!);
    assert.notEqual(second.refresh_token, first.refresh_token);
    await oauth.tokenRevocation(client, second.refresh_token!, { token_type_hint: 'refresh_token' });
    await assert.rejects(
      oauth.refreshTokenGrant(client, second.refresh_token!),
      (caught) =>
        caught instanceof oauth.ResponseBodyError &&
        caught.error === 'invalid_grant' &&
        caught.error_description !== undefined,
    );
  });
});

describe('the identity provider, checked at each refresh,', () => {
  it('removes a user who lost the group, and every other session too', async () => {
    const [one, other] = [await scene.signIn('anna'), await scene.signIn('anna')];
    scene.provider.people.get('anna')!.groups = ['marketing'];
    const response = await renew(one.refresh_token);
    assert.deepEqual([response.status, response.body.error], [401, 'invalid_grant']);
    assert.match(response.body.error_description ?? '', /groups/);
    for (const { access_token } of [one, other]) assert.equal(await statusOf(access_token), 401);
    assert.equal((await renew(other.refresh_token)).status, 401);
  });

  for (const mode of ['garbage', 'hang'] as const) {
    it(`signs no user out when it is ${mode}, nor delays a rejection`, async () => {
      const { provider } = scene;
      const { access_token, refresh_token } = await scene.signIn('anna');
      provider.setMode(mode, 'token');
      provider.requests.length = 0;
      const asked = renew(refresh_token);
      if (mode === 'hang') await whileItHangs(refresh_token);
      const response = await asked;
      assert.deepEqual([response.status, response.body.error], [503, 'temporarily_unavailable']);
      assert.equal(await statusOf(access_token), 200);
      for (const token of ['gw_nonsense', 'ey.nonsense.x', '']) {
        const bad = await use(token);
        assert.deepEqual([bad.status, bad.json().type], [401, 'error']);
      }
      assert.ok((await beginSignIn(scene.gateway.url)).user_code);
      assert.doesNotMatch(JSON.stringify(provider.requests), /nonsense/);
      provider.setMode('up');
      assert.equal((await renew(refresh_token)).status, 200);
    });
  }

  /** Another refresh gets a retry hint; then the time that the identity provider may take runs out. */
  async function whileItHangs(refresh_token: string): Promise<void> {
    const isAsked = () => scene.provider.requests.some(({ endpoint }) => endpoint === 'token');
    await until('the identity provider got a request', isAsked);
    const second = await renew(refresh_token);
    assert.deepEqual([second.status, second.body.error], [503, 'temporarily_unavailable']);
    assert.match(second.body.error_description ?? '', /Another request/);
    scene.clock.advance(5000);
  }

  it('ends the session of a user whose address has changed: they sign in under the new one', async () => {
    const { refresh_token, access_token } = await scene.signIn('anna');
    scene.provider.people.set('anna', { ...PEOPLE.anna, email: 'anna.adler@example.com' });
    const response = await renew(refresh_token);
    assert.deepEqual([response.status, response.body.error], [401, 'invalid_grant']);
    await refused(access_token);
    assert.equal((await scene.signIn('anna')).email, 'anna.adler@example.com');
  });

  it("is notified when the account's last session ends, without delaying that", async () => {
    const { provider } = scene;
    provider.people.set('dora', { ...provider.people.get('anna')!, email: 'dora@example.com' });
    const [first, second] = [await scene.signIn('dora'), await scene.signIn('dora')];
    const earlier = provider.requests.length;
    const revocations = () => provider.requests.slice(earlier).filter(({ url }) => url.includes('/revocation'));
    assert.equal((await revoke(first.access_token)).status, 200);
    const renewed = await renew(second.refresh_token);
    assert.equal(renewed.status, 200, 'the other terminal goes on');
    assert.deepEqual(revocations(), []);
    assert.equal((await revoke(renewed.body.access_token)).status, 200);
    await until('both are revoked', () => revocations().length === 2);
    for (const { body, headers } of revocations()) {
      const form = new URLSearchParams(body);
      assert.ok(form.get('token'));
      assert.equal(form.get('token_type_hint'), 'refresh_token');
      assert.match(headers.authorization ?? '', /^Basic /);
    }
  });
});

describe('a reload', () => {
  it('that excludes a user ends their sessions for good, and suspends personal access tokens until readmission', async () => {
    const withOwnTokens = () =>
      configure(({ auth }) => {
        auth.session.token_group = 'all';
      });
    await withOwnTokens();
    const { access_token, refresh_token } = await scene.signIn('anna');
    const token = await scene.ownToken(access_token);
    assert.equal(await statusOf(token), 200);
    await configure(({ auth }) => {
      auth.oidc.allowed_groups = ['a slip of the pen'];
    });
    assert.equal((await renew(refresh_token)).status, 401);
    assert.match((await refused(token)).text, /you may not use this gateway at the moment/);
    await withOwnTokens();
    assert.equal((await renew(refresh_token)).status, 401, 'an ended session stays ended');
    await scene.signIn('anna');
    await until('the token works', async () => (await statusOf(token)) === 200);
  });

  it('that turns sign-in off reports it, rejects session tokens, and accepts access tokens as before', async () => {
    const { gateway } = scene;
    const { access_token, refresh_token } = await scene.signIn('anna');
    await configure(({ auth }) => {
      delete auth.oidc;
    });
    assert.equal((await fetch(`${gateway.url}/.well-known/oauth-authorization-server`)).status, 404);
    assert.deepEqual((await renew(refresh_token)).body.error, 'not_supported');
    assert.deepEqual([await statusOf(access_token), await statusOf(gateway.token)], [401, 200]);
    assert.ok(!(await (await fetch(`${gateway.url}/protocol`)).text()).includes('/oauth/token'));
    await configure();
    assert.equal((await renew(refresh_token)).status, 200);
  });
});

it('nothing secret is in the log, the audit table or the record of changes', async () => {
  const { gateway, provider } = scene;
  const { device_code, user_code } = await beginSignIn(gateway.url);
  await confirmInBrowser(gateway.url, user_code, 'anna');
  const { body: first } = await askForToken(gateway.url, pollWith(device_code));
  const { body: second } = await renew(first.refresh_token);
  await ask(gateway.url, second.access_token);
  provider.people.get('anna')!.groups = [];
  await renew(second.refresh_token);
  await revoke(second.refresh_token);

  const state = ['principals', 'sessions', 'refresh_tokens', 'device_grants', 'attempts'];
  const tables = ['audit_log', 'admin_changes', ...state];
  const rows = await Promise.all(tables.map((table) => gateway.database.knex(table).select()));
  const written = `${gateway.logs.join('\n')}\n${JSON.stringify(rows)}`;
  assert.match(written, /anna@example\.com/);
  const [code] = provider.requests.flatMap(({ body }) => /(?:^|&)code=([^&]+)/.exec(body)?.[1] ?? []).slice(-1);
  const provider_tokens = provider.requests.flatMap(({ body }) => /refresh_token=([^&]+)/.exec(body)?.[1] ?? []);
  const tokens = [first, second].flatMap(({ access_token, refresh_token }) => [access_token, refresh_token]);
  assert.ok(code !== undefined && provider_tokens.length > 0);
  for (const secret of [...tokens, device_code, code, ...provider_tokens, provider.client_secret, SIGNING_KEY]) {
    assert.ok(!written.includes(secret), `${secret} is written somewhere`);
  }
  assert.ok(!gateway.logs.join('\n').includes(user_code));
});
