import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProviderError } from '../../../engine/identity/provider/provider.ts';
import {
  type Ask,
  assertPage,
  type Backstage,
  cookieOf,
  ISSUER,
  SAME_ORIGIN,
  signInSteps,
  useSignIn,
} from './support.ts';

let ask: Ask;
let backstage: Backstage;
useSignIn((opened) => ({ ask, backstage } = opened));

const { begin, leave, comeBack, poll } = signInSteps(() => ask);

describe('the way back from the identity provider', () => {
  it('is tied to a cookie that only this origin sees and no script reads', async () => {
    const { user_code } = await begin();
    const { response } = await leave(user_code);
    const [cookie = ''] = response.headers['set-cookie'] ?? [];
    assert.match(
      cookie,
      /^__Host-appscli-sign-in-[\w-]{8}=[\w.-]+; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=600$/,
    );
    for (const secret of Object.values(backstage.attempts[0]!)) assert.ok(!cookie.includes(String(secret)));
  });

  it('is closed to a browser without the cookie, or with that of another sign-in', async () => {
    const [first, second] = [await begin(), await begin()];
    const mine = await leave(first.user_code);
    const other = await leave(second.user_code);
    const [name = '', value = ''] = mine.cookie.split('=');
    const swapped = `${name}=${other.cookie.split('=')[1]}`;
    for (const cookie of [
      '',
      other.cookie,
      swapped,
      `${mine.cookie}; ${swapped}`,
      `${name}=${value.slice(0, -4)}AAAA`,
    ]) {
      assertPage(await comeBack({ ...mine, cookie }), 400, /no sign-in to finish here/);
    }
    assert.equal(backstage.callbacks.length, 0);
    // None of that spoilt the sign-in of the right browser.
    assertPage(await comeBack(mine), 200, /signed in/i);
  });

  it('works once; the browser keeps no more of it than its last page takes', async () => {
    const { user_code } = await begin();
    const away = await leave(user_code);
    const back = await comeBack(away);
    assertPage(await comeBack(away), 400, /no longer good/);
    const again = await comeBack({ ...away, cookie: cookieOf(back) });
    assertPage(again, 200, /works as <strong>anna@example\.com/);
    assert.equal(again.headers['set-cookie'], undefined);
    assert.equal(backstage.callbacks.length, 1);
    backstage.clock.advance(600_000);
    assertPage(await comeBack({ ...away, cookie: cookieOf(back) }), 400, /no sign-in to finish here/);
  });

  it('takes the cookie away when it led nowhere, and then says where to go on', async () => {
    backstage.admit = () => ({ refused: 'group', message: 'You are in no group.', detail: 'no group' });
    const { user_code } = await begin();
    const away = await leave(user_code);
    const [cookie = ''] = (await comeBack(away)).headers['set-cookie'] ?? [];
    assert.match(cookie, /^__Host-appscli-sign-in-[\w-]{8}=; .*Max-Age=0$/);
    assert.equal(cookie.split('=')[0], away.cookie.split('=')[0]);
    assertPage(await comeBack({ ...away, cookie: '' }), 400, /if it still waits, open the address it shows/);
  });

  it('is kept for several sign-ins of one browser at once, each with a cookie of its own', async () => {
    const [first, second] = [await leave((await begin()).user_code), await leave((await begin()).user_code)];
    const cookie = `theme=dark; ${first.cookie}; ${second.cookie}`;
    assertPage(await comeBack({ ...second, cookie }), 200, /signed in/i);
    assertPage(await comeBack({ ...first, cookie }), 200, /signed in/i);
  });

  it('is kept for five of them: the oldest make room, and no other cookie does', async () => {
    const { user_code } = await begin();
    const name = (n: number) => `__Host-appscli-sign-in-${'x'.repeat(7)}${n}`;
    const many = [0, 1, 2, 3, 4, 5, 6].map((n) => `${name(n)}=v; theme=dark; __Host-appscli-sign-in-mine=v`);
    const headers = { ...SAME_ORIGIN, cookie: many.join('; ') };
    const { headers: sent } = await ask('POST', '/device', { form: { user_code }, headers });
    const names = (sent['set-cookie'] ?? []).map((line) => line.split('=')[0]);
    assert.deepEqual(names.slice(0, -1), [name(0), name(1), name(2)]);
    assert.ok(sent['set-cookie']?.slice(0, -1).every((line) => line.endsWith('Max-Age=0')));
  });

  it('is void for an attempt that another one of the same code replaced', async () => {
    const { user_code } = await begin();
    const first = await leave(user_code);
    const second = await leave(user_code);
    assertPage(await comeBack(first), 400, /no longer good/);
    assertPage(await comeBack(second), 200, /signed in/i);
  });

  it('takes neither a repeated state nor an endless query', async () => {
    const { user_code } = await begin();
    const { cookie, state } = await leave(user_code);
    const twice = await ask('GET', `/oauth/callback?code=a&state=${state}&state=${state}`, { headers: { cookie } });
    assertPage(twice, 400, /more than once/);
    const endless = await ask('GET', `/oauth/callback?code=${'a'.repeat(15_500)}&x=${'b'.repeat(1000)}`, {
      headers: {},
    });
    assert.ok(endless.status >= 400);
    assert.equal(backstage.callbacks.length, 0);
  });

  it('is not walked by HEAD, which must change nothing', async () => {
    const { user_code } = await begin();
    const away = await leave(user_code);
    const path = `/oauth/callback?code=a&state=${away.state}`;
    assert.equal((await ask('HEAD', path, { headers: { cookie: away.cookie } })).status, 405);
    assertPage(await comeBack(away), 200, /signed in/i);
  });

  it('believes nothing about its own host', async () => {
    const { user_code } = await begin();
    const { cookie, state } = await leave(user_code);
    const headers = { cookie, host: 'evil.example', 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'http' };
    await ask('GET', `/oauth/callback?code=a&state=${state}`, { headers });
    assert.equal(backstage.callbacks[0]?.origin, ISSUER);
  });

  it('leads nowhere else, whatever the request asks for', async () => {
    const begun = await begin();
    const wishes = '&redirect_uri=https://evil.example&next=//evil.example&return_to=https:evil.example';
    const away = await leave(begun.user_code);
    const path = `/oauth/callback?code=a&state=${away.state}${wishes}`;
    const back = await ask('GET', path, { headers: { cookie: away.cookie } });
    assert.equal(back.status, 200);
    assert.equal(back.headers.location, undefined);
    assert.ok(!back.text.includes('evil.example'));
  });
});

