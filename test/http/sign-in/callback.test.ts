import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, assertPage, fails, ISSUER, SAME_ORIGIN, useSignIn } from './support.ts';

const { ask, backstage, begin, see, answer, leave, away, comeBack, poll } = useSignIn();

describe('the callback of the identity provider', () => {
  it('is tied to a cookie that only this origin sees and no script reads', async () => {
    const { response } = await away();
    const [cookie = ''] = response.headers['set-cookie'] ?? [];
    assert.match(
      cookie,
      /^__Host-appscli-sign-in-[\w-]{8}=[\w.-]+; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=600$/,
    );
    for (const secret of Object.values(backstage.attempts[0]!)) assert.ok(!cookie.includes(String(secret)));
  });

  it("rejects a browser without the cookie, or with another sign-in's", async () => {
    const [mine, other] = [await away(), await away()];
    const [name = '', value = ''] = mine.cookie.split('=');
    const swapped = `${name}=${other.cookie.split('=')[1]}`;
    const cut = `${name}=${value.slice(0, -4)}AAAA`;
    for (const cookie of ['', other.cookie, swapped, `${mine.cookie}; ${swapped}`, cut]) {
      assertPage(await comeBack({ ...mine, cookie }), 400, /no sign-in to finish here/);
    }
    assert.equal(backstage.callbacks.length, 0);
    // None of that spoilt the sign-in of the right browser, and each is good once.
    const both = `${other.cookie}; ${mine.cookie}`;
    const done = await comeBack({ ...mine, cookie: both });
    assertPage(done, 200, /signed in/i);
    assertPage(await comeBack(mine), 400, /no longer valid/);
    assertPage(await comeBack({ ...other, cookie: both }), 200, /signed in/i);
    // The last page, loaded again.
    const [kept = ''] = done.headers['set-cookie'] ?? [];
    assertPage(await comeBack({ ...mine, cookie: kept.split(';', 1)[0]! }), 200, /anna@example\.com/);
    assert.equal(backstage.callbacks.length, 2);
  });

  it('removes the cookie after a failure, and then shows where to continue', async () => {
    backstage.admit = () => ({ refused: 'group', message: 'You are in no group.', detail: 'no group' });
    const mine = await away();
    const [cookie = ''] = (await comeBack(mine)).headers['set-cookie'] ?? [];
    assert.match(cookie, /^__Host-appscli-sign-in-[\w-]{8}=; .*Max-Age=0$/);
    assert.equal(cookie.split('=')[0], mine.cookie.split('=')[0]);
    assertPage(await comeBack({ ...mine, cookie: '' }), 400, /If your terminal still waits, open the address it shows/);
  });

  it('is stored for five of them: the oldest are replaced, and no other cookie', async () => {
    const { user_code } = await begin();
    const name = (n: number) => `__Host-appscli-sign-in-${'x'.repeat(7)}${n}`;
    const many = [0, 1, 2, 3, 4, 5, 6].map((n) => `${name(n)}=v; theme=dark; __Host-appscli-sign-in-mine=v`);
    const { headers } = await answer(user_code, 'approve', { ...SAME_ORIGIN, cookie: many.join('; ') });
    const ended = (headers['set-cookie'] ?? []).slice(0, -1);
    const found = ended.map((line) => line.replace(/=.*; /, ' '));
    assert.deepEqual(found, [`${name(0)} Max-Age=0`, `${name(1)} Max-Age=0`, `${name(2)} Max-Age=0`]);
  });

  it('is void for an attempt that another one of the same code replaced', async () => {
    const first = await away();
    const second = await leave(first.user_code);
    assertPage(await comeBack(first), 400, /no longer valid/);
    assertPage(await comeBack(second), 200, /signed in/i);
  });

  it('accepts neither a repeated state nor an endless query', async () => {
    const mine = await away();
    assertPage(await comeBack(mine, `&state=${mine.state}`), 400, /more than once/);
    const endless = await ask('GET', `/oauth/callback?code=${'a'.repeat(15_500)}&x=${'b'.repeat(1000)}`);
    assert.ok(endless.status >= 400);
    assert.equal(backstage.callbacks.length, 0);
  });

  it('ignores HEAD, which must change nothing', async () => {
    const mine = await away();
    const { cookie, state } = mine;
    const head = await ask('HEAD', `/oauth/callback?code=a&state=${state}`, { headers: { cookie } });
    assert.equal(head.status, 405);
    assertPage(await comeBack(mine), 200, /signed in/i);
  });

  it('trusts nothing about its own host, and leads nowhere else, for any request', async () => {
    const extras = '&redirect_uri=https://evil.example&next=//evil.example&return_to=https:evil.example';
    const forged = { host: 'evil.example', 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'http' };
    const back = await comeBack(await away(), extras, forged);
    assert.deepEqual([back.status, back.headers.location], [200, undefined]);
    assert.ok(!back.text.includes('evil.example'));
    assert.equal(backstage.callbacks[0]?.origin, ISSUER);
  });
});

