import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { createBackend, oauthError, startScriptedGateway, tokens } from '../../client/scripted-gateway.ts';
import { signInBench } from './sign-in-bench.ts';

const PENDING = oauthError('authorization_pending');
const bench = signInBench();

describe('a sign-in that goes well', () => {
  test('shows page and code, waits at the pace asked for, keeps the credentials, says who signed in', async () => {
    bench.gateway.polls = [PENDING, PENDING, tokens()];
    assert.equal(await bench.signIn(), 0);
    assert.equal(bench.passed_seconds(), 15);
    assert.equal(
      bench.backend.info(),
      `Signing in at ${bench.gateway.url}.

Open this page in a browser:

  ${bench.gateway.url}/device?user_code=WDJB-MJHT

Go on there only if it shows the same code as here:

  WDJB-MJHT

Waiting for you; the code is good for 10:00 minutes.
Signed in at ${bench.gateway.url} as alice@example.com.

  appscli models   shows the models you may use, with prices
  appscli client   sets up a coding client for this gateway
  appscli token    prints a token that is valid now
  appscli logout   ends the sign-in
`,
    );
    assert.equal(bench.backend.data(), '');
    assert.deepEqual(bench.kept(), {
      version: 1,
      gateways: {
        [bench.gateway.url]: {
          access_token: 'access-0',
          expires_at: '2027-01-31T13:00:15.000Z',
          lifetime_seconds: 3600,
          refresh_token: 'refresh-0',
          email: 'alice@example.com',
        },
      },
    });
  });

  test('sends what the protocol asks for, and says what program it is', async () => {
    await bench.signIn();
    const [authorization] = bench.gateway.to('/oauth/device_authorization');
    assert.deepEqual(authorization?.form, { surface: 'appscli' });
    assert.match(String(authorization?.headers['user-agent']), /^appscli\/\d+\.\d+\.\d+/);
    assert.deepEqual(bench.gateway.to('/oauth/token')[0]?.form, {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: 'device-code-of-the-test',
    });
  });

  test('keeps the credentials where only their owner can read them', async () => {
    await bench.signIn();
    assert.equal(statSync(bench.backend.path).mode & 0o777, 0o600);
    assert.equal(statSync(dirname(bench.backend.path)).mode & 0o777, 0o700);
  });

  test('with --json says where, who and for how long', async () => {
    await bench.signIn({ json: true });
    assert.deepEqual(JSON.parse(bench.backend.data()), {
      base_url: bench.gateway.url,
      email: 'alice@example.com',
      expires_at: '2027-01-31T13:00:05.000Z',
    });
  });

  test('a second gateway stands beside the first, and a new sign-in ends the one it replaces', async () => {
    await bench.signIn();
    const first = bench.gateway;
    bench.gateway = await startScriptedGateway();
    await bench.signIn();
    assert.deepEqual(Object.keys(bench.kept().gateways).sort(), [first.url, bench.gateway.url].sort());
    bench.gateway.polls = [tokens({ access_token: 'access-9', refresh_token: 'refresh-9' })];
    await bench.signIn();
    assert.deepEqual(
      bench.gateway.to('/oauth/revoke').map(({ form }) => form.token),
      ['refresh-0', 'access-0'],
    );
    assert.equal(bench.kept().gateways[bench.gateway.url].access_token, 'access-9');
    assert.deepEqual(first.to('/oauth/revoke'), []);
  });

  test('slow_down makes it ask less often from then on', async () => {
    bench.gateway.polls = [oauthError('slow_down'), PENDING, oauthError('slow_down', 429), tokens()];
    await bench.signIn();
    assert.equal(bench.passed_seconds(), 5 + 10 + 10 + 15);
  });

  test('a gateway that comes and goes is asked again', async () => {
    bench.gateway.polls = [
      { status: 502, body: '<html>Bad gateway</html>' },
      oauthError('temporarily_unavailable', 503, { 'retry-after': '30' }),
      { status: 429, headers: { 'retry-after': '1000000' }, body: {} },
      tokens(),
    ];
    await bench.signIn();
    assert.equal(bench.passed_seconds(), 5 + 5 + 30 + 5);
    assert.match(bench.backend.info(), /^Trying on: .*status 502, not in JSON$/m);
    assert.match(bench.backend.info(), /^Trying on: .*temporarily_unavailable$/m);
  });
});

describe('the browser', () => {
  const display = () => ({ ...bench.backend.env, DISPLAY: ':0' });
  beforeEach(() => {
    bench.backend = createBackend({ watched: true });
  });

  test('opens the page with the code filled in where a person sits at the terminal', async () => {
    await bench.signIn({}, display());
    assert.deepEqual(bench.opened, [`${bench.gateway.url}/device?user_code=WDJB-MJHT`]);
    assert.match(bench.backend.info(), /Your browser opens this page; if it does not, open it:/);
  });

  test('stays closed with --no-browser, over SSH, without a display and without a terminal', async () => {
    await bench.signIn({ browser: false }, display());
    await bench.signIn({}, { ...display(), SSH_CONNECTION: '192.0.2.1 1 192.0.2.2 22' });
    if (process.platform === 'linux') await bench.signIn({}, bench.backend.env);
    bench.backend = createBackend();
    await bench.signIn({}, display());
    assert.deepEqual(bench.opened, []);
  });

  test('one line says how long the code is good for, second by second, and goes away', async () => {
    bench.gateway.polls = [PENDING, tokens()];
    await bench.signIn();
    const shown = bench.backend.info().split('\r');
    assert.equal(shown[1], 'Waiting for you (10:00 left, Ctrl-C stops)\x1b[K');
    assert.equal(shown[2], 'Waiting for you (9:59 left, Ctrl-C stops)\x1b[K');
    assert.equal(shown[10], 'Waiting for you (9:51 left, Ctrl-C stops)\x1b[K');
    assert.match(shown[11]!.replace('\x1b[K', ''), /^Signed in at /);
  });
});

