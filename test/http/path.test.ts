import assert from 'node:assert/strict';
import { test } from 'node:test';
import { belowPrefix, prefixOf } from '../../engine/http/path.ts';

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

test('without a path nothing is taken away, nor with one that begins like a path of the gateway itself', () => {
  for (const url of ['https://gateway.example.com', 'https://gateway.example.com/']) assert.equal(prefixOf(url), '');
  for (const path of ['/v1', '/v1/gateway', '/oauth/', '/device'])
    assert.equal(prefixOf(`https://gateway.example.com${path}`), '', path);
  assert.equal(prefixOf('https://gateway.example.com/v1-gateway/team'), '/v1-gateway/team');
});
