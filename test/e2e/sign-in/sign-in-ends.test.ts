import assert from 'node:assert/strict';
import { after, before, beforeEach, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';

let provider: TestIdentityProvider;
let gateway: TestGateway;

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({ provider });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});

/** Requests to the route for revocations since the test began. */
let earlier = 0;
const revocations = () => provider.requests.filter(({ url }) => url.includes('/revocation')).slice(earlier);
beforeEach(() => {
  earlier += revocations().length;
});

it('a session that ends is revoked at the provider, once the account has no other; nobody waits for that', async () => {
  const [first, second] = [await signIn(gateway.url, 'anna'), await signIn(gateway.url, 'anna')];
  const out = async (token: string) =>
    (await fetch(`${gateway.url}/oauth/revoke`, { method: 'POST', body: new URLSearchParams({ token }) })).status;
  assert.equal(await out(first.access_token), 200);
  const renewed = await askForToken(gateway.url, refreshWith(second.refresh_token));
  assert.equal(renewed.status, 200, 'the other terminal goes on');
  assert.deepEqual(revocations(), []);
  assert.equal(await out(renewed.body.access_token), 200);
  await until('both are revoked', () => revocations().length === 2);
  for (const { body, headers } of revocations()) {
    const form = new URLSearchParams(body);
    assert.ok(form.get('token'));
    assert.equal(form.get('token_type_hint'), 'refresh_token');
    assert.match(headers.authorization ?? '', /^Basic /);
  }
});

it('somebody whom an administrator puts out is signed out at the provider, too', async () => {
  await signIn(gateway.url, 'ben');
  await gateway.database.query(
    'test_end_ben',
    `select deprovision('ben@example.com', 'none', 'test', 'command', 'test', now())`,
    [],
  );
  await until('the provider was told', () => revocations().length === 1);
});
