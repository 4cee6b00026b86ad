import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { approveAt, createBrowser } from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, pollWith } from '../../support/identity/sign-in.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({ replicas: 2 });
const { statusOf, renew } = scene;

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
});
