import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  ANNA,
  type Ask,
  assertPage,
  type Backstage,
  ISSUER,
  PROVIDER,
  SAME_ORIGIN,
  signInSteps,
  useSignIn,
} from './support.ts';

let ask: Ask;
let backstage: Backstage;
useSignIn((opened) => ({ ask, backstage } = opened));

const { begin, leave, comeBack, poll } = signInSteps(() => ask);

describe('a sign-in', () => {
  it('goes from a device code by way of the browser to a session token', async () => {
    const begun = await begin();
    assert.equal((await poll(begun.device_code)).json().error, 'authorization_pending');

    const away = await leave(begun.user_code);
    assert.equal(away.location.origin, PROVIDER);
    assertPage(await comeBack(away), 200, /anna@example\.com/);
    assert.equal(backstage.callbacks[0]?.href, `${ISSUER}/oauth/callback?code=code-1&state=${away.state}`);

    const tokens = (await poll(begun.device_code)).json();
    assert.deepEqual(Object.keys(tokens), ['access_token', 'token_type', 'expires_in', 'refresh_token', 'email']);
    assert.deepEqual([tokens.token_type, tokens.expires_in, tokens.email], ['Bearer', 3600, ANNA.email]);
    assert.ok(tokens.access_token.startsWith('ey'));
  });

  it('gives a device whose answer got lost the same again, and half a minute later ends what it gave', async () => {
    const begun = await begin();
    await comeBack(await leave(begun.user_code));
    const first = await poll(begun.device_code);
    assert.equal(first.status, 200);
    const repeated = await poll(begun.device_code);
    assert.deepEqual([repeated.status, repeated.json().refresh_token], [200, first.json().refresh_token]);
    backstage.clock.advance(30_000);
    const again = await poll(begun.device_code);
    assert.equal(again.status, 400);
    assert.equal(again.json().error, 'invalid_grant');
    assert.match(again.json().error_description, /used before/);
    assert.match(backstage.logs.join('\n'), /a device code was used again, so the session that it began was ended/);
    const form = { grant_type: 'refresh_token', refresh_token: first.json().refresh_token };
    assert.equal((await ask('POST', '/oauth/token', { form })).json().error, 'invalid_grant');
  });

  it('is over after ten minutes, for the device and for the browser', async () => {
    const begun = await begin();
    const away = await leave(begun.user_code);
    backstage.clock.advance(600_000);
    assert.equal((await poll(begun.device_code)).json().error, 'expired_token');
    assertPage(await comeBack(away), 400, /longer than ten minutes/);
    assertPage(await ask('GET', `/device?user_code=${begun.user_code}`), 404, /not known/);
  });

  it('remembers of the program its first product and its address, both harmless to show', async () => {
    const agent = `evil/1.0<script>${'x'.repeat(500)} second/2`;
    const { user_code } = await begin({ 'user-agent': agent });
    const page = await ask('GET', `/device?user_code=${user_code}`);
    assert.ok(page.text.includes('evil/1.0&lt;script&gt;'));
    assert.ok(!page.text.includes('<script'));
    assert.ok(!page.text.includes('x'.repeat(100)));
    assert.ok(!page.text.includes('second/2'));
    assert.ok(page.text.includes('127.0.0.1'));
  });

  it('puts no code, state, cookie or token into the log', async () => {
    const begun = await begin();
    const away = await leave(begun.user_code);
    await comeBack(away);
    const { access_token, refresh_token } = (await poll(begun.device_code)).json();
    await ask('POST', '/oauth/token', { form: { grant_type: 'refresh_token', refresh_token } });
    const log = backstage.logs.join('\n');
    assert.match(log, /a session began/);
    const [attempt] = backstage.attempts;
    const secrets = [begun.device_code, begun.user_code, away.state, away.cookie, access_token, refresh_token];
    for (const secret of [...secrets, attempt!.nonce, attempt!.code_verifier, 'code-1', 'provider-refresh-77']) {
      assert.ok(!log.includes(secret), `${secret} is in the log`);
    }
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

  it('shows what would be confirmed, and submits nothing by itself', async () => {
    const begun = await begin();
    const url = new URL(begun.verification_uri_complete);
    assertPage(await ask('GET', url.pathname + url.search), 200, /WDJB-MJHB/);
    assert.equal(backstage.attempts.length, 0);
    assert.equal((await poll(begun.device_code)).json().error, 'authorization_pending');
  });

  it('takes a code however it is typed', async () => {
    await begin();
    for (const typed of ['wdjbmjhb', 'WDJB%20MJHB', '%20wdjb-mjhb', 'WDJB%E2%80%93MJHB']) {
      assertPage(await ask('GET', `/device?user_code=${typed}`), 200, /WDJB-MJHB/);
    }
  });

  it('repeats what was typed as text, never as markup', async () => {
    const typed = '"><script>alert(1)</script>';
    const page = await ask('GET', `/device?user_code=${encodeURIComponent(typed)}`);
    assertPage(page, 400, /eight letters/);
    assert.ok(!page.text.includes('<script'));
  });

  it('answers an unknown code on the form, and an overlong one without repeating it', async () => {
    assertPage(await ask('GET', '/device?user_code=BBBBBBBB'), 404, /not known/);
    const page = await ask('GET', `/device?user_code=${'B'.repeat(5000)}`);
    assertPage(page, 400, /eight letters/);
    assert.ok(!page.text.includes('B'.repeat(50)));
  });

  it('lets the person say that it was somebody else, and then the device is refused', async () => {
    const begun = await begin();
    const { user_code } = begun;
    const said = await ask('POST', '/device', { form: { user_code, action: 'deny' }, headers: SAME_ORIGIN });
    assertPage(said, 200, /refused/);
    assert.equal((await poll(begun.device_code)).json().error, 'access_denied');
    assert.equal(backstage.attempts.length, 0);
  });

  it('knows no other action', async () => {
    const { user_code } = await begin();
    const said = await ask('POST', '/device', { form: { user_code, action: 'maybe' }, headers: SAME_ORIGIN });
    assertPage(said, 400, /approve/);
  });
});

describe('codes that are guessed', () => {
  it('are limited to ten wrong ones per address, and then good ones are refused as well', async () => {
    const { user_code } = await begin();
    for (let n = 0; n < 10; n++) assert.equal((await ask('GET', '/device?user_code=BBBBBBBB')).status, 404);
    for (const code of ['BBBBBBBB', user_code]) {
      const refused = await ask('GET', `/device?user_code=${code}`);
      assertPage(refused, 429, /Too many wrong codes were entered from your address\. Try again in 7 minutes\./);
      assert.equal(refused.headers['retry-after'], '420');
    }
    const form = { user_code, action: 'approve' };
    assertPage(await ask('POST', '/device', { form, headers: SAME_ORIGIN }), 429, /Too many/);
  });

  it('do not count where the person opened the link of the terminal', async () => {
    const { user_code } = await begin();
    for (let n = 0; n < 30; n++) assert.equal((await ask('GET', `/device?user_code=${user_code}`)).status, 200);
    assert.equal(backstage.counted.get('code_submission 127.0.0.1'), undefined);
  });

  it('count for the connection when nobody is trusted to say otherwise', async () => {
    for (let n = 0; n < 11; n++) {
      await ask('GET', '/device?user_code=BBBBBBBB', { headers: { 'x-forwarded-for': `192.0.2.${n}` } });
    }
    assert.deepEqual([...backstage.counted.keys()], ['code_submission 127.0.0.1']);
  });

  it('do not count when a page of another site makes the browser ask unseen, and learn nothing', async () => {
    const { user_code } = await begin();
    for (const destination of ['image', 'iframe', 'empty']) {
      const headers = { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': destination };
      assertPage(await ask('GET', `/device?user_code=${user_code}`, { headers }), 403, /part of another/);
      const begun = await ask('POST', '/oauth/device_authorization', { form: {}, headers });
      assert.equal(begun.status, 403);
    }
    assert.deepEqual([...backstage.counted], [['device_authorization 127.0.0.1', 1]]);
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'document' };
    assertPage(await ask('GET', `/device?user_code=${user_code}`, { headers: link }), 200, /WDJB-MJHB/);
  });

  it('are not counted when nothing could be one', async () => {
    for (let n = 0; n < 20; n++) assert.equal((await ask('GET', '/device?user_code=short')).status, 400);
    assert.equal(backstage.counted.size, 0);
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
      const answer = await ask('POST', '/device', { form: { user_code, action: 'approve' }, headers });
      assertPage(answer, 403, /own page/);
      assert.equal(backstage.attempts.length, 0);
      assert.equal(answer.headers['set-cookie'], undefined);
    });
  }

  it('is told from our own by either header', async () => {
    const headers: Record<string, string>[] = [
      { origin: ISSUER },
      { 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'same-origin', origin: 'null' },
    ];
    for (const proof of headers) {
      const { user_code } = await begin();
      const answer = await ask('POST', '/device', { form: { user_code }, headers: proof });
      assert.equal(answer.status, 303, answer.text);
    }
  });
});
