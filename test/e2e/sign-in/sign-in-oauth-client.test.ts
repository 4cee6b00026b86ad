import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import * as oauth from 'openid-client';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn, confirmInBrowser } from '../../support/identity/sign-in.ts';

let provider: TestIdentityProvider;
let gateway: TestGateway;
let client: oauth.Configuration;

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({ provider });
  client = await oauth.discovery(new URL(gateway.url), 'any-client', undefined, oauth.None(), {
    algorithm: 'oauth2',
    execute: [oauth.allowInsecureRequests],
  });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});

const begin = () => oauth.initiateDeviceAuthorization(client, { scope: 'openid profile' });
// The first poll comes after an interval, and nobody is slowed down by one that is early when all is decided.
const wait = (begun: oauth.DeviceAuthorizationResponse) =>
  oauth.pollDeviceAuthorizationGrant(client, { ...begun, interval: 0.01 });

/** What the client makes of an error answer. */
const refused = (error: string) => (caught: unknown) =>
  caught instanceof oauth.ResponseBodyError && caught.error === error && caught.error_description !== undefined;

describe('a device client that knows OAuth and nothing of this gateway', () => {
  it('signs in, renews, revokes', async () => {
    const begun = await begin();
    await confirmInBrowser(gateway.url, begun.user_code, 'anna');
    const first = await wait(begun);
    const second = await oauth.refreshTokenGrant(client, first.refresh_token!);
    assert.notEqual(second.refresh_token, first.refresh_token);
    await oauth.tokenRevocation(client, second.refresh_token!, { token_type_hint: 'refresh_token' });
    await assert.rejects(oauth.refreshTokenGrant(client, second.refresh_token!), refused('invalid_grant'));
  });

  it('understands that the person said no', async () => {
    const begun = await begin();
    const form = new URLSearchParams({ user_code: begun.user_code, action: 'deny' });
    await fetch(`${gateway.url}/device`, { method: 'POST', body: form, headers: { origin: gateway.url } });
    await assert.rejects(wait(begun), refused('access_denied'));
  });

  it('does not take an identity provider that is away for the end of the session', async () => {
    const begun = await begin();
    await confirmInBrowser(gateway.url, begun.user_code, 'anna');
    const { refresh_token } = await wait(begun);
    provider.setMode('error500');
    const failure = await oauth.refreshTokenGrant(client, refresh_token!).catch((error: unknown) => error);
    provider.setMode('up');
    assert.ok(failure instanceof oauth.ClientError && failure.code === 'OAUTH_RESPONSE_IS_NOT_CONFORM');
    assert.ok((await oauth.refreshTokenGrant(client, refresh_token!)).access_token);
  });
});
