import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createOriginReader } from '../../engine/http/forwarded.ts';

const PROXY = '10.0.0.1';

function address(forwarded: string | undefined, peer = PROXY, trusted_proxies = ['10.0.0.0/8', '2001:db8:1::/48']) {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
  return createOriginReader({ trusted_proxies }).address(peer, headers);
}

describe('the address of a client', () => {
  it('is the peer when nobody is trusted', () => {
    assert.equal(address('192.0.2.1', '198.51.100.7', []), '198.51.100.7');
    assert.equal(address(undefined, '198.51.100.7', []), '198.51.100.7');
  });

  it('is the peer when the peer is not a trusted proxy, whatever it says', () => {
    assert.equal(address('192.0.2.1', '198.51.100.7'), '198.51.100.7');
  });

  it('is what a trusted proxy appended, not what the client had written before it', () => {
    assert.equal(address('192.0.2.1'), '192.0.2.1');
    assert.equal(address('127.0.0.1, 10.9.9.9, 192.0.2.1'), '192.0.2.1');
  });

  it('is found through several proxies, as long as each is trusted', () => {
    assert.equal(address('192.0.2.1, 10.0.0.3, 10.0.0.2'), '192.0.2.1');
    assert.equal(address('192.0.2.1, 203.0.113.5, 10.0.0.2'), '203.0.113.5');
  });

  it('is the first proxy when everybody on the way is one', () => {
    assert.equal(address('10.0.0.3,10.0.0.2'), '10.0.0.3');
  });

  it('is read in every usual spelling', () => {
    assert.equal(address('192.0.2.1:4711'), '192.0.2.1');
    assert.equal(address('2001:DB8::7'), '2001:db8::7');
    assert.equal(address('[2001:db8::7]'), '2001:db8::7');
    assert.equal(address('[2001:db8::7]:4711'), '2001:db8::7');
    assert.equal(address('::ffff:192.0.2.1'), '192.0.2.1');
    assert.equal(address('192.0.2.1 ,\t[2001:db8:1::2]:80'), '192.0.2.1');
  });

  it('is the last one that can be read when an entry is none', () => {
    for (const junk of [
      '',
      'unknown',
      '_hidden',
      '300.1.1.1',
      '192.0.2.1.5',
      'fe80::1%eth0',
      '"192.0.2.1"',
      '::::',
      '[1',
    ]) {
      assert.equal(address(junk), PROXY, junk);
      assert.equal(address(`192.0.2.1, ${junk}`), PROXY, junk);
      assert.equal(address(`${junk}, 10.0.0.2`), '10.0.0.2', junk);
    }
  });

  it('knows an IPv4 proxy on a socket for both families, and an IPv6 one', () => {
    assert.equal(address('192.0.2.1', '::ffff:10.0.0.1'), '192.0.2.1');
    assert.equal(address('192.0.2.1', '2001:db8:1::5'), '192.0.2.1');
    assert.equal(address('192.0.2.1', '2001:db8:2::5'), '2001:db8:2::5');
    assert.equal(address(undefined, '::ffff:198.51.100.7'), '198.51.100.7');
    assert.equal(address(undefined, 'fe80::1%eth0'), 'fe80::1');
  });

  it('is not searched for without end', () => {
    assert.equal(address(`192.0.2.1, ${Array(100_000).fill('10.0.0.2').join(', ')}`), '10.0.0.2');
  });

  it('is empty when the connection is gone', () => {
    assert.equal(createOriginReader({ trusted_proxies: ['10.0.0.0/8'] }).address(undefined, {}), '');
  });

  it('cannot be forged: whatever a client writes, the proxy in front of it has the last word', () => {
    fc.assert(
      fc.property(fc.string(), (written) => {
        assert.equal(address(`${written}, 203.0.113.9`), '203.0.113.9');
        assert.equal(address(`${written},203.0.113.9, 10.0.0.2`), '203.0.113.9');
      }),
    );
  });
});

describe('the region of a client', () => {
  const reader = createOriginReader({ trusted_proxies: ['10.0.0.0/8'], region_header: 'x-client-region' });
  const region = (value: string | string[] | undefined) => reader.region(PROXY, { 'x-client-region': value });

  it('is what a trusted proxy says, in lower case', () => {
    assert.equal(region('EU'), 'eu');
    assert.equal(region('us-east-1'), 'us-east-1');
  });

  it('is unknown when anybody else says it, or nobody', () => {
    assert.equal(reader.region('198.51.100.7', { 'x-client-region': 'eu' }), undefined);
    assert.equal(reader.region(undefined, { 'x-client-region': 'eu' }), undefined);
    assert.equal(region(undefined), undefined);
    const trusting_nobody = createOriginReader({ trusted_proxies: [], region_header: 'x-client-region' });
    assert.equal(trusting_nobody.region(PROXY, { 'x-client-region': 'eu' }), undefined);
  });

  it('is unknown when it is said twice, too long or no word', () => {
    for (const value of ['eu, us', '', ' ', 'x'.repeat(65), 'eu\u00e9', '-eu']) assert.equal(region(value), undefined);
    assert.equal(region(['eu', 'us']), undefined);
  });

  it('is unknown when the configuration names no header', () => {
    const unnamed = createOriginReader({ trusted_proxies: ['10.0.0.0/8'] });
    assert.equal(unnamed.region(PROXY, { 'x-client-region': 'eu' }), undefined);
  });
});
