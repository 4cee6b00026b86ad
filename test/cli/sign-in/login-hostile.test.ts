import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { createBackend, oauthError, tokens } from '../../client/scripted-gateway.ts';
import { signInBench } from './sign-in-bench.ts';

const START = '2027-01-31T12:00:00Z';
const PENDING = oauthError('authorization_pending');
const bench = signInBench();

describe('a gateway that is not to be believed', () => {
  const elsewhere = 'https://evil.example.com';

  for (const field of ['device_authorization_endpoint', 'token_endpoint', 'revocation_endpoint'] as const) {
    test(`${field} at another address is refused before anything is sent there`, async () => {
      for (const value of [
        elsewhere,
        `${bench.gateway.url.replace('http:', 'https:')}/x`,
        '//evil.example.com/',
        17,
        null,
      ]) {
        bench.gateway.discovery[field] = value;
        const error = await bench.refused();
        assert.equal(error.exit_code, 69);
        assert.match(error.message, new RegExp(field));
      }
      assert.deepEqual(bench.gateway.to('/oauth/device_authorization'), []);
    });
  }

  test('another issuer is refused', async () => {
    bench.gateway.discovery.issuer = `${elsewhere}/\x1b]0;x\x07`;
    const { message } = await bench.refused();
    assert.match(message, /calls itself https:\/\/evil/);
    assert.ok(!message.includes('\x1b'));
  });

  test('redirects are not followed', async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      bench.gateway.scripts.set('/.well-known/oauth-authorization-server', () => ({
        status,
        headers: { location: '/found' },
      }));
      assert.match((await bench.refused()).message, new RegExp(`redirect \\(status ${status}\\)`));
    }
    bench.gateway.scripts.clear();
    bench.gateway.scripts.set('/oauth/token', () => ({
      status: 307,
      headers: { location: `${bench.gateway.url}/found` },
    }));
    assert.match((await bench.refused()).message, /redirect/);
    assert.deepEqual(bench.gateway.to('/found'), []);
  });

  test('HTML, no document, and a page of a wiki say that this is no gateway', async () => {
    for (const reply of [
      { body: '<!doctype html><title>Sign in to the Wi-Fi</title>' },
      { status: 404, body: 'not found' },
      { body: [] },
      { body: 'null' },
    ]) {
      bench.gateway.scripts.set('/.well-known/oauth-authorization-server', () => reply);
      const error = await bench.refused();
      assert.equal(error.exit_code, 69);
      assert.match(error.message, /is it the address of a gateway|names no issuer/);
    }
  });

  test('an answer without end is given up after 1 MiB', async () => {
    bench.gateway.scripts.set('/oauth/device_authorization', () => ({ body: 'x'.repeat(5_000_000) }));
    assert.match((await bench.refused()).message, /more than 1 MiB/);
  });

  test('pages at other addresses and codes that are none are refused', async () => {
    const wrong: [string, unknown][] = [
      ['verification_uri', `${elsewhere}/device`],
      ['verification_uri', 'javascript:alert(1)'],
      ['verification_uri_complete', `${elsewhere}/device?user_code=A`],
      ['verification_uri_complete', `${bench.gateway.url}/${'x'.repeat(3000)}`],
      ['user_code', 'WDJB\x1b[2JMJHT'],
      ['user_code', ''],
      ['user_code', undefined],
      ['device_code', 'a\r\nb'],
      ['expires_in', -1],
      ['expires_in', 'soon'],
    ];
    const good = { ...bench.gateway.device };
    for (const [field, value] of wrong) {
      Object.assign(bench.gateway.device, good, { [field]: value });
      const error = await bench.refused();
      assert.equal(error.exit_code, 69);
      assert.match(error.message, new RegExp(`no valid "${field}"`));
    }
    assert.equal(bench.gateway.to('/oauth/token').length, 0);
  });

  test('an address is written anew before it is shown or opened', async () => {
    bench.gateway.device.verification_uri_complete = `${bench.gateway.url}/device?x=\x1b[31m"$(id)`;
    bench.backend = createBackend({ watched: true });
    await bench.signIn({}, { ...bench.backend.env, DISPLAY: ':0' });
    assert.deepEqual(bench.opened, [`${bench.gateway.url}/device?x=%1B[31m%22$(id)`]);
  });

  test('its notice stands behind a bar, in 80 columns, without escape sequences', async () => {
    bench.gateway.device.login_notice = `Only for staff.\n\x1b[2J\x1b]0;title\x07Signed in as root\u202e\n${'long '.repeat(30)}${'x'.repeat(200)}`;
    await bench.signIn();
    const notice = bench.backend.info().split('\n').slice(2, 12);
    assert.equal(notice[0], 'The gateway says:');
    assert.equal(notice[2], '  | Only for staff.');
    assert.equal(notice[3], '  | \uFFFD[2J\uFFFD]0;title\uFFFDSigned in as root\uFFFD');
    for (const line of bench.backend.info().split('\n')) assert.ok(line.length <= 80, line);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    assert.doesNotMatch(bench.backend.info(), /[\x00-\x09\x0b-\x1f\x7f]/);
  });

  test('an interval of nothing, of a lifetime, or of nonsense asks for neither a flood nor a wait without end', async () => {
    for (const [interval, seconds] of [
      [0, 1],
      [-5, 1],
      ['often', 1],
      [0.001, 1],
      [1e9, 60],
      [undefined, 5],
    ] as const) {
      bench.gateway.device.interval = interval;
      bench.clock = frozenClock(START);
      await bench.signIn();
      assert.equal(bench.passed_seconds(), seconds, String(interval));
    }
  });

  test('a code that never expires is waited for half an hour', async () => {
    Object.assign(bench.gateway.device, { expires_in: 1e12, interval: 60 });
    bench.gateway.polls = [PENDING];
    await bench.refused();
    assert.equal(bench.passed_seconds(), 1800);
  });

  test('tokens that are none are refused', async () => {
    for (const [field, value] of [
      ['access_token', 'a\nb'],
      ['access_token', '\x1b[2J'],
      ['access_token', ''],
      ['token_type', 'mac'],
      ['expires_in', undefined],
      ['refresh_token', 'ä'],
    ] as const) {
      bench.gateway.polls = [tokens({ [field]: value })];
      const error = await bench.refused();
      assert.match(error.message, new RegExp(`no valid "${field}"`));
    }
    assert.equal(existsSync(bench.backend.path), false);
  });

  test('an e-mail address is shown without escape sequences', async () => {
    bench.gateway.polls = [tokens({ email: 'alice\x1b[2J@example.com' })];
    await bench.signIn();
    assert.match(bench.backend.info(), /as alice\uFFFD\[2J@example\.com\./);
  });
});
