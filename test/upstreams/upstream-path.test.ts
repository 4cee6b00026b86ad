import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { upstreamPaths } from '../../engine/upstreams/upstream-path.ts';

const at = (type: 'vendor' | 'compat', base_url: string, path: string): string =>
  upstreamPaths({ type, base_url })(path);

describe('the path at an upstream', () => {
  test('is the one received behind the path of the base URL, with its query as it came', () => {
    assert.equal(
      at('vendor', 'https://api.example.com', '/v1/messages?beta=true&x=%2F'),
      '/v1/messages?beta=true&x=%2F',
    );
    assert.equal(at('vendor', 'https://example.com/gate/', '/v1/messages'), '/gate/v1/messages');
    assert.equal(at('compat', 'https://api.example.com/', '/v1/responses'), '/v1/responses');
  });

  for (const version of ['/v1', '/v1/', '/openai/v1', '/api/v3', '/v1beta/openai', '/V2']) {
    test(`leaves out the version that a compat base URL ending in ${version} has`, () => {
      const base = version.replace(/\/$/, '');
      assert.equal(at('compat', `https://example.com${version}`, '/v1/chat/completions'), `${base}/chat/completions`);
      assert.equal(at('compat', `https://example.com${version}`, '/v1/models'), `${base}/models`);
    });
  }

  for (const name of ['/vendor', '/v', '/dev1', '/v1-eu', '/1v']) {
    test(`takes ${name} for no version`, () => {
      assert.equal(at('compat', `https://example.com${name}`, '/v1/responses'), `${name}/v1/responses`);
    });
  }

  test('keeps its version behind a vendor base URL, whatever that ends with', () => {
    assert.equal(at('vendor', 'https://example.com/v1', '/v1/messages'), '/v1/v1/messages');
  });

  test('is without its version where the base URL is said to be complete, and keeps it where it is said not to be', () => {
    const complete = (type: 'vendor' | 'compat', base_url: string, path: string, append_v1 = false) =>
      upstreamPaths({ type, base_url, append_v1 })(path);
    for (const base of ['/inference', '/serving-endpoints', '/openai/deployments/x', '']) {
      const url = `https://example.com${base}`;
      assert.equal(complete('compat', url, '/v1/chat/completions?a=/v1/b'), `${base}/chat/completions?a=/v1/b`);
      assert.equal(complete('compat', `${url}/`, '/v1/models'), `${base}/models`);
      assert.equal(complete('vendor', url, '/v1/messages/count_tokens'), `${base}/messages/count_tokens`);
    }
    assert.equal(complete('compat', 'https://example.com/api/v3', '/v1/models', true), '/api/v3/v1/models');
    assert.equal(complete('compat', 'https://example.com/x', '/own'), '/x/own');
    assert.equal(complete('compat', 'https://example.com/x', '/v1'), '/x/v1');
  });

  test('has the query of the upstream first, and of the client what has other names', () => {
    const path = upstreamPaths({
      type: 'compat',
      base_url: 'https://example.com/v1',
      query: { 'api-version': '2024-10-21', $top: '1&2=3' },
    });
    const own = 'api-version=2024-10-21&%24top=1%262%3D3';
    for (const [asked, rest] of [
      ['/v1/models', ''],
      ['/v1/models?', ''],
      ['/v1/models?a=%2F&b&c=1=2', '&a=%2F&b&c=1=2'],
      ['/v1/models?api-version=1', ''],
      ['/v1/models?a=1&API-VERSION=2&api%2dversion=3&api-version[]=4&api-version[x]=5&%24Top=6&b=2', '&a=1&b=2'],
      ['/v1/models?a=1;api-version=2&%ff=1&b=api-version', '&%ff=1&b=api-version'],
      ['/v1/models?+api-version=1&my-api-version=1', '&my-api-version=1'],
    ])
      assert.equal(path(asked!), `/v1/models?${own}${rest}`, asked);
  });

  test('that has no version of its own stays as it is', () => {
    assert.equal(at('compat', 'https://example.com/v1', '/own/completions'), '/v1/own/completions');
  });
});
