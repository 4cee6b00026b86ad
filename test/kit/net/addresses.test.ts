import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTimeZone, parseListenAddress, urlProblem } from '../../../engine/base/kit/net/addresses.ts';

test('listen addresses are host and port', () => {
  assert.deepEqual(parseListenAddress('127.0.0.1:8080'), { host: '127.0.0.1', port: 8080 });
  assert.deepEqual(parseListenAddress('[::1]:0'), { host: '::1', port: 0 });
  assert.deepEqual(parseListenAddress('localhost:80'), { host: 'localhost', port: 80 });
  for (const text of [
    '8080',
    ':8080',
    'localhost',
    '::1:80',
    '300.1.1.1:80',
    'a:99999',
    'http://a:80',
    '[a]:80',
    '1.2:3',
  ]) {
    assert.equal(parseListenAddress(text), undefined, text);
  }
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
