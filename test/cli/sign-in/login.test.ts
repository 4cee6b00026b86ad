import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { login } from '../../../engine/edge/cli/sign-in.ts';
import {
  type Backend,
  createBackend,
  drive,
  oauthError,
  type ScriptedGateway,
  startScriptedGateway,
  tokens,
} from '../../client/scripted-gateway.ts';
import { assertNarrow, failure } from '../at-gateway.ts';

const START = '2027-01-31T12:00:00Z';
const PENDING = oauthError('authorization_pending');

/** A sign-in at a scripted gateway, with time that moves by itself. */
let gateway: ScriptedGateway;
let backend: Backend;
let clock = frozenClock(START);
let opened: string[];

beforeEach(async () => {
  gateway = await startScriptedGateway();
  backend = createBackend();
  clock = frozenClock(START);
  opened = [];
});

type Given = { json?: true; browser?: boolean; baseUrl?: string | undefined };

function signIn(input: Given = {}, env = backend.env): Promise<number> {
  const options = { baseUrl: gateway.url, browser: true, ...input };
  return drive(
    clock,
    login({ ...backend.context, env, clock }, options, (url) => void opened.push(url)),
  );
}

const refused = (input: Given = {}) => failure(signIn(input));

const kept = () => JSON.parse(readFileSync(backend.path, 'utf8'));
const passed_seconds = () => (clock.now() - Date.parse(START)) / 1000;

describe('a successful sign-in', () => {
  test('shows page and code, polls at the given pace, stores the credentials, prints the user', async () => {
    gateway.polls = [PENDING, PENDING, tokens()];
    assert.equal(await signIn(), 0);
    assert.equal(passed_seconds(), 15);
    assert.equal(
      backend.info(),
      `Signing in at ${gateway.url}.

Open this page in a browser:

  ${gateway.url}/device?user_code=WDJB-MJHT

Continue only if the page shows this code:

  WDJB-MJHT

Waiting for sign-in; the code is valid for 10:00 minutes.
Signed in at ${gateway.url} as alice@example.com.

  appscli models   list your models, with prices
  appscli client   set up a coding client
  appscli token    print a valid token
  appscli logout   end the sign-in
`,
    );
    assert.equal(backend.data(), '');
    assert.deepEqual(kept(), {
      version: 1,
      gateways: {
        [gateway.url]: {
          access_token: 'access-0',
          expires_at: '2027-01-31T13:00:15.000Z',
          lifetime_seconds: 3600,
          refresh_token: 'refresh-0',
          email: 'alice@example.com',
        },
      },
    });
  });

  test("sends the protocol's fields, and its program name", async () => {
    await signIn();
    const [authorization] = gateway.to('/oauth/device_authorization');
    assert.deepEqual(authorization?.form, { surface: 'appscli' });
    assert.match(String(authorization?.headers['user-agent']), /^appscli\/\d+\.\d+\.\d+/);
    assert.deepEqual(gateway.to('/oauth/token')[0]?.form, {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: 'device-code-of-the-test',
    });
  });

  test('with --json names where, who and for how long', async () => {
    await signIn({ json: true });
    assert.deepEqual(JSON.parse(backend.data()), {
      base_url: gateway.url,
      email: 'alice@example.com',
      expires_at: '2027-01-31T13:00:05.000Z',
    });
  });

  test('a second gateway is stored beside the first, and a new sign-in replaces its predecessor', async () => {
    await signIn();
    const first = gateway;
    gateway = await startScriptedGateway();
    await signIn();
    assert.deepEqual(Object.keys(kept().gateways).sort(), [first.url, gateway.url].sort());
    gateway.polls = [tokens({ access_token: 'access-9', refresh_token: 'refresh-9' })];
    await signIn();
    const revoked = gateway.to('/oauth/revoke').map(({ form }) => form.token);
    assert.deepEqual(revoked, ['refresh-0', 'access-0']);
    assert.equal(kept().gateways[gateway.url].access_token, 'access-9');
    assert.deepEqual(first.to('/oauth/revoke'), []);
  });

  test('slow_down makes it poll less often from then on', async () => {
    gateway.polls = [oauthError('slow_down'), PENDING, oauthError('slow_down', 429), tokens()];
    await signIn();
    assert.equal(passed_seconds(), 5 + 10 + 10 + 15);
  });

  test('retries a gateway that comes and goes', async () => {
    gateway.polls = [
      { status: 502, body: '<html>Bad gateway</html>' },
      oauthError('temporarily_unavailable', 503, { 'retry-after': '30' }),
      { status: 429, headers: { 'retry-after': '1000000' }, body: {} },
      tokens(),
    ];
    await signIn();
    assert.equal(passed_seconds(), 5 + 5 + 30 + 5);
    assert.match(backend.info(), /^Retrying: .*status 502, not in JSON$/m);
    assert.match(backend.info(), /^Retrying: .*temporarily_unavailable$/m);
  });
});

