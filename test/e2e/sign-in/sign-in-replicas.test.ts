import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { approveAt, createBrowser } from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, pollWith, refreshWith } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({ replicas: 2, frozen: true, server: { trusted_proxies: ['127.0.0.1'] } });
const { statusOf, refused, renew, revoke } = scene;
const MINUTE = 60_000;

const assertGood = async (token: string) => {
  for (const gateway of scene.gateways) assert.equal(await statusOf(token, gateway), 200);
};

/** Confirms a code at one of them, in a browser that has both at the one public URL. */
async function confirmAt({ url }: TestGateway, user_code: string): Promise<void> {
  const browser = createBrowser();
  const form = { user_code, action: 'approve' };
  const away = await browser.submit(`${url}/device`, form, { origin: scene.gateway.url });
  const callback = await approveAt(String(away.headers.get('location')), 'anna');
  assert.equal(callback.origin, scene.gateway.url);
  assert.equal((await browser.request(callback)).status, 200);
}

describe('two gateways on one database', () => {
  it('share a sign-in: begun on one, confirmed on the other, collected from that, used on both', async () => {
    const { device_code, user_code } = await beginSignIn(scene.gateway.url);
    await confirmAt(scene.other, user_code);
    const { status, body } = await askForToken(scene.other.url, pollWith(device_code));
    assert.equal(status, 200);
    await assertGood(body.access_token);
  });

  it('give a device whose response got lost its session at either of them, for any number of requests', async () => {
    const { gateway, other } = scene;
    const { device_code, user_code } = await beginSignIn(gateway.url);
    await confirmAt(gateway, user_code);
    const cut = await fetch(`${gateway.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams(pollWith(device_code)),
    });
    assert.equal(cut.status, 200);
    await cut.body!.cancel();
    const responses = await Promise.all(
      [other, gateway, other, gateway].map(({ url }) => askForToken(url, pollWith(device_code))),
    );
    assert.deepEqual(
      responses.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    const [refresh_token, ...more] = new Set(responses.map(({ body }) => body.refresh_token));
    assert.equal(more.length, 0);
    assert.equal(await statusOf(responses[0]!.body.access_token), 200);
    // With the session renewed the response had arrived: this is another client, and both are out.
    const renewed = await renew(refresh_token!);
    assert.equal(renewed.status, 200);
    const late = await askForToken(other.url, pollWith(device_code));
    assert.deepEqual([late.status, late.body.error], [400, 'invalid_grant']);
    assert.match(late.body.error_description ?? '', /used again/);
    assert.match(other.logs.join('\n'), /a device code was used again; its session was ended/);
    assert.equal(await statusOf(renewed.body.access_token, other), 401);
    await refused(renewed.body.access_token);
  });

  it('renew sessions of each other: concurrent renewals get the same, with one request to the provider', async () => {
    const first = await scene.signIn('anna');
    const asked = () => scene.provider.requests.filter(({ endpoint }) => endpoint === 'token').length;
    const before = asked();
    const renewals = [1, 0, 1, 0, 1, 0].map((n) => renew(first.refresh_token, scene.gateways[n]!));
    const responses = await Promise.all(renewals);
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
    assert.equal(new Set(responses.map(({ body }) => body.refresh_token)).size, 1);
    assert.equal(asked() - before, 1);
    await assertGood(responses[0]!.body.access_token);
  });

  it('reject a token revoked on the other, also one they had accepted before', async () => {
    for (const kind of ['access_token', 'refresh_token'] as const) {
      const tokens = await scene.signIn('anna');
      await assertGood(tokens.access_token);
      assert.equal((await revoke(tokens[kind])).status, 200);
      await refused(tokens.access_token, scene.other);
      assert.equal(await statusOf(tokens.access_token), 401);
    }
  });
});

describe('a thief with the stored data of a sign-in', () => {
  let turn = 0;
  const renewFrom = async (client_address: string, refresh_token: string) => {
    const body = new URLSearchParams(refreshWith(refresh_token));
    const headers = { 'x-forwarded-for': client_address };
    const response = await fetch(`${scene.gateways[turn++ % 2]!.url}/oauth/token`, { method: 'POST', body, headers });
    return {
      status: response.status,
      body: (await response.json()) as { access_token: string; refresh_token: string },
    };
  };

  /** Waits until the database has recorded the use of a session token. */
  const seen = (access_token: string) =>
    until('the session token in use is written down', async () => {
      const { sid, iat } = JSON.parse(Buffer.from(access_token.split('.')[1]!, 'base64url').toString());
      const text = 'select from sessions where id = $1 and seen_at >= to_timestamp($2)';
      return (await scene.gateway.database.query('test_seen', text, [sid, iat])).length > 0;
    });

  it('is out everywhere once the owner, whose program was rejected, signs in again', async () => {
    const copied = await scene.signIn('ben');
    scene.clock.advance(60 * MINUTE);
    const stolen = (await renewFrom('203.0.113.9', copied.refresh_token)).body;
    assert.equal(await statusOf(stolen.access_token), 200);
    await seen(stolen.access_token);
    scene.clock.advance(MINUTE);
    for (const status of [503, 401]) assert.equal((await renewFrom('192.0.2.1', copied.refresh_token)).status, status);
    const anew = await scene.signIn('ben');
    for (const gateway of scene.gateways) await refused(stolen.access_token, gateway);
    for (const _ of scene.gateways) {
      assert.equal((await renewFrom('203.0.113.9', stolen.refresh_token)).status, 401);
    }
    await assertGood(anew.access_token);
  });
});
