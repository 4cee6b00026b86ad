import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, assertPage, ISSUER, useSignIn } from './support.ts';

const { ask, backstage, rows, begin, see, answer, leave, away, comeBack, poll, renew, signIn } = useSignIn();
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

it('a device that polls again gets the same session, until it was renewed: then the session ends', async () => {
  const begun = await away();
  await comeBack(begun);
  const [first, again] = [await poll(begun.device_code), await poll(begun.device_code)];
  assert.equal(again.json().refresh_token, first.json().refresh_token);
  assert.equal((await renew(first.json().refresh_token)).status, 200);
  assertError(await poll(begun.device_code), 400, 'invalid_grant', /used again/);
  assert.match(backstage.logs.join('\n'), /a device code was used again; its session was ended/);
});

describe('a user whom the gateway does not admit', () => {
  /** Tries to sign in, by default as the Messages client does. */
  const tryToSignIn = async (form: Record<string, string> = { surface: 'claude_code' }) => {
    const { admit } = backstage;
    const misses = { came: ['everybody'], expected: ['engineering'], hints: [] };
    backstage.admit = () => ({ refused: 'group', message: 'You are in no group.', detail: 'none fits', misses });
    const headers = { 'user-agent': 'claude-code/2.1.330' };
    const begun = (await ask('POST', '/oauth/device_authorization', { form, headers })).json();
    return { ...begun, admit, page: await comeBack(await leave(begun.user_code)) };
  };
  const noted = async () => {
    const { id: _, at: __, ...refusal } = (await rows('refused_sign_ins').orderBy('id', 'desc'))[0]!;
    return refusal;
  };

  it('hears it in the Messages client, too, which has a sentence of its own for access_denied', async () => {
    assertError(await poll((await tryToSignIn({})).device_code), 400, 'access_denied', /You are in no group/);
    assertError(await poll((await tryToSignIn()).device_code), 403, 'invalid_grant', /You are in no group/);
  });

  it('is noted with the received and the expected groups, also when a session is to be renewed', async () => {
    const { refresh_token } = await signIn();
    const { page } = await tryToSignIn();
    const who = { email: 'anna@example.com', subject: 'anna-1', issuer: 'https://id.example.com', refused: 'group' };
    const groups = { groups: ['everybody'], expected: ['engineering'] };
    const request_id = /request ([0-9a-f-]{36})/.exec(page.text)?.[1];
    const from = { client: 'Claude Code 2.1.330', client_address: '127.0.0.1', request_id };
    assert.deepEqual(await noted(), { ...who, ...groups, ...from, detail: 'none fits' });
    assertError(await renew(refresh_token), 401, 'invalid_grant', /You are in no group/);
    const { detail, client, client_address, request_id: of_renewal, ...same } = await noted();
    assert.deepEqual(same, { ...who, ...groups });
    assert.equal(detail, 'when a session was to be renewed: none fits');
    assert.notEqual(of_renewal, request_id);
  });

  it('lets another user continue the sign-in until the terminal has given up', async () => {
    const { user_code, device_code, admit, page } = await tryToSignIn({});
    assertPage(page, 403, /<form method="post" action="\.\.\/device">.*value="other">Use another account<\/button>/s);
    const left = await leave(user_code, 'other');
    assert.equal(left.location.searchParams.get('prompt'), 'login');
    backstage.admit = admit;
    assertPage(await comeBack(left), 200, /signed in/i);
    assert.equal((await poll(device_code)).json().email, 'anna@example.com');
    const late = await tryToSignIn({});
    await poll(late.device_code);
    assertPage(await answer(late.user_code, 'other'), 400, /Your terminal has stopped waiting.*Use another account/s);
  });
});

describe('the page of a code', () => {
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

  it('lets the user deny the sign-in, and then the device is rejected', async () => {
    const begun = await begin();
    assertPage(await answer(begun.user_code, 'deny'), 200, /rejected/);
    assert.equal((await poll(begun.device_code)).json().error, 'access_denied');
    assert.equal(backstage.attempts.length, 0);
  });

  it('knows no other action', async () => {
    const { user_code } = await begin();
    assertPage(await answer(user_code, 'maybe'), 400, /approve/);
  });
});

describe('codes that are guessed', () => {
  it('are limited to ten wrong ones per address, and then good ones are rejected as well', async () => {
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
    it(`is rejected when it ${what}`, async () => {
      const { user_code } = await begin();
      const refused = await answer(user_code, 'approve', headers);
      assertPage(refused, 403, /own page/);
      assert.equal(backstage.attempts.length, 0);
      assert.equal(refused.headers['set-cookie'], undefined);
    });
  }

  it('is distinguished from our own by either header', async () => {
    const same = { 'sec-fetch-site': 'same-origin' };
    for (const proof of [{ origin: ISSUER }, same, { ...same, origin: 'null' }] as Record<string, string>[]) {
      assert.equal((await answer((await begin()).user_code, 'approve', proof)).status, 303);
    }
  });
});