describe('the identity provider', () => {
  /** Asserts that the page leads back to the code, which still waits, and works when the outage is over. */
  async function assertStillGood(page: Awaited<ReturnType<typeof ask>>, begun: Awaited<ReturnType<typeof begin>>) {
    assert.ok(page.text.includes(`href="${ISSUER}/device?user_code=${begun.user_code}"`));
    backstage.clock.advance(5000);
    assert.equal((await poll(begun.device_code)).json().error, 'authorization_pending');
  }

  it('may be down when a user leaves for it or returns: the code can be used again', async () => {
    const begun = await begin();
    const works = { ...backstage.provider };
    backstage.provider.url = fails('unavailable');
    const kept = await answer(begun.user_code);
    assertPage(kept, 503, /is unavailable/);
    await assertStillGood(kept, begun);
    backstage.provider = { ...works, identify: fails('unavailable') };
    const down = await comeBack(await leave(begun.user_code));
    assertPage(down, 503, /still valid/);
    await assertStillGood(down, begun);
    backstage.provider = works;
    assertPage(await comeBack(await leave(begun.user_code)), 200, /signed in/i);
  });

  it('may return nonsense: the log has the details, the page has not', async () => {
    backstage.provider.identify = fails('invalid');
    const page = await comeBack(await away());
    assertPage(page, 502, /Invalid response/);
    assert.ok(!page.text.includes('not nice'));
    assert.match(backstage.logs.join('\n'), /not nice/);
  });

  it('may break in an unforeseen way: an error page, and the stack only in the log', async () => {
    backstage.provider.identify = () => {
      throw new TypeError('cannot read properties of the moon');
    };
    const page = await comeBack(await away());
    assertPage(page, 500, /Something went wrong/);
    assert.ok(!page.text.includes('moon') && !page.text.includes('.ts:'));
  });
});

describe('the database', () => {
  it('may be away at every step: 503, and nothing is lost', async () => {
    const mine = await away();
    backstage.store_down = true;
    const form = {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: mine.device_code,
      token: `gwr_${'x'.repeat(42)}A`,
    };
    for (const path of ['/oauth/device_authorization', '/oauth/token', '/oauth/revoke']) {
      const refused = await ask('POST', path, { form });
      assertError(refused, 503, 'temporarily_unavailable');
      assert.equal(refused.headers['retry-after'], '1');
    }
    assertPage(await see(mine.user_code), 503, /Not available/);
    assertPage(await comeBack(mine), 503, /Not available/);
    backstage.store_down = false;
    assertPage(await comeBack(mine), 200, /signed in/i);
  });

  it('may disappear while the user returns: the code can be used again', async () => {
    const { user_code } = await begin();
    const { identify } = backstage.provider;
    for (const identified of [identify, fails('refused')]) {
      const mine = await leave(user_code);
      backstage.provider.identify = () => {
        backstage.store_down = true;
        return identified();
      };
      const page = await comeBack(mine);
      assertPage(page, 503, /still valid/);
      assert.ok(page.text.includes(`href="${ISSUER}/device?user_code=${user_code}"`));
      backstage.store_down = false;
    }
    backstage.provider.identify = identify;
    assertPage(await comeBack(await leave(user_code)), 200, /signed in/i);
  });
});
