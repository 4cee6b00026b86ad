import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { approveAt, createBrowser } from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, pollWith } from '../../support/identity/sign-in.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({ frozen: true, people: { host: 'localhost' } });

/** Leaves for the identity provider and signs in there; where it sends the browser then. */
async function goAndSignIn(browser: ReturnType<typeof createBrowser>, user_code: string): Promise<URL> {
  const confirmed = await browser.submit(`${scene.gateway.url}/device`, { user_code, action: 'approve' });
  assert.equal(confirmed.status, 303);
  return approveAt(String(confirmed.headers.get('location')), 'anna');
}

const outcome = async (device_code: string) => {
  scene.clock.advance(5000);
  const { status, body } = await askForToken(scene.gateway.url, pollWith(device_code));
  return status === 200 ? 'signed in' : body.error;
};

describe('the callback', () => {
  it('works once: neither state nor code can be replayed, not even with the cookie', async () => {
    const { device_code, user_code } = await beginSignIn(scene.gateway.url);
    const browser = createBrowser();
    const callback = await goAndSignIn(browser, user_code);
    const cookie = [...browser.cookies(callback)].map(([name, value]) => `${name}=${value}`).join('; ');
    assert.equal((await browser.request(callback)).status, 200);
    assert.equal((await fetch(callback, { headers: { cookie } })).status, 400);
    assert.equal(await outcome(device_code), 'signed in');
  });

  const FORGED: [string, (callback: URL, stolen: string) => void][] = [
    [
      'a code that was given for another sign-in: the nonce and the verifier differ',
      ({ searchParams }, stolen) => searchParams.set('code', stolen),
    ],
    ['an answer of another issuer (RFC 9207)', ({ searchParams }) => searchParams.set('iss', 'https://evil.example')],
    [
      'an error from outside, of which it shows nothing',
      ({ searchParams }) => {
        searchParams.delete('code');
        searchParams.set('error', 'invalid_scope');
        searchParams.set('error_description', '<script>alert(1)</script> call 555-0100');
      },
    ],
  ];
  for (const [what, forge] of FORGED) {
    it(`rejects a sign-in by ${what}`, async () => {
      const [mine, other] = [await beginSignIn(scene.gateway.url), await beginSignIn(scene.gateway.url)];
      const [victim, attacker] = [createBrowser(), createBrowser()];
      const stolen = (await goAndSignIn(attacker, other.user_code)).searchParams.get('code');
      const callback = await goAndSignIn(victim, mine.user_code);
      forge(callback, String(stolen));
      const page = await victim.request(callback);
      assert.notEqual(page.status, 200);
      assert.doesNotMatch(await page.text(), /<script|555-0100|evil/);
      assert.notEqual(await outcome(mine.device_code), 'signed in');
    });
  }
});
