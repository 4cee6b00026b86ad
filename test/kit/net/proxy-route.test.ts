import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  configuredProxyRoute,
  describeProxyRoute,
  proxyProblem,
  proxyRouteTo,
  UnusableProxy,
} from '../../../engine/base/kit/net/proxy-route.ts';

const PROXY = 'http://proxy.corp.example:3128';
const way = (url: string, env: Record<string, string>) => describeProxyRoute(proxyRouteTo(new URL(url), env));
const BY = `through the proxy proxy.corp.example:3128`;

/** An address, the variables, and how it is reached. */
const WAYS: readonly (readonly [url: string, env: Record<string, string>, way: string])[] = [
  ['https://api.example.com', {}, 'directly'],
  ['https://api.example.com', { HTTPS_PROXY: PROXY }, `${BY} (HTTPS_PROXY)`],
  ['https://api.example.com', { https_proxy: PROXY, HTTPS_PROXY: 'http://other:1' }, `${BY} (https_proxy)`],
  ['https://api.example.com', { https_proxy: '', HTTPS_PROXY: PROXY }, `${BY} (HTTPS_PROXY)`],
  ['https://api.example.com', { HTTP_PROXY: PROXY }, 'directly'],
  ['http://api.example.com', { HTTPS_PROXY: PROXY }, 'directly'],
  ['http://api.example.com', { HTTP_PROXY: PROXY }, `${BY} (HTTP_PROXY)`],
  ['http://api.example.com', { http_proxy: PROXY }, `${BY} (http_proxy)`],
  ['https://api.example.com', { ALL_PROXY: PROXY }, `${BY} (ALL_PROXY)`],
  ['http://api.example.com', { all_proxy: PROXY }, `${BY} (all_proxy)`],
  ['https://api.example.com', { HTTPS_PROXY: PROXY, ALL_PROXY: 'socks5://other:1' }, `${BY} (HTTPS_PROXY)`],
  ['https://api.example.com', { HTTPS_PROXY: 'proxy.corp.example:3128' }, `${BY} (HTTPS_PROXY)`],
  ['https://api.example.com', { HTTPS_PROXY: 'ada:secret@proxy.corp.example:3128/' }, `${BY} (HTTPS_PROXY)`],
  ['https://api.example.com', { HTTPS_PROXY: 'http://[fd00::1]' }, 'through the proxy [fd00::1]:80 (HTTPS_PROXY)'],
  ['https://api.example.com', { HTTPS_PROXY: 'https://p.example' }, 'through the proxy p.example:443 (HTTPS_PROXY)'],
  // The machine itself.
  ['https://localhost:8443', { HTTPS_PROXY: PROXY }, 'directly'],
  ['http://127.0.0.2:8080', { HTTP_PROXY: PROXY }, 'directly'],
  ['http://[::1]:8080', { HTTP_PROXY: PROXY }, 'directly'],
  // NO_PROXY
  ...(
    [
      ['*', 'api.example.com', true],
      ['api.example.com', 'api.example.com', true],
      ['API.Example.COM', 'api.example.com', true],
      ['other.example, api.example.com', 'api.example.com', true],
      ['other.example api.example.com', 'api.example.com', true],
      ['example.com', 'api.example.com', true],
      ['.example.com', 'api.example.com', true],
      ['.example.com', 'example.com', true],
      ['*.example.com', 'a.b.example.com', true],
      ['example.com.', 'api.example.com', true],
      ['example.com', 'api.example.com.', true],
      ['example.com', 'badexample.com', false],
      ['.example.com', 'badexample.com', false],
      ['example.com', 'example.com.evil.test', false],
      ['api.example.com:443', 'api.example.com', true],
      ['api.example.com:8443', 'api.example.com', false],
      ['api.example.com:8443', 'api.example.com:8443', true],
      ['.example.com:8443', 'api.example.com:8443', true],
      ['10.1.2.3', '10.1.2.3', true],
      ['10.1.2.3', '10.1.2.30', false],
      ['10.1.2.3:8443', '10.1.2.3:8443', true],
      ['10.0.0.0/8', '10.1.2.3', true],
      ['10.0.0.0/8', '11.1.2.3', false],
      ['10.0.0.0/99', '10.1.2.3', false],
      ['10.0.0.0/8', 'ten.example.com', false],
      ['fd00::/8', '[fd12::1]', true],
      ['fd12::1', '[fd12::1]', true],
      ['FD12:0:0::1', '[fd12::1]', true],
      ['[fd12::1]', '[fd12::1]', true],
      ['[fd12::1]:8443', '[fd12::1]:8443', true],
      ['[fd12::1]:8443', '[fd12::1]', false],
      ['bücher.example', 'xn--bcher-kva.example', true],
      ['.', 'api.example.com', false],
      ['', 'api.example.com', false],
      [' , ,', 'api.example.com', false],
    ] as const
  ).map(([no_proxy, host, is_direct]): readonly [string, Record<string, string>, string] => [
    `https://${host}`,
    { HTTPS_PROXY: PROXY, NO_PROXY: no_proxy },
    is_direct ? 'directly (NO_PROXY)' : `${BY} (HTTPS_PROXY)`,
  ]),
  ['https://api.example.com', { HTTPS_PROXY: PROXY, no_proxy: '*', NO_PROXY: 'x' }, 'directly (no_proxy)'],
];

