import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { approveAt, createBrowser } from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, pollWith } from '../../support/identity/sign-in.ts';
import { send } from '../support/client.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({
  frozen: true,
  people: { host: 'localhost' },
  server: { trusted_proxies: ['127.0.0.1'] },
  auth: { limits: { device_authorizations: 5, code_submissions: 4, window_seconds: 600 } },
});
// The window of the limits is over.
beforeEach(() => scene.clock.advance(600_000));

/** A browser of somebody at an address; all of them come through the trusted proxy. */
function browserAt(address: string) {
  const browser = createBrowser();
  const headers = { 'x-forwarded-for': address };
  const { url } = scene.gateway;
  return {
    ...browser,
    open: (path: string) => browser.request(new URL(path, url), { headers }),
    confirm: (user_code: string) => browser.submit(`${url}/device`, { user_code, action: 'approve' }, headers),
  };
}

/** Leaves for the identity provider and signs in there; where it sends the browser then. */
async function goAndSignIn(browser: ReturnType<typeof browserAt>, user_code: string): Promise<URL> {
  const confirmed = await browser.confirm(user_code);
  assert.equal(confirmed.status, 303);
  return approveAt(String(confirmed.headers.get('location')), 'anna');
}

const outcome = async (device_code: string) => {
  scene.clock.advance(5000);
  const { status, body } = await askForToken(scene.gateway.url, pollWith(device_code));
  return status === 200 ? 'signed in' : body.error;
};

describe('the callback', () => {
  it('works once: neither state nor code can be replayed, not even with the cookie kept', async () => {
    const { device_code, user_code } = await beginSignIn(scene.gateway.url);
    const browser = browserAt('192.0.2.1');
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
    it(`signs nobody in by ${what}`, async () => {
      const [mine, other] = [await beginSignIn(scene.gateway.url), await beginSignIn(scene.gateway.url)];
      const [victim, attacker] = [browserAt('192.0.2.1'), browserAt('192.0.2.2')];
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

it('the Host header has no say in any URL', async () => {
  const headers = ['host', 'evil.example', 'x-forwarded-host', 'evil.example', 'forwarded', 'host=evil.example'];
  const form = [...headers, 'content-type', 'application/x-www-form-urlencoded'];
  const requests = [
    { method: 'GET', path: '/.well-known/oauth-authorization-server', headers },
    { path: '/oauth/device_authorization', headers: form, body: 'x=1' },
    { method: 'GET', path: '/device', headers },
    { method: 'GET', path: '/protocol', headers },
    { method: 'GET', path: 'http://evil.example/device', headers },
  ];
  for (const request of requests) {
    const { text, headers: sent } = await send(scene.gateway.url, request);
    assert.ok(!text.includes('evil.example') && !JSON.stringify(sent).includes('evil.example'), text.slice(0, 200));
  }
});

it('whoever guesses codes gains nothing by claiming to be somebody else each time, and holds up nobody else', async () => {
  const { user_code, device_code } = await beginSignIn(scene.gateway.url);
  const guess = (n: number, code: string) =>
    n % 2
      ? browserAt(`198.51.100.${n}, 192.0.2.10`).open(`/device?user_code=${code}`)
      : browserAt(`198.51.100.${n}, 192.0.2.10`).confirm(code);
  for (let n = 0; n < 4; n++) assert.equal((await guess(n, `BCDFGHJ${'BCDF'[n]}`)).status, 404);
  for (const n of [4, 5]) {
    const refused = await guess(n, user_code);
    assert.equal(refused.status, 429, 'the right code is no use');
    assert.ok(Number(refused.headers.get('retry-after')) > 0 && Number(refused.headers.get('retry-after')) <= 600);
  }
  assert.equal(await outcome(device_code), 'authorization_pending');
  assert.equal((await browserAt('192.0.2.8').open(`/device?user_code=${user_code}`)).status, 200);
});

it('what a program calls itself writes no line of its own into log or page', async () => {
  const { url } = scene.gateway;
  const begun = await fetch(`${url}/oauth/device_authorization`, {
    method: 'POST',
    headers: { 'x-forwarded-for': '192.0.2.22', 'user-agent': 'ok/1\u0085{"level":"error"}' },
  });
  const { user_code } = (await begun.json()) as { user_code: string };
  const page = await (await browserAt('192.0.2.22').open(`/device?user_code=${user_code}`)).text();
  assert.ok(page.includes('ok/1'));
  assert.ok(!page.includes('{"level"') && !page.includes('\u0085'));
});
