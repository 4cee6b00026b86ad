import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { frozenClock } from '../../../engine/kit/clock.ts';
import type { TestGateway } from '../../support/gateway.ts';
import {
  approveAt,
  createBrowser,
  startIdentityProvider,
  type TestIdentityProvider,
} from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, bootSignIn, pollWith } from '../../support/identity/sign-in.ts';
import { send } from '../support/client.ts';

const PROXY = '127.0.0.1';
const clock = frozenClock(Date.now());
let provider: TestIdentityProvider;
let gateway: TestGateway;

before(async () => {
  provider = await startIdentityProvider({ host: 'localhost' });
  gateway = await bootSignIn({
    provider,
    clock,
    server: { trusted_proxies: [PROXY] },
    auth: { limits: { device_authorizations: 5, code_submissions: 4, window_seconds: 600 } },
  });
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});
// The window of the limits is over.
beforeEach(() => clock.advance(600_000));

/** A browser of somebody at an address; all of them come through the trusted proxy. */
function browserAt(address: string) {
  const browser = createBrowser();
  const headers = { 'x-forwarded-for': address };
  return {
    ...browser,
    open: (path: string) => browser.request(new URL(path, gateway.url), { headers }),
    confirm: (user_code: string, more: Record<string, string> = {}) =>
      browser.submit(`${gateway.url}/device`, { user_code, action: 'approve' }, { ...headers, ...more }),
  };
}

/** Leaves for the identity provider and signs in there; where it sends the browser then. */
async function goAndSignIn(browser: ReturnType<typeof browserAt>, user_code: string): Promise<URL> {
  const confirmed = await browser.confirm(user_code);
  assert.equal(confirmed.status, 303);
  return approveAt(String(confirmed.headers.get('location')), 'anna');
}

const outcome = async (device_code: string) => {
  clock.advance(5000);
  const { status, body } = await askForToken(gateway.url, pollWith(device_code));
  return status === 200 ? 'signed in' : body.error;
};

describe('the callback', () => {
  it('is of no use in the browser of somebody else, who was sent the link', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    const [attacker, victim] = [browserAt('192.0.2.1'), browserAt('192.0.2.2')];
    const callback = await goAndSignIn(attacker, user_code);
    const page = await victim.request(callback);
    assert.equal(page.status, 400);
    assert.match(await page.text(), /no sign-in to finish here/);
    assert.equal(await outcome(device_code), 'authorization_pending');
  });

  it('works once: neither state nor code can be replayed, not even with the cookie kept', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    const browser = browserAt('192.0.2.1');
    const callback = await goAndSignIn(browser, user_code);
    const cookie = [...browser.cookies(callback)].map(([name, value]) => `${name}=${value}`).join('; ');
    assert.equal((await browser.request(callback)).status, 200);
    assert.equal((await fetch(callback, { headers: { cookie } })).status, 400);
    assert.equal(await outcome(device_code), 'signed in');
  });

  it('takes no code that was given for another sign-in: the nonce and the verifier differ', async () => {
    const [mine, other] = [await beginSignIn(gateway.url), await beginSignIn(gateway.url)];
    const [victim, attacker] = [browserAt('192.0.2.1'), browserAt('192.0.2.2')];
    const stolen = (await goAndSignIn(attacker, other.user_code)).searchParams.get('code');
    const callback = await goAndSignIn(victim, mine.user_code);
    callback.searchParams.set('code', String(stolen));
    const page = await victim.request(callback);
    assert.notEqual(page.status, 200);
    assert.notEqual(await outcome(mine.device_code), 'signed in');
  });

  it('takes no answer of another issuer (RFC 9207)', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    const browser = browserAt('192.0.2.1');
    const callback = await goAndSignIn(browser, user_code);
    callback.searchParams.set('iss', 'https://evil.example');
    assert.notEqual((await browser.request(callback)).status, 200);
    assert.notEqual(await outcome(device_code), 'signed in');
  });

  it('shows nothing of what an error from outside says', async () => {
    const { user_code } = await beginSignIn(gateway.url);
    const browser = browserAt('192.0.2.1');
    const callback = await goAndSignIn(browser, user_code);
    callback.searchParams.delete('code');
    callback.searchParams.set('error', 'invalid_scope');
    callback.searchParams.set('error_description', '<script>alert(1)</script> call 555-0100');
    const page = await (await browser.request(callback)).text();
    assert.ok(!page.includes('<script') && !page.includes('555-0100'));
  });
});

