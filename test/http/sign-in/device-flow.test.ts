import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertPage, ISSUER, useSignIn } from './support.ts';

const { ask, backstage, rows, begin, see, answer, away, comeBack, poll } = useSignIn();
/** Kind and number of the attempts that are counted. */
const counted = async () => (await rows('attempts')).map(({ kind, count }) => `${kind} ${count}`);

describe('a sign-in', () => {
  it('is over after ten minutes, for the device and for the browser', async () => {
    const left = await away();
    backstage.clock.advance(600_000);
    assert.equal((await poll(left.device_code)).json().error, 'expired_token');
    assertPage(await comeBack(left), 400, /longer than ten minutes/);
    assertPage(await see(left.user_code), 404, /Unknown code/);
  });

  it('remembers of the program its first product and its address, both harmless to show', async () => {
    const agent = `evil/1.0<script>${'x'.repeat(500)} second/2`;
    const { user_code } = await begin({ 'user-agent': agent });
    const page = await see(user_code);
    assert.ok(page.text.includes('evil/1.0&lt;script&gt;'));
    assert.ok(!page.text.includes('<script'));
    assert.ok(!page.text.includes('x'.repeat(100)));
    assert.ok(!page.text.includes('second/2'));
    assert.ok(page.text.includes('127.0.0.1'));
  });
});

describe('the page of a code', () => {
  it('shows an empty form without a code', async () => {
    assertPage(await ask('GET', '/device'), 200, /name="user_code"/);
  });

  it('is found with a slash at its end as well, at the public URL alone', async () => {
    const at = async (path: string) => {
      const { status, headers } = await ask('GET', path, { headers: { host: 'evil.example' } });
      return [status, headers.location];
    };
    assert.deepEqual(await at('/device/'), [308, `${ISSUER}/device`]);
    assert.deepEqual(await at('/device/?user_code=WDJB-MJHB&x=1'), [308, `${ISSUER}/device?user_code=WDJB-MJHB`]);
    const hostile = await at('/device/?user_code=%0d%0aset-cookie:%20a=b');
    assert.deepEqual(hostile, [308, `${ISSUER}/device?user_code=%0D%0Aset-cookie%3A%20a%3Db`]);
  });

  it('answers an unknown code on the form, and an overlong one without repeating it', async () => {
    assertPage(await see('BBBBBBBB'), 404, /Unknown code/);
    const page = await see('B'.repeat(5000));
    assertPage(page, 400, /eight letters/);
    assert.ok(!page.text.includes('B'.repeat(50)));
  });

  it('lets the person say that it was somebody else, and then the device is refused', async () => {
    const begun = await begin();
    assertPage(await answer(begun.user_code, 'deny'), 200, /refused/);
    assert.equal((await poll(begun.device_code)).json().error, 'access_denied');
    assert.equal(backstage.attempts.length, 0);
  });

  it('knows no other action', async () => {
    const { user_code } = await begin();
    assertPage(await answer(user_code, 'maybe'), 400, /approve/);
  });
});

describe('codes that are guessed', () => {
  it('are limited to ten wrong ones per address, and then good ones are refused as well', async () => {
    const { user_code } = await begin();
    for (let n = 0; n < 10; n++) assert.equal((await see('BBBBBBBB')).status, 404);
    for (const code of ['BBBBBBBB', user_code]) {
      const refused = await see(code);
      assertPage(refused, 429, /Too many wrong codes from your address\. Try again in 10 minutes\./);
      assert.equal(refused.headers['retry-after'], '600');
    }
    assertPage(await answer(user_code), 429, /Too many/);
  });

  it('do not count where the person opened the link of the terminal', async () => {
    const { user_code } = await begin();
    for (let n = 0; n < 30; n++) assert.equal((await see(user_code)).status, 200);
    assert.deepEqual(await counted(), ['device_authorization 1', 'code_submission 0']);
  });

  it('do not count when a page of another site makes the browser ask unseen, and learn nothing', async () => {
    const { user_code } = await begin();
    for (const destination of ['image', 'iframe', 'empty']) {
      const headers = { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': destination };
      assertPage(await see(user_code, headers), 403, /embedded/);
      assert.equal((await ask('POST', '/oauth/device_authorization', { form: {}, headers })).status, 403);
    }
    assert.deepEqual(await counted(), ['device_authorization 1']);
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'document' };
    assertPage(await see(user_code, link), 200, new RegExp(user_code));
  });

  it('are not counted when nothing could be one', async () => {
    for (let n = 0; n < 20; n++) assert.equal((await see('short')).status, 400);
    assert.deepEqual(await counted(), []);
  });
});

describe('a form of another site', () => {
  const foreign: [string, Record<string, string>][] = [
    ['says so', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    ['comes from a subdomain', { 'sec-fetch-site': 'same-site', origin: 'https://pages.example.com' }],
    ['has another origin alone', { origin: 'https://evil.example' }],
    ['has our host at another scheme', { origin: 'http://gateway.example.com' }],
    ['has no origin of its own', { origin: 'null' }],
    ['says nothing at all', {}],
    ['lies about one of the two', { 'sec-fetch-site': 'same-origin', origin: 'https://evil.example' }],
    ['brings the host it wants to be', { host: 'evil.example', origin: 'https://evil.example' }],
  ];
  for (const [what, headers] of foreign) {
    it(`is refused when it ${what}`, async () => {
      const { user_code } = await begin();
      const refused = await answer(user_code, 'approve', headers);
      assertPage(refused, 403, /own page/);
      assert.equal(backstage.attempts.length, 0);
      assert.equal(refused.headers['set-cookie'], undefined);
    });
  }

  it('is told from our own by either header', async () => {
    const same = { 'sec-fetch-site': 'same-origin' };
    for (const proof of [{ origin: ISSUER }, same, { ...same, origin: 'null' }] as Record<string, string>[]) {
      assert.equal((await answer((await begin()).user_code, 'approve', proof)).status, 303);
    }
  });
});
