import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { examineMessages } from '../../../engine/doctor/clients/messages.ts';
import { judgeClock } from '../../../engine/doctor/gateway/clock.ts';
import { wayOut } from '../../../engine/doctor/gateway/proxy-variables.ts';
import { sessionEnd, tokenTextProblem } from '../../../engine/doctor/gateway/token-text.ts';
import { isException } from '../../../engine/kit/net/way.ts';
import { times } from '../../support/times.ts';
import { deskWith, FOLDER } from '../support.ts';

const GATEWAY = 'https://gateway.example.com';
const PROXY = 'http://proxy.example.com:3128';

describe('NO_PROXY', () => {
  const cases: readonly (readonly [url: string, no_proxy: string, expected: string])[] = [
    [GATEWAY, '', 'no'],
    [GATEWAY, '*', 'yes'],
    [GATEWAY, 'gateway.example.com', 'yes'],
    [GATEWAY, 'localhost, GATEWAY.example.com', 'yes'],
    [GATEWAY, '.example.com', 'yes'],
    [GATEWAY, '*.example.com', 'yes'],
    [GATEWAY, 'example.com', 'some'],
    [GATEWAY, 'ample.com', 'no'],
    [GATEWAY, 'gateway.example.com:443', 'yes'],
    [GATEWAY, 'gateway.example.com:8443', 'no'],
    ['https://10.1.2.3:8443', '10.1.2.3', 'yes'],
    ['https://10.1.2.3:8443', '10.0.0.0/8', 'some'],
    ['https://10.1.2.3:8443', '11.0.0.0/8', 'no'],
    ['https://10.1.2.3:8443', '.3', 'no'],
    ['https://[2001:db8::1]', '2001:db8::1', 'yes'],
    ['https://[2001:db8::1]', '[2001:db8::1]', 'yes'],
    ['https://[2001:db8::1]', '2001:db8::/32', 'some'],
  ];
  for (const [url, no_proxy, expected] of cases) {
    test(`"${no_proxy}" excepts ${url}: ${expected}`, () =>
      assert.equal(isException(new URL(url), no_proxy), expected));
  }

  test('is read whatever is in it', () => {
    fc.assert(
      fc.property(fc.string(), (text) => ['yes', 'some', 'no'].includes(isException(new URL(GATEWAY), text))),
      { numRuns: times(300) },
    );
  });
});

describe('the variables of proxies', () => {
  const verdict = (env: Record<string, string>, url = GATEWAY) => {
    const { proxy, outcome } = wayOut(url, env);
    return [proxy?.host, outcome?.verdict, outcome?.found];
  };

  test('say nothing where they are not set, and where they are for another scheme', () => {
    assert.deepEqual(verdict({}), [undefined, undefined, undefined]);
    assert.deepEqual(verdict({ HTTP_PROXY: PROXY }), [undefined, undefined, undefined]);
  });

  test('are fine where they name a proxy, in capitals or not', () => {
    for (const name of ['HTTPS_PROXY', 'https_proxy']) {
      assert.deepEqual(verdict({ [name]: PROXY }).slice(0, 2), ['proxy.example.com:3128', 'ok']);
    }
  });

  test('are a warning where clients read them in different ways', () => {
    const faults: readonly (readonly [Record<string, string>, RegExp])[] = [
      [{ HTTPS_PROXY: PROXY, https_proxy: 'http://other.example.com:1' }, /name different proxies/],
      [{ HTTPS_PROXY: PROXY, NO_PROXY: 'example.com' }, /for some clients and not for others/],
      [{ ALL_PROXY: PROXY }, /for clients that read it/],
      [{ HTTPS_PROXY: 'socks5://proxy.example.com' }, /speaks socks5/],
    ];
    for (const [env, found] of faults) {
      const [, said, text] = verdict(env);
      assert.equal(said, 'warning');
      assert.match(text!, found);
    }
  });

  test('are a fault where they name no proxy, and what they hold is not repeated', () => {
    for (const value of ['http://ada:planted@', 'ftp://ada:planted@proxy', 'http://proxy planted', 'http://[planted']) {
      const [, said, text] = verdict({ HTTPS_PROXY: value });
      assert.equal(said, 'failed');
      assert.doesNotMatch(text!, /planted/);
    }
  });

  test('are a fault where they stand before this machine itself', () => {
    assert.equal(verdict({ HTTP_PROXY: PROXY }, 'http://localhost:8080')[1], 'failed');
  });
});

