import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import * as oauth from 'openid-client';
import { confirmInBrowser } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const auth = { login_notice: 'Use is logged.' };
const scene = useSignInScene({ frozen: true, auth, oidc: { allowed_groups: ['engineering'] } });
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
    assert.equal(begun.login_notice, 'Use is logged.');
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
    assert.match((await refused(token)).text, /is suspended: .* or the gateway does not admit you/);
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
