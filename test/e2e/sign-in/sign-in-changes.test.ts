import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { PEOPLE, startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/client.ts';

const TWIN = { ...PEOPLE.anna, name: 'Another Anna' };

let provider: TestIdentityProvider;
let gateway: TestGateway;
let first_config: string;

before(async () => {
  provider = await startIdentityProvider({ people: { ...PEOPLE, twin: TWIN } });
  gateway = await bootSignIn({
    provider,
    auth: { limits: { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 } },
  });
  first_config = await readFile(gateway.config_file, 'utf8');
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});
beforeEach(async () => {
  provider.forgetEverything();
  provider.people.set('anna', { ...PEOPLE.anna });
  await configure(() => {});
});

const renew = (refresh_token: string) => askForToken(gateway.url, refreshWith(refresh_token));
const use = (token: string) =>
  send(gateway.url, { method: 'GET', path: '/v1/models', headers: ['authorization', `Bearer ${token}`] });
const refused = (token: string) =>
  until('the session token is refused', async () => {
    const answer = await use(token);
    return answer.status === 401 && answer;
  });

/** Puts the first configuration in force, after a change. */
// biome-ignore lint/suspicious/noExplicitAny: a test changes what it likes
async function configure(change: (auth: any) => void): Promise<void> {
  const config = JSON.parse(first_config);
  change(config.auth);
  await writeFile(gateway.config_file, JSON.stringify(config));
  await gateway.reload();
}

describe('a session token', () => {
  it('is refused as soon as a reload leaves its groups out, and good again when they are back', async () => {
    const { access_token } = await signIn(gateway.url, 'ben');
    await configure((auth) => {
      auth.oidc.allowed_groups = ['engineering'];
    });
    assert.equal((await use(access_token)).status, 401);
    await configure(() => {});
    assert.equal((await use(access_token)).status, 200);
  });
});

describe('somebody who is not let in any more', () => {
  it('loses sessions for good, and self-made access tokens until let in again', async () => {
    await configure((auth) => {
      auth.session.token_group = 'all';
    });
    const { access_token, refresh_token } = await signIn(gateway.url, 'ben');
    const made = await fetch(`${gateway.url}/admin/api/tokens`, {
      method: 'POST',
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'of my own', group: 'all' }),
    });
    const { token } = (await made.json()) as { token: string };
    assert.equal((await use(token)).status, 200);
    await configure((auth) => {
      auth.oidc.allowed_groups = ['a slip of the pen'];
    });
    assert.equal((await renew(refresh_token)).status, 401);
    const suspended = await use(token);
    assert.equal(suspended.status, 401);
    assert.match(suspended.body.toString(), /you may not use this gateway at the moment/);
    await configure((auth) => {
      auth.session.token_group = 'all';
    });
    assert.equal((await renew(refresh_token)).status, 401, 'an ended session stays ended');
    await signIn(gateway.url, 'ben');
    assert.equal(await until('the token works', async () => (await use(token)).status === 200), true);
  });
});

describe('an e-mail address', () => {
  it('that changes at the identity provider ends the session: the person signs in under the new one', async () => {
    const { refresh_token, access_token } = await signIn(gateway.url, 'anna');
    provider.people.set('anna', { ...PEOPLE.anna, email: 'anna.adler@example.com' });
    const answer = await renew(refresh_token);
    assert.deepEqual([answer.status, answer.body.error], [401, 'invalid_grant']);
    await refused(access_token);
    assert.equal((await signIn(gateway.url, 'anna')).email, 'anna.adler@example.com');
  });
});

describe('a gateway whose sign-in is turned off by a reload', () => {
  it('says so, takes no session token any more, and access tokens as before', async () => {
    const { access_token, refresh_token } = await signIn(gateway.url, 'ben');
    await configure((auth) => {
      delete auth.oidc;
    });
    assert.equal((await fetch(`${gateway.url}/.well-known/oauth-authorization-server`)).status, 404);
    assert.deepEqual((await renew(refresh_token)).body.error, 'not_supported');
    assert.equal((await use(access_token)).status, 401);
    assert.equal((await use(gateway.token)).status, 200);
    const protocol = await (await fetch(`${gateway.url}/protocol`)).text();
    assert.ok(!protocol.includes('/oauth/token'));
    await configure(() => {});
    assert.equal((await renew(refresh_token)).status, 200);
  });
});