describe('a sign-in that ends otherwise', () => {
  for (const [code, words] of [
    ['access_denied', /^the sign-in was refused$/],
    ['expired_token', /code has expired.*start again/],
    ['invalid_grant', /does not know the code any more/],
  ] as const) {
    test(`${code} ends it with words and exit code 1`, async () => {
      bench.gateway.polls = [PENDING, oauthError(code)];
      const error = await bench.refused();
      assert.equal(error.exit_code, 1);
      assert.match(error.message, words);
      assert.equal(existsSync(bench.backend.path), false);
    });
  }

  test('the reason of a refusal is passed on without what a terminal acts upon', async () => {
    bench.gateway.polls = [
      { status: 400, body: { error: 'access_denied', error_description: 'not in\n group \x1b[31meng\x07' } },
    ];
    assert.equal((await bench.refused()).message, 'the sign-in was refused: not in group \uFFFD[31meng\uFFFD');
  });

  test('one that is never decided ends with the life of the code', async () => {
    bench.gateway.polls = [PENDING];
    const error = await bench.refused();
    assert.equal(error.exit_code, 1);
    assert.match(error.message, /expired/);
    assert.equal(bench.passed_seconds(), 600);
    assert.equal(bench.gateway.to('/oauth/token').length, 120);
  });

  test('a gateway that stays away ends it with exit code 69 once the code has expired', async () => {
    bench.gateway.polls = [{ status: 500 }];
    const error = await bench.refused();
    assert.equal(error.exit_code, 69);
    assert.equal(bench.passed_seconds(), 600);
  });

  test('Ctrl-C ends it with words and exit code 1, and nothing is kept', async () => {
    const before = process.listenerCount('SIGINT');
    bench.gateway.scripts.set('/oauth/token', () => {
      // Whoever else listens in this process is not to hear of it.
      process.listeners('SIGINT').at(-1)?.('SIGINT');
      return PENDING;
    });
    const error = await bench.refused();
    assert.equal(error.exit_code, 1);
    assert.equal(error.message, 'stopped; you are not signed in');
    assert.equal(existsSync(bench.backend.path), false);
    assert.equal(process.listenerCount('SIGINT'), before);
  });

  test('no gateway at the address: exit code 69 at once', async () => {
    const error = await bench.refused({ baseUrl: 'http://127.0.0.1:1' });
    assert.equal(error.exit_code, 69);
    assert.match(error.message, /^no answer from http:\/\/127\.0\.0\.1:1: /);
  });
});

describe('before anybody is asked to sign in', () => {
  test('an address that is none, or that others can listen to, is a wrong command line', async () => {
    for (const baseUrl of [
      'gateway.example.com',
      'http://gateway.example.com',
      'ftp://127.0.0.1',
      'https://u:p@x.example',
      '',
    ]) {
      const error = await bench.refused({ baseUrl });
      assert.equal(error.exit_code, 64, baseUrl);
      assert.match(error.message, /^--base-url is no address of a gateway: .*write https:\/\/gateway\.example\.com$/);
      assert.ok(!error.message.includes('u:p'));
    }
  });

  test('the address may come from the environment, with a slash at the end', async () => {
    const env = { ...bench.backend.env, APPSCLI_BASE_URL: `${bench.gateway.url}/` };
    assert.equal(await bench.signIn({ baseUrl: undefined }, env), 0);
    assert.deepEqual(Object.keys(bench.kept().gateways), [bench.gateway.url]);
  });

  test('without an address it says how to give one', async () => {
    const error = await bench.refused({ baseUrl: undefined });
    assert.equal(error.exit_code, 64);
    assert.match(error.message, /appscli login --base-url https:/);
  });

  test('a damaged credentials file is left as it is', async () => {
    mkdirSync(dirname(bench.backend.path), { recursive: true });
    for (const text of [
      '{',
      '[]',
      '{"version":2,"gateways":{}}',
      '{"version":1,"gateways":{"https://a":{"access_token":7}}}',
    ]) {
      writeFileSync(bench.backend.path, text, { mode: 0o600 });
      const error = await bench.refused();
      assert.match(error.message, /is not a credentials file of appscli: .*move it away and sign in again$/);
      assert.equal(readFileSync(bench.backend.path, 'utf8'), text);
    }
    assert.deepEqual(bench.gateway.requests, []);
  });

  test('a place where nothing can be kept is found out', { skip: process.platform !== 'linux' }, async () => {
    const signing_in = bench.signIn({}, { ...bench.backend.env, XDG_CONFIG_HOME: '/proc/nowhere' });
    await assert.rejects(signing_in, { exit_code: 69, message: /cannot be written: no directory can be made there$/ });
    assert.deepEqual(bench.gateway.requests, []);
  });
});