describe('the browser', () => {
  const display = () => ({ ...backend.env, DISPLAY: ':0' });
  beforeEach(() => {
    backend = createBackend({ watched: true });
  });

  test('opens the page with the code filled in for a user at the terminal', async () => {
    await signIn({}, display());
    assert.deepEqual(opened, [`${gateway.url}/device?user_code=WDJB-MJHT`]);
    assert.match(backend.info(), /Your browser opens this page; otherwise open it yourself:/);
  });

  test('stays closed with --no-browser, over SSH, without a display and without a terminal', async () => {
    await signIn({ browser: false }, display());
    await signIn({}, { ...display(), SSH_CONNECTION: '192.0.2.1 1 192.0.2.2 22' });
    if (process.platform === 'linux') await signIn({}, backend.env);
    backend = createBackend();
    await signIn({}, display());
    assert.deepEqual(opened, []);
  });

  test('one line counts down the validity of the code, and disappears', async () => {
    gateway.polls = [PENDING, tokens()];
    await signIn();
    const shown = backend.info().split('\r');
    assert.equal(shown[1], 'Waiting for sign-in (10:00 left, Ctrl-C stops)\x1b[K');
    assert.equal(shown[2], 'Waiting for sign-in (9:59 left, Ctrl-C stops)\x1b[K');
    assert.equal(shown[10], 'Waiting for sign-in (9:51 left, Ctrl-C stops)\x1b[K');
    assert.match(shown[11]!.replace('\x1b[K', ''), /^Signed in at /);
  });
});

describe('a sign-in that ends otherwise', () => {
  for (const [code, words] of [
    ['access_denied', /^the sign-in was denied$/],
    ['expired_token', /code expired.*start again/],
    ['invalid_grant', /no longer knows the code/],
  ] as const) {
    test(`${code} ends it with an explanation and exit code 1`, async () => {
      gateway.polls = [PENDING, oauthError(code)];
      const error = await refused();
      assert.equal(error.exit_code, 1);
      assert.match(error.message, words);
      assert.equal(existsSync(backend.path), false);
    });
  }

  test('one that is never decided ends with the life of the code', async () => {
    gateway.polls = [PENDING];
    const error = await refused();
    assert.equal(error.exit_code, 1);
    assert.match(error.message, /expired/);
    assert.equal(passed_seconds(), 600);
    assert.equal(gateway.to('/oauth/token').length, 120);
  });

  test('a gateway that stays away ends it with exit code 69 once the code has expired', async () => {
    gateway.polls = [{ status: 500 }];
    const error = await refused();
    assert.equal(error.exit_code, 69);
    assert.equal(passed_seconds(), 600);
  });

  test('Ctrl-C ends it with an explanation and exit code 1, and nothing is stored', async () => {
    const before = process.listenerCount('SIGINT');
    gateway.scripts.set('/oauth/token', () => {
      // Other listeners of this process must not get it.
      process.listeners('SIGINT').at(-1)?.('SIGINT');
      return PENDING;
    });
    const error = await refused();
    assert.deepEqual([error.exit_code, error.message], [1, 'sign-in cancelled; nothing changed']);
    assert.equal(existsSync(backend.path), false);
    assert.equal(process.listenerCount('SIGINT'), before);
  });
});

describe('before the user signs in', () => {
  test('an address that is none, or that others can listen to, is a wrong command line', async () => {
    for (const baseUrl of ['gateway.example.com', 'http://gateway.example.com', 'https://u:p@x.example', '']) {
      const error = await refused({ baseUrl });
      assert.equal(error.exit_code, 64, baseUrl);
      assert.match(
        error.message,
        /^--base-url is not a gateway address: .*expected an address such as https:\/\/gateway\.example\.com$/,
      );
      assert.ok(!error.message.includes('u:p'));
    }
  });

  test('leaves a damaged credentials file unchanged', async () => {
    mkdirSync(dirname(backend.path), { recursive: true });
    const invalid = '{"version":1,"gateways":{"https://a":{"access_token":7}}}';
    for (const text of ['{', '[]', '{"version":2,"gateways":{}}', invalid]) {
      writeFileSync(backend.path, text, { mode: 0o600 });
      const error = await refused();
      assert.match(error.message, /is not a credentials file of appscli: .*move it away and sign in again$/);
      assert.equal(readFileSync(backend.path, 'utf8'), text);
    }
    assert.deepEqual(gateway.requests, []);
  });

  test('detects a place that is not writable', { skip: process.platform !== 'linux' }, async () => {
    const signing_in = signIn({}, { ...backend.env, XDG_CONFIG_HOME: '/proc/nowhere' });
    await assert.rejects(signing_in, { exit_code: 69, message: /cannot be written: its directory cannot be created$/ });
    assert.deepEqual(gateway.requests, []);
  });
});