describe('the identity provider', () => {
  const fails = (problem: ProviderError['problem']) => () => {
    throw new ProviderError(problem, 'the token endpoint was not nice');
  };

  it('may be down when a person leaves for it: the sign-in waits', async () => {
    const begun = await begin();
    const { url } = backstage.provider;
    backstage.provider.url = fails('unavailable');
    const form = { user_code: begun.user_code, action: 'approve' };
    const refused = await ask('POST', '/device', { form, headers: SAME_ORIGIN });
    assertPage(refused, 503, /does not answer/);
    assert.ok(refused.text.includes(`href="${ISSUER}/device?user_code=${begun.user_code}"`));
    assert.equal((await poll(begun.device_code)).json().error, 'authorization_pending');
    backstage.provider.url = url;
    assertPage(await comeBack(await leave(begun.user_code)), 200, /signed in/i);
  });

  it('may be down when the person comes back: the code can be used again', async () => {
    const begun = await begin();
    const { identify } = backstage.provider;
    backstage.provider.identify = fails('unavailable');
    const down = await comeBack(await leave(begun.user_code));
    assertPage(down, 503, /still good/);
    assert.ok(down.text.includes(`href="${ISSUER}/device?user_code=${begun.user_code}"`));
    assert.equal((await poll(begun.device_code)).json().error, 'authorization_pending');
    backstage.provider.identify = identify;
    assertPage(await comeBack(await leave(begun.user_code)), 200, /signed in/i);
  });

  it('may answer nonsense: the log says what, the page does not', async () => {
    const begun = await begin();
    backstage.provider.identify = fails('invalid');
    const page = await comeBack(await leave(begun.user_code));
    assertPage(page, 502, /no usable answer/);
    assert.ok(!page.text.includes('not nice'));
    assert.match(backstage.logs.join('\n'), /not nice/);
  });

  it('may refuse the person: the device is refused too', async () => {
    const begun = await begin();
    backstage.provider.identify = fails('refused');
    assertPage(await comeBack(await leave(begun.user_code)), 403, /does not let you/);
    assert.equal((await poll(begun.device_code)).json().error, 'access_denied');
  });

  it('may verify somebody whom the gateway does not admit: the page says why, the log whom', async () => {
    const begun = await begin();
    const message = 'Only members of engineering may sign in.';
    backstage.admit = () => ({ refused: 'group', message, detail: 'no group of allowed_groups' });
    assertPage(await comeBack(await leave(begun.user_code)), 403, /Only members of engineering/);
    assert.equal((await poll(begun.device_code)).json().error, 'access_denied');
    assert.match(backstage.logs.join('\n'), /anna-1.*anna@example\.com.*no group of allowed_groups/);
  });

  it('may break in an unforeseen way: an error page, and the stack only in the log', async () => {
    const { user_code } = await begin();
    backstage.provider.identify = () => {
      throw new TypeError('cannot read properties of the moon');
    };
    const page = await comeBack(await leave(user_code));
    assertPage(page, 500, /Something went wrong/);
    assert.ok(!page.text.includes('moon') && !page.text.includes('.ts:'));
  });
});

describe('the database', () => {
  it('may be away at every step: 503, and nothing is lost', async () => {
    const begun = await begin();
    const away = await leave(begun.user_code);
    backstage.store_down = true;
    for (const path of ['/oauth/device_authorization', '/oauth/token', '/oauth/revoke']) {
      const form = {
        grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
        device_code: begun.device_code,
        token: `gwr_${'x'.repeat(42)}A`,
      };
      const answer = await ask('POST', path, { form });
      assert.equal(answer.status, 503, path);
      assert.equal(answer.json().error, 'temporarily_unavailable');
      assert.equal(answer.headers['retry-after'], '1');
    }
    assertPage(await ask('GET', `/device?user_code=${begun.user_code}`), 503, /Not available/);
    assertPage(await comeBack(away), 503, /Not available/);
    backstage.store_down = false;
    assertPage(await comeBack(away), 200, /signed in/i);
  });

  it('may go away while the person comes back: the code can be used again', async () => {
    const begun = await begin();
    const { identify } = backstage.provider;
    const refuse = () => {
      throw new ProviderError('refused', 'the person said no');
    };
    for (const answer of [identify, refuse]) {
      const away = await leave(begun.user_code);
      backstage.provider.identify = () => {
        backstage.store_down = true;
        return answer();
      };
      const page = await comeBack(away);
      assertPage(page, 503, /still good/);
      assert.ok(page.text.includes(`href="${ISSUER}/device?user_code=${begun.user_code}"`));
      backstage.store_down = false;
    }
    backstage.provider.identify = identify;
    assertPage(await comeBack(await leave(begun.user_code)), 200, /signed in/i);
  });
});