test("variables in files of a person count as the client takes them, and those of a folder, which may be anybody's, do not", () => {
  const settings = (env: object) => JSON.stringify({ env: { VENDOR_BASE_URL: GATEWAY, ...env } });
  const files = {
    '~/.client/settings.json': settings({ HTTPS_PROXY: PROXY, NODE_EXTRA_CA_CERTS: '/etc/company.pem' }),
    [`${FOLDER}/.client/settings.json`]: settings({ NODE_EXTRA_CA_CERTS: '/tmp/stranger.pem', NO_PROXY: '*' }),
  };
  const { connection } = examineMessages(deskWith({ files, env: { HTTPS_PROXY: 'http://shell.example.com' } }));
  const taken = Object.entries(connection!.network_variables!).map(([name, { value }]) => [name, value]);
  assert.deepEqual(Object.fromEntries(taken), { HTTPS_PROXY: PROXY, NODE_EXTRA_CA_CERTS: '/etc/company.pem' });
});

describe('the text of a token', () => {
  test('is taken as it is where it could be one', () => {
    for (const token of ['gw_abc', 'sk-123', 'eyJ.eyJ.sig', 'a'.repeat(5000)])
      assert.equal(tokenTextProblem(token), undefined);
  });

  test('is never repeated, whatever is wrong with it', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 6 }), (text) => {
        const { found = '', remedy = '' } = tokenTextProblem(text) ?? {};
        return !`${found}${remedy}`.includes(text);
      }),
      { numRuns: times(300) },
    );
  });

  test('says when a session ends, and nothing where it is none', () => {
    const of = (claims: unknown) => `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;
    assert.equal(sessionEnd(of({ exp: 1_700_000_000 })), 1_700_000_000_000);
    for (const token of [of({ exp: 'soon' }), of({ exp: 1e300 }), of(null), of([]), 'gw_abc', 'a.b.c', '']) {
      assert.equal(sessionEnd(token), undefined);
    }
  });
});

describe('the clock', () => {
  const at = Date.parse('2026-11-23T10:00:00.400Z');
  const judge = (date: string, took_ms = 50) =>
    judgeClock({ date }, { asked_at: at, answered_at: at + took_ms, platform: 'linux' });

  test('agrees within a minute, whole seconds and the time of the answer let alone', () => {
    for (const date of [
      'Mon, 23 Nov 2026 10:00:00 GMT',
      'Mon, 23 Nov 2026 10:00:59 GMT',
      'Mon, 23 Nov 2026 09:59:00 GMT',
    ]) {
      assert.equal(judge(date)?.verdict, 'ok', date);
    }
    assert.equal(judge('Mon, 23 Nov 2026 10:02:00 GMT', 90_000)?.verdict, 'ok');
  });

  test('is wrong in one direction or the other beyond that', () => {
    assert.match(judge('Mon, 23 Nov 2026 10:02:00 GMT')!.found, /119 seconds|2 minutes behind|120 seconds behind/);
    assert.equal(judge('Mon, 23 Nov 2026 10:02:00 GMT')!.verdict, 'warning');
    assert.match(judge('Fri, 20 Nov 2026 10:00:00 GMT')!.found, /3 days ahead/);
    assert.equal(judge('Fri, 20 Nov 2026 10:00:00 GMT')!.verdict, 'failed');
  });

  test('is not judged by what is no date', () => {
    for (const date of ['', 'yesterday']) assert.equal(judge(date), undefined);
  });
});
