import assert from 'node:assert/strict';
import { BlockList } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { compileRanges, rangeProblem } from '../../engine/base/kit/net/address-range.ts';
import { isTimeZone, parseListenAddress, urlProblem } from '../../engine/base/kit/net/addresses.ts';
import { times } from '../support/times.ts';

test('listen addresses are host and port', () => {
  assert.deepEqual(parseListenAddress('127.0.0.1:8080'), { host: '127.0.0.1', port: 8080 });
  assert.deepEqual(parseListenAddress('[::1]:0'), { host: '::1', port: 0 });
  assert.deepEqual(parseListenAddress('localhost:80'), { host: 'localhost', port: 80 });
  for (const text of '8080 :8080 localhost ::1:80 300.1.1.1:80 a:99999 http://a:80 [a]:80 1.2:3'.split(' '))
    assert.equal(parseListenAddress(text), undefined, text);
});

test('time zones are names, not offsets', () => {
  assert.equal(isTimeZone('Europe/Berlin'), true);
  assert.equal(isTimeZone('UTC'), true);
  assert.equal(isTimeZone('+02:00'), false);
  assert.equal(isTimeZone('Mars/Olympus'), false);
});

test('describes an invalid URL without repeating it', () => {
  assert.equal(urlProblem('https://api.example.com/v1', 'base'), undefined);
  assert.equal(urlProblem('http://127.0.0.1:9000', 'base'), undefined);
  assert.equal(urlProblem('https://otel.example.com/v1?a=b', 'endpoint'), undefined);
  for (const text of [
    'https://u:hunter2@h',
    'https://h?k=hunter2',
    'https://h#hunter2',
    'ftp://hunter2',
    'hunter2',
    'https:hunter2',
  ]) {
    const problem = urlProblem(text, 'base') ?? '';
    assert.notEqual(problem, '', text);
    assert.doesNotMatch(problem, /hunter2/);
  }
});

test('a URL of a metadata service cannot be used, however its host is written', () => {
  const hosts = [
    ...['169.254.169.254', '169.254.170.2', '0xa9fea9fe', '2852039166', '0251.0376.0251.0376', '100.100.100.200'],
    ...['[fd00:ec2::254]', '[fe80::a9fe:a9fe]', '[::ffff:169.254.169.254]', '[64:ff9b::a9fe:a9fe]', '168.63.129.16'],
    ...[
      'metadata',
      'METADATA.google.internal',
      'metadata.google.internal.',
      'metadata.goog',
      'instance-data.ec2.internal',
    ],
  ];
  for (const host of hosts) {
    for (const url of [`http://${host}`, `https://${host}:8080/latest`]) {
      assert.match(String(urlProblem(url, 'base')), /metadata/, url);
    }
  }
  for (const host of ['metadata.example.com', '10.0.0.1', '[fd00::1]', '169.253.1.1', 'internal', 'api.metadata.io']) {
    assert.equal(urlProblem(`https://${host}`, 'base'), undefined, host);
  }
});

/** Ranges, addresses in them, and others; an IPv4 address may be in IPv6 notation. */
const RANGES: readonly (readonly [ranges: string[], inside: string[], outside: string[]])[] = [
  [
    ['10.0.0.0/8', '192.0.2.7', '2001:db8::/32'],
    ['10.0.0.0', '10.255.255.255', '192.0.2.7', '2001:db8::1', '2001:DB8:ffff::', '::ffff:10.1.2.3', '::ffff:a01:203'],
    ['11.0.0.0', '192.0.2.8', '2001:db9::1', '::1', '::ffff:11.1.2.3'],
  ],
  [['0.0.0.0/0'], ['203.0.113.1'], ['2001:db8::1']],
  [['::/0'], ['2001:db8::1', 'fe80::1%eth0'], []],
  [['0.0.0.0/0', '::/0'], [], ['', 'localhost', '10.1', '10.1.2.3:80', '10.1.2.3, 10.1.2.4']],
];
for (const [ranges, inside, outside] of RANGES) {
  test(`an address is found in the ranges ${ranges.join(', ')} only, and a malformed one in none`, () => {
    const has = compileRanges(ranges);
    for (const address of inside) assert.equal(has(address), true, address);
    for (const address of outside) assert.equal(has(address), false, address);
  });
}

test('a malformed range has an error message', () => {
  for (const text of ['10.0.0.0/8', '10.1.2.3', '::1/128', '0.0.0.0/0'])
    assert.equal(rangeProblem(text), undefined, text);
  for (const text of ['10.0.0.0/33', '::1/129', '10.0.0.0/', '10.0.0.0/-1', '10.0.0.0/8x']) {
    assert.match(rangeProblem(text) ?? '', /after the slash/, text);
  }
  for (const text of ['', '10.0.0/8', 'example.com', '10.0.0.0/8/8', '300.1.1.1', 'fe80::1%eth0']) {
    assert.match(rangeProblem(text) ?? '', /no IP address/, text);
  }
});

test('an IPv4 range contains the same addresses as in Node.js', () => {
  const byte = fc.nat({ max: 255 });
  const address = fc.oneof(fc.tuple(byte, byte, byte, byte), fc.constantFrom([10, 0, 0, 1], [255, 255, 255, 255]));
  fc.assert(
    fc.property(address, fc.nat({ max: 32 }), address, (base, bits, asked) => {
      const list = new BlockList();
      list.addSubnet(base.join('.'), bits, 'ipv4');
      assert.equal(compileRanges([`${base.join('.')}/${bits}`])(asked.join('.')), list.check(asked.join('.')));
    }),
    { numRuns: times(500) },
  );
});
