import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import {
  approveAt,
  createBrowser,
  startIdentityProvider,
  type TestIdentityProvider,
} from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, bootSignIn, pollWith, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/client.ts';

let provider: TestIdentityProvider;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let one: TestGateway;
let other: TestGateway;

before(async () => {
  provider = await startIdentityProvider();
  database = await createTestDatabase();
  one = await bootSignIn({ provider, database_url: database.url });
  other = await bootSignIn({ provider, database_url: database.url, public_url: one.url });
});
after(async () => {
  await one?.close();
  await other?.close();
  await database?.drop();
  await provider?.close();
});

const use = async ({ url }: TestGateway, token: string) =>
  (await send(url, { method: 'GET', path: '/v1/models', headers: ['authorization', `Bearer ${token}`] })).status;
const revoke = ({ url }: TestGateway, token: string) =>
  fetch(`${url}/oauth/revoke`, { method: 'POST', body: new URLSearchParams({ token }) });

const refused = (gateway: TestGateway, token: string) =>
  until('the token is refused', async () => (await use(gateway, token)) === 401);

describe('two gateways on one database', () => {
  it('share a sign-in: begun on one, confirmed on the other, collected from the first, used on both', async () => {
    const { device_code, user_code } = await beginSignIn(one.url);
    const browser = createBrowser();
    const form = { user_code, action: 'approve' };
    const away = await browser.submit(`${other.url}/device`, form, { origin: one.url });
    const callback = await approveAt(String(away.headers.get('location')), 'anna');
    assert.equal(callback.origin, one.url);
    assert.equal((await browser.request(callback)).status, 200);
    const { status, body } = await askForToken(other.url, pollWith(device_code));
    assert.equal(status, 200);
    for (const gateway of [one, other]) assert.equal(await use(gateway, body.access_token), 200);
  });

  it('give a device whose answer got lost its session at either of them, however many ask', async () => {
    const { device_code, user_code } = await beginSignIn(one.url);
    const browser = createBrowser();
    const away = await browser.submit(`${one.url}/device`, { user_code, action: 'approve' }, { origin: one.url });
    await browser.request(await approveAt(String(away.headers.get('location')), 'anna'));
    const cut = await fetch(`${one.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams(pollWith(device_code)),
    });
    assert.equal(cut.status, 200);
    await cut.body!.cancel();
    const answers = await Promise.all(
      [other, one, other, one].map(({ url }) => askForToken(url, pollWith(device_code))),
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    const [refresh_token, ...more] = new Set(answers.map(({ body }) => body.refresh_token));
    assert.equal(more.length, 0);
    assert.equal(await use(one, answers[0]!.body.access_token), 200);
    // With the session renewed the answer had arrived: who asks now is somebody else, and both are out.
    const renewed = await askForToken(one.url, refreshWith(refresh_token!));
    assert.equal(renewed.status, 200);
    const late = await askForToken(other.url, pollWith(device_code));
    assert.deepEqual([late.status, late.body.error], [400, 'invalid_grant']);
    assert.match(late.body.error_description ?? '', /used before/);
    assert.match(other.logs.join('\n'), /a device code was used again, so the session that it began was ended/);
    assert.equal(await use(other, renewed.body.access_token), 401);
    await refused(one, renewed.body.access_token);
  });

  it('renew sessions of each other, and give the same again to who comes a moment later', async () => {
    const first = await signIn(one.url, 'anna');
    const second = (await askForToken(other.url, refreshWith(first.refresh_token))).body;
    for (const gateway of [one, other]) assert.equal(await use(gateway, second.access_token), 200);
    const again = await askForToken(one.url, refreshWith(first.refresh_token));
    assert.deepEqual([again.status, again.body.refresh_token], [200, second.refresh_token]);
  });

  it('refuse what was revoked on the other, also a token they had accepted before', async () => {
    for (const kind of ['access_token', 'refresh_token'] as const) {
      const tokens = await signIn(one.url, 'anna');
      for (const gateway of [one, other]) assert.equal(await use(gateway, tokens.access_token), 200);
      assert.equal((await revoke(one, tokens[kind])).status, 200);
      await refused(other, tokens.access_token);
      assert.equal(await use(one, tokens.access_token), 401);
    }
  });
});