describe('the way to an address', () => {
  for (const [url, env, expected] of WAYS) {
    test(`${url} with ${JSON.stringify(env)}: ${expected}`, () => assert.equal(way(url, env), expected));
  }

  test('a key decides before the variables', () => {
    const routeOf = (key: Parameters<typeof configuredProxyRoute>[0]) =>
      describeProxyRoute(configuredProxyRoute(key, () => PROXY));
    assert.equal(routeOf(undefined), 'directly');
    assert.equal(routeOf('none'), 'directly (upstreams[].proxy)');
    assert.equal(routeOf(PROXY), `${BY} (upstreams[].proxy)`);
    assert.equal(routeOf({ url_env: 'CORP_PROXY' }), `${BY} (CORP_PROXY)`);
  });

  test('is absent for an unusable proxy, and the error does not repeat it', () => {
    const values = [
      'socks5://ada:hunter2@proxy:1080',
      'socks5h://ada:hunter2@proxy',
      'ftp://ada:hunter2@proxy',
      'http://',
      'http://ada:hunter2 x@proxy:3128',
      'http://ada:hunter2#x@proxy:3128',
      'http://ada:hunter2/x@proxy:3128',
      'http://proxy:3128/hunter2',
      'http://proxy:3128?hunter2',
      'http://proxy:hunter2',
      'http://proxy:99999',
    ];
    for (const HTTPS_PROXY of values) {
      assert.throws(
        () => proxyRouteTo(new URL('https://api.example.com'), { HTTPS_PROXY }),
        (error: Error) =>
          error instanceof UnusableProxy && /^HTTPS_PROXY \w/.test(error.message) && !error.message.includes('hunter2'),
        HTTPS_PROXY,
      );
      assert.equal(way('https://api.example.com', { HTTPS_PROXY, NO_PROXY: 'example.com' }), 'directly (NO_PROXY)');
    }
    assert.match(proxyProblem('socks5h://proxy')!, /SOCKS/);
    for (const raw of ['a#b', 'a/b', 'a?b', '1#b', 'a@b#c'])
      assert.match(proxyProblem(`http://gateway:${raw}@proxy:3128`)!, /write @ : \/ \? # in a password as %40/, raw);
  });

  test('is shown without any credential', () => {
    const part = fc
      .string({ minLength: 1, maxLength: 20 })
      .map((text) => `S${encodeURIComponent(text.toWellFormed())}S`);
    fc.assert(
      fc.property(part, part, (name, password) => {
        const described = way('https://api.example.com', { HTTPS_PROXY: `http://${name}:${password}@proxy:3128` });
        assert.equal(described, 'through the proxy proxy:3128 (HTTPS_PROXY)');
      }),
    );
  });
});
