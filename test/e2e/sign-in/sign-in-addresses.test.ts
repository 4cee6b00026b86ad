import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { cli } from '../../cli/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import {
  askForToken,
  beginSignIn,
  bootSignIn,
  confirmInBrowser,
  pollWith,
  refreshWith,
  signIn,
} from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/client.ts';

const groups = ['engineering'];
/** Nobody says whether any address is verified, and people set their own. */
const PEOPLE = {
  anna: { email: 'anna@example.com', groups },
  intern: { email: 'intern@example.com', groups },
  stated: { email: 'stated@example.com', email_verified: true, groups },
};
const CLAIMS = ['anna@example.com', 'ANNA@EXAMPLE.COM', 'Anna@example.com'];
const SETTINGS = {
  oidc: { email_verification: 'if_stated' },
  auth: { limits: { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 } },
};

let provider: TestIdentityProvider;
let gateway: TestGateway;
let database: Awaited<ReturnType<typeof createTestDatabase>>;

before(async () => {
  provider = await startIdentityProvider({ people: PEOPLE });
  database = await createTestDatabase();
  gateway = await bootSignIn({ provider, ...SETTINGS, database_url: database.url });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
  await database?.drop();
});

const use = (token: string, path = '/v1/models') =>
  send(gateway.url, { method: 'GET', path, headers: ['authorization', `Bearer ${token}`] });

/** Tries to sign in; the page that ends it, and what the device hears. */
async function trySignIn(sub: string, at = gateway.url) {
  const { device_code, user_code } = await beginSignIn(at);
  const page = await confirmInBrowser(at, user_code, sub);
  return { page, ...(await askForToken(at, pollWith(device_code))) };
}

function claim(sub: 'intern', email: string, more: object = {}): void {
  provider.people.set(sub, { email, groups, ...more });
}

/** What `appscli people rebind` tells a person. */
async function run(...words: string[]): Promise<string> {
  return runWith(gateway.config_file, ...words);
}

async function runWith(config: string, ...words: string[]): Promise<string> {
  const env = { ...process.env, TEST_DATABASE_URL: database.url };
  return (await cli(['people', 'rebind', ...words, '--config', config], { env })).stderr;
}

describe('an intern at a provider that verifies no addresses', () => {
  it('gets nothing of a service by claiming its address', async () => {
    const token = await gateway.newToken({ user: 'ci@example.com', name: 'the service' });
    for (const email of ['ci@example.com', 'CI@example.com']) {
      claim('intern', email);
      const { page, status, body } = await trySignIn('intern');
      assert.equal(page.status, 403);
      assert.match(page.text, /administrators made access tokens for that address.*ask your administrator/s);
      assert.deepEqual([status, body.error], [400, 'access_denied']);
    }
    assert.equal((await use(token)).status, 200);
  });

  it('neither becomes a colleague nor ends her session by claiming her address, and she hears nothing of it', async () => {
    const session = await signIn(gateway.url, 'anna');
    const given = await gateway.newToken({ user: 'anna@example.com', name: 'of hers' });
    for (const email of CLAIMS) {
      claim('intern', email);
      const { page, body } = await trySignIn('intern');
      assert.equal(page.status, 403);
      assert.match(page.text, /belongs to another account/);
      assert.equal(body.error, 'access_denied');
    }
    assert.equal((await use(session.access_token)).status, 200);
    assert.equal((await use(given)).status, 200);
    const renewed = await askForToken(gateway.url, refreshWith(session.refresh_token));
    assert.equal(renewed.status, 200);
  });
});

describe('an administrator', () => {
  it('lets a person have the address that tokens were made for', async () => {
    const token = await gateway.newToken({ user: 'stated@example.com', name: 'made before' });
    assert.equal((await trySignIn('stated')).body.error, 'access_denied');
    const told = await run('Stated@example.com');
    assert.match(told, /stated@example.com goes to the next account.*Ended: 0 sessions, 0 access tokens/);
    assert.equal((await signIn(gateway.url, 'stated')).email, 'stated@example.com');
    assert.equal((await use(token)).status, 200);
  });

  it('gives the address of somebody who left to the account of somebody new, and what was theirs ends', async () => {
    provider.people.set('dora-1', { email: 'dora@example.com', groups });
    provider.people.set('dora-2', { email: 'dora@example.com', groups });
    const former = await signIn(gateway.url, 'dora-1');
    const token = await gateway.newToken({ user: 'dora@example.com', name: 'of the former' });
    assert.equal((await trySignIn('dora-2')).body.error, 'access_denied');
    assert.match(await run('dora@example.com', '--subject', 'dora-2'), /the account dora-2.*1 session, 1 access token/);
    for (const gone of [former.access_token, token])
      await until('it is refused', async () => (await use(gone)).status === 401);
    assert.equal((await trySignIn('dora-1')).body.error, 'access_denied');
    assert.equal((await signIn(gateway.url, 'dora-2')).email, 'dora@example.com');
  });

  it('lets everybody in again after a change of the provider, with their access tokens', async () => {
    const people = { erik: { email: 'erik@example.com', groups } };
    provider.people.set('erik', people.erik);
    await signIn(gateway.url, 'erik');
    const token = await gateway.newToken({ user: 'erik@example.com', name: 'kept' });
    const next = await startIdentityProvider({ people });
    const after_change = await bootSignIn({
      provider: next,
      ...SETTINGS,
      database_url: database.url,
    });
    try {
      const refused = await trySignIn('erik', after_change.url);
      assert.equal(refused.body.error, 'access_denied', refused.page.text.slice(-900));
      assert.match(refused.page.text, /account of the identity provider that was used before/);
      const config = after_change.config_file;
      assert.match(await runWith(config, '--former-issuer', provider.issuer), /erik@example\.com goes to the next/);
      assert.equal((await signIn(after_change.url, 'erik')).email, 'erik@example.com');
      assert.equal((await use(token)).status, 200);
      assert.match(await runWith(config, '--former-issuer', 'https://nobody.example'), /nobody is bound to an account/);
      assert.match(await runWith(config, 'nobody@example.com'), /nobody@example.com: never signed in here/);
    } finally {
      await after_change.close();
      await next.close();
    }
  });
});
