import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { ATTEMPT, fails, makeProvider, REDIRECT_URI } from '../../support/identity/provider-client.ts';
import { startScriptedProvider, tokens } from '../../support/identity/scripted-identity-provider.ts';

const CALLBACK = new URL(`${REDIRECT_URI}?code=code-of-this-attempt&state=${ATTEMPT.state}`);

async function setUp(t: TestContext) {
  const scripted = await startScriptedProvider(t);
  const { provider, clock } = makeProvider(scripted.issuer);
  const count = (path: string) => scripted.requests.filter((each) => each === path).length;
  return { scripted, provider, clock, count, identify: () => provider.identify(CALLBACK, ATTEMPT) };
}

describe('a provider that takes new signing keys within a minute', () => {
  for (const kid of ['key-2', 'key-1']) {
    test(`costs nobody a sign-in or a renewal, ${kid === 'key-1' ? 'even if the new key is named as the old' : 'whatever its name'}`, async (t) => {
      const { scripted, provider, identify, count } = await setUp(t);
      scripted.token = tokens(await scripted.sign(scripted.claims()));
      await identify();
      await scripted.rotateKey(kid);
      scripted.token = tokens(await scripted.sign(scripted.claims()));
      assert.equal((await identify()).claims.sub, 'anna');
      assert.deepEqual([count('/token'), count('/jwks')], [2, 2], 'a code is redeemed once');
      await scripted.rotateKey(kid === 'key-1' ? kid : 'key-3');
      scripted.token = tokens(await scripted.sign(scripted.claims()), { refresh_token: 'refresh-token-2' });
      const { grant } = await provider.recheck({ subject: 'anna', refresh_token: 'refresh-token-1' });
      assert.equal(grant.refresh_token, 'refresh-token-2');
      assert.deepEqual([count('/token'), count('/jwks')], [3, 3]);
    });
  }

  test('and signs with keys it does not publish is asked for them some times a minute, not for each sign-in', async (t) => {
    const { scripted, identify, clock, count } = await setUp(t);
    scripted.token = tokens(await scripted.sign(scripted.claims()));
    await identify();
    for (let attempt = 0; attempt < 30; attempt++) {
      scripted.token = tokens(await scripted.forge(scripted.claims(), { kid: `made-up-${attempt}` }));
      await fails(identify(), 'invalid', /no applicable keys/);
    }
    assert.equal(count('/jwks'), 1 + 6);
    scripted.token = tokens(await scripted.sign(scripted.claims()));
    assert.equal((await identify()).claims.sub, 'anna', 'good keys are still known');
    assert.equal(count('/jwks'), 1 + 6);
    clock.advance(10_000);
    await scripted.rotateKey('key-2');
    scripted.token = tokens(await scripted.sign(scripted.claims()));
    assert.equal((await identify()).claims.sub, 'anna');
  });

  test('and cannot be asked for them leaves the old ones good', async (t) => {
    const { scripted, identify } = await setUp(t);
    const good = tokens(await scripted.sign(scripted.claims()));
    scripted.token = good;
    await identify();
    scripted.token = tokens(await scripted.forge(scripted.claims(), { kid: 'key-9' }));
    scripted.jwks = (_req, res) => void res.socket?.destroy();
    await fails(identify(), 'unavailable', /jwks/);
    scripted.token = good;
    assert.equal((await identify()).claims.sub, 'anna');
  });
});
