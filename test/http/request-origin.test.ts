/** The origin of a request, and its target below the public URL. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createOriginReader } from '../../engine/edge/http/client.ts';
import { belowPrefix, prefixOf } from '../../engine/edge/http/request-identity.ts';

const PROXY = '10.0.0.1';
const TRUSTED = ['10.0.0.0/8', '2001:db8:1::/48'];
const OUTSIDE = '198.51.100.7';

function address(forwarded: string | undefined, peer = PROXY, trusted_proxies: readonly string[] = TRUSTED) {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
  return createOriginReader({ trusted_proxies: [...trusted_proxies] }).address(peer, headers);
}

/** The forwarded header, the resulting address, the peer and the trusted proxies. */
const ADDRESSES: Readonly<Record<string, readonly (readonly [string | undefined, string, string?, string[]?])[]>> = {
  'the peer without a trusted proxy': [
    ['192.0.2.1', OUTSIDE, OUTSIDE, []],
    [undefined, OUTSIDE, OUTSIDE, []],
  ],
  'the peer when the peer is not a trusted proxy, whatever it says': [['192.0.2.1', OUTSIDE, OUTSIDE]],
  'what a trusted proxy appended, not what the client had written before it': [
    ['192.0.2.1', '192.0.2.1'],
    ['127.0.0.1, 10.9.9.9, 192.0.2.1', '192.0.2.1'],
  ],
  'found through several proxies, as long as each is trusted': [
    ['192.0.2.1, 10.0.0.3, 10.0.0.2', '192.0.2.1'],
    ['192.0.2.1, 203.0.113.5, 10.0.0.2', '203.0.113.5'],
  ],
  'the first proxy when all hops are proxies': [['10.0.0.3,10.0.0.2', '10.0.0.3']],
  'read in every usual spelling': [
    ['192.0.2.1:4711', '192.0.2.1'],
    ['2001:DB8::7', '2001:db8::7'],
    ['[2001:db8::7]', '2001:db8::7'],
    ['[2001:db8::7]:4711', '2001:db8::7'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['192.0.2.1 ,\t[2001:db8:1::2]:80', '192.0.2.1'],
  ],
  'found behind an IPv4 proxy on a socket for both families, and an IPv6 one': [
    ['192.0.2.1', '192.0.2.1', '::ffff:10.0.0.1'],
    ['192.0.2.1', '192.0.2.1', '2001:db8:1::5'],
    ['192.0.2.1', '2001:db8:2::5', '2001:db8:2::5'],
    [undefined, OUTSIDE, `::ffff:${OUTSIDE}`],
    [undefined, 'fe80::1', 'fe80::1%eth0'],
  ],
  'not searched for without end': [[`192.0.2.1, ${Array(100_000).fill('10.0.0.2').join(', ')}`, '10.0.0.2']],
  'the last one that can be read when an entry is none': [
    ...['', 'unknown', '_hidden', '300.1.1.1', '192.0.2.1.5', 'fe80::1%eth0', '"192.0.2.1"', '::::', '[1'].flatMap(
      (junk) =>
        [
          [junk, PROXY],
          [`192.0.2.1, ${junk}`, PROXY],
          [`${junk}, 10.0.0.2`, '10.0.0.2'],
        ] as const,
    ),
  ],
};
for (const [what, rows] of Object.entries(ADDRESSES)) {
  test(`the address of a client is ${what}`, () => {
    for (const [forwarded, expected, ...more] of rows) {
      assert.equal(address(forwarded, ...more), expected, forwarded?.slice(0, 80));
    }
  });
}

test('the address is empty when the connection is closed', () => {
  assert.equal(createOriginReader({ trusted_proxies: TRUSTED }).address(undefined, {}), '');
});

test('the address cannot be forged: the proxy in front of the client has the last word', () => {
  fc.assert(
    fc.property(fc.string(), (written) => {
      assert.equal(address(`${written}, 203.0.113.9`), '203.0.113.9');
      assert.equal(address(`${written},203.0.113.9, 10.0.0.2`), '203.0.113.9');
    }),
  );
});

test("the region is a trusted proxy's word, in lower case, under the configured header", () => {
  const named = { trusted_proxies: TRUSTED, region_header: 'x-client-region' };
  const region = (value: string | string[] | undefined, peer: string | undefined = PROXY, options: object = named) =>
    createOriginReader(options as typeof named).region(peer, { 'x-client-region': value });
  assert.deepEqual([region('EU'), region('us-east-1')], ['eu', 'us-east-1']);
  for (const value of ['eu, us', '', ' ', 'x'.repeat(65), 'eu\u00e9', '-eu', ['eu', 'us'], undefined])
    assert.equal(region(value), undefined);
  assert.equal(region('eu', OUTSIDE), undefined);
  assert.equal(createOriginReader(named).region(undefined, { 'x-client-region': 'eu' }), undefined);
  assert.equal(region('eu', PROXY, { ...named, trusted_proxies: [] }), undefined);
  assert.equal(region('eu', PROXY, { trusted_proxies: TRUSTED }), undefined);
});

test('a request is known with the path of the public URL and without it', () => {
  const prefix = prefixOf('https://gateway.example.com/gateway/');
  assert.equal(prefix, '/gateway');
  for (const [url, expected] of [
    ['/gateway/v1/messages?beta=true', '/v1/messages?beta=true'],
    ['/v1/messages?beta=true', '/v1/messages?beta=true'],
    ['/gateway', '/'],
    ['/gateway/', '/'],
    ['/gateway?a=b', '/?a=b'],
    ['/gateways/v1/models', '/gateways/v1/models'],
    ['/gateway//v1/models', '//v1/models'],
    ['/gateway/gateway/v1/models', '/gateway/v1/models'],
    ['*', '*'],
  ] as const)
    assert.equal(belowPrefix(url, prefix), expected);
});

test('without a path nothing is removed, nor with one that begins like a path of the gateway itself', () => {
  for (const path of ['', '/', '/v1', '/v1/gateway', '/oauth/', '/device'])
    assert.equal(prefixOf(`https://gateway.example.com${path}`), '', path);
  assert.equal(prefixOf('https://gateway.example.com/v1-gateway/team'), '/v1-gateway/team');
});
