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

  test('that has no version of its own stays as it is', () => {
    assert.equal(at('compat', 'https://example.com/v1', '/own/completions'), '/v1/own/completions');
  });
});