describe('a gateway that is not to be believed', () => {
  const elsewhere = 'https://evil.example.com';

  for (const field of ['device_authorization_endpoint', 'token_endpoint', 'revocation_endpoint'] as const) {
    test(`rejects ${field} at another address before anything is sent there`, async () => {
      for (const value of [elsewhere, `${gateway.url.replace('http:', 'https:')}/x`, '//evil.example.com/', 17, null]) {
        gateway.discovery[field] = value;
        const error = await refused();
        assert.equal(error.exit_code, 69);
        assert.match(error.message, new RegExp(field));
      }
      assert.deepEqual(gateway.to('/oauth/device_authorization'), []);
    });
  }

  test('rejects another issuer', async () => {
    gateway.discovery.issuer = `${elsewhere}/\x1b]0;x\x07`;
    const { message } = await refused();
    assert.match(message, /its issuer is https:\/\/evil/);
    assert.ok(!message.includes('\x1b'));
  });

  test('redirects are not followed', async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      const headers = { location: '/found' };
      gateway.scripts.set('/.well-known/oauth-authorization-server', () => ({ status, headers }));
      assert.match((await refused()).message, new RegExp(`redirects \\(status ${status}\\)`));
    }
    gateway.scripts.clear();
    gateway.scripts.set('/oauth/token', () => ({ status: 307, headers: { location: `${gateway.url}/found` } }));
    assert.match((await refused()).message, /redirect/);
    assert.deepEqual(gateway.to('/found'), []);
  });

  test('HTML, no document and a page of a wiki are reported as no gateway', async () => {
    for (const reply of [
      { body: '<!doctype html><title>Sign in to the Wi-Fi</title>' },
      { status: 404, body: 'not found' },
      { body: [] },
      { body: 'null' },
    ]) {
      gateway.scripts.set('/.well-known/oauth-authorization-server', () => reply);
      const error = await refused();
      assert.equal(error.exit_code, 69);
      assert.match(error.message, /check the address of the gateway|names no issuer/);
    }
  });

  test('rejects pages at other addresses and malformed codes', async () => {
    const wrong: [string, unknown][] = [
      ['verification_uri', `${elsewhere}/device`],
      ['verification_uri', 'javascript:alert(1)'],
      ['verification_uri_complete', `${elsewhere}/device?user_code=A`],
      ['verification_uri_complete', `${gateway.url}/${'x'.repeat(3000)}`],
      ['user_code', 'WDJB\x1b[2JMJHT'],
      ['user_code', ''],
      ['user_code', undefined],
      ['device_code', 'a\r\nb'],
      ['expires_in', -1],
      ['expires_in', 'soon'],
    ];
    const good = { ...gateway.device };
    for (const [field, value] of wrong) {
      Object.assign(gateway.device, good, { [field]: value });
      const error = await refused();
      assert.equal(error.exit_code, 69);
      assert.match(error.message, new RegExp(`no valid "${field}"`));
    }
    assert.equal(gateway.to('/oauth/token').length, 0);
  });

  test('its notice is behind a bar, in 80 columns, without escape sequences', async () => {
    gateway.device.login_notice = `Only for staff.\n\x1b[2J\x1b]0;title\x07Signed in as root\u202e\n${'long '.repeat(30)}${'x'.repeat(200)}`;
    await signIn();
    const notice = backend.info().split('\n').slice(2, 12);
    assert.deepEqual([notice[0], notice[2]], ['Notice of the gateway:', '  | Only for staff.']);
    assert.equal(notice[3], '  | \uFFFD[2J\uFFFD]0;title\uFFFDSigned in as root\uFFFD');
    assertNarrow(backend.info());
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test looks for them
    assert.doesNotMatch(backend.info(), /[\x00-\x09\x0b-\x1f\x7f]/);
  });

  test('an interval of zero, of a lifetime, or of nonsense causes neither a flood nor an endless wait', async () => {
    for (const [interval, seconds] of [
      [0, 1],
      [-5, 1],
      ['often', 1],
      [0.001, 1],
      [1e9, 60],
      [undefined, 5],
    ] as const) {
      gateway.device.interval = interval;
      clock = frozenClock(START);
      await signIn();
      assert.equal(passed_seconds(), seconds, String(interval));
    }
  });

  test('rejects malformed tokens', async () => {
    for (const [field, value] of [
      ['access_token', 'a\nb'],
      ['access_token', ''],
      ['token_type', 'mac'],
      ['expires_in', undefined],
      ['refresh_token', 'ä'],
    ] as const) {
      gateway.polls = [tokens({ [field]: value })];
      const error = await refused();
      assert.match(error.message, new RegExp(`no valid "${field}"`));
    }
    assert.equal(existsSync(backend.path), false);
  });
});