describe('a page of another site', () => {
  it('can confirm no code, whichever headers it can bring about', async () => {
    const { device_code, user_code } = await beginSignIn(gateway.url);
    const foreign: Record<string, string>[] = [
      { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
      { origin: 'null', 'sec-fetch-site': 'cross-site' },
      { origin: provider.issuer, 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of foreign) {
      const answer = await browserAt('192.0.2.1').confirm(user_code, headers);
      assert.equal(answer.status, 403);
      assert.equal(answer.headers.get('set-cookie'), null);
    }
    const bare = await fetch(`${gateway.url}/device`, { method: 'POST', body: new URLSearchParams({ user_code }) });
    assert.equal(bare.status, 403);
    assert.equal(await outcome(device_code), 'authorization_pending');
  });

  it('cannot frame a page, read an answer, or be sent where it likes', async () => {
    const { user_code } = await beginSignIn(gateway.url);
    const page = await browserAt('192.0.2.1').open(`/device?user_code=${user_code}&next=https://evil.example`);
    assert.match(String(page.headers.get('content-security-policy')), /frame-ancestors 'none'/);
    assert.equal(page.headers.get('x-frame-options'), 'DENY');
    assert.equal(page.headers.get('access-control-allow-origin'), null);
    assert.ok(!(await page.text()).includes('evil.example'));
    const away = await browserAt('192.0.2.1').confirm(user_code);
    assert.ok(away.headers.get('location')?.startsWith(`${provider.issuer}/`));
  });
});

describe('the Host header', () => {
  it('has no say in any URL', async () => {
    const headers = ['host', 'evil.example', 'x-forwarded-host', 'evil.example', 'forwarded', 'host=evil.example'];
    const form = [...headers, 'content-type', 'application/x-www-form-urlencoded'];
    const answers = [
      await send(gateway.url, { method: 'GET', path: '/.well-known/oauth-authorization-server', headers }),
      await send(gateway.url, { path: '/oauth/device_authorization', headers: form, body: 'x=1' }),
      await send(gateway.url, { method: 'GET', path: '/device', headers }),
      await send(gateway.url, { method: 'GET', path: '/protocol', headers }),
      await send(gateway.url, { method: 'GET', path: 'http://evil.example/device', headers }),
    ];
    for (const { text, headers: sent } of answers) {
      assert.ok(!text.includes('evil.example') && !JSON.stringify(sent).includes('evil.example'), text.slice(0, 200));
    }
  });
});

describe('whoever guesses codes', () => {
  /** Tries codes in turn until one is refused for the number of them. */
  async function triesOf(open: (n: number) => Promise<Response>): Promise<number> {
    for (let n = 0; n < 20; n++) if ((await open(n)).status === 429) return n;
    return Number.POSITIVE_INFINITY;
  }
  const code = (n: number) => `BCDFGHJ${'BCDFGHJKLMNPQRSTVWXZ'[n]}`;

  it('has four tries per address, by either way, and then the right code is no use', async () => {
    const { user_code, device_code } = await beginSignIn(gateway.url);
    const guesser = browserAt('192.0.2.7');
    assert.equal(
      await triesOf((n) => (n % 2 ? guesser.open(`/device?user_code=${code(n)}`) : guesser.confirm(code(n)))),
      4,
    );
    const refused = await guesser.confirm(user_code);
    assert.equal(refused.status, 429);
    assert.ok(Number(refused.headers.get('retry-after')) > 0 && Number(refused.headers.get('retry-after')) <= 600);
    assert.equal((await guesser.open(`/device?user_code=${user_code}`)).status, 429);
    assert.equal(await outcome(device_code), 'authorization_pending');
    // Others are not held up by that.
    assert.equal((await browserAt('192.0.2.8').open(`/device?user_code=${user_code}`)).status, 200);
  });

  it('gains nothing by claiming to be somebody else each time', async () => {
    const tries = triesOf((n) => browserAt(`198.51.100.${n}, 192.0.2.10`).open(`/device?user_code=${code(n)}`));
    assert.equal(await tries, 4);
  });
});

describe('whoever begins sign-ins without end', () => {
  it('writes no line of its own into log or page', async () => {
    const agent = 'ok/1\u0085{"level":"error"}';
    const begun = await fetch(`${gateway.url}/oauth/device_authorization`, {
      method: 'POST',
      headers: { 'x-forwarded-for': '192.0.2.22', 'user-agent': agent },
    });
    const { user_code } = (await begun.json()) as { user_code: string };
    const page = await (await browserAt('192.0.2.22').open(`/device?user_code=${user_code}`)).text();
    assert.ok(page.includes('ok/1'));
    assert.ok(!page.includes('{"level"') && !page.includes('\u0085'));
  });
});
