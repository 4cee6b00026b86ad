import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { UpstreamConfig } from '../../engine/contract/config.ts';
import {
  describeTranslated,
  forwardedHeaders,
  messagesHeaders,
  upstreamCredential,
  upstreamPaths,
} from '../../engine/upstreams/upstream-headers.ts';

const secret = (name: string) => `secret of ${name}`;
const upstream = (sections: Partial<UpstreamConfig>) => ({ name: 'up', type: 'vendor', ...sections }) as UpstreamConfig;

describe("an upstream's credential", () => {
  test('is an API key in x-api-key, and for a compat upstream as bearer too', () => {
    const key = { api_key_env: 'KEY' };
    assert.deepEqual(upstreamCredential(upstream(key), secret), { 'x-api-key': 'secret of KEY' });
    assert.deepEqual(upstreamCredential(upstream({ ...key, type: 'compat' }), secret), {
      authorization: 'Bearer secret of KEY',
      'x-api-key': 'secret of KEY',
    });
  });

  test('is a token as bearer only', () => {
    for (const type of ['vendor', 'compat'] as const) {
      const headers = upstreamCredential(upstream({ type, auth_token_env: 'TOKEN' }), secret);
      assert.deepEqual(headers, { authorization: 'Bearer secret of TOKEN' });
    }
  });

  test('is nothing where none is named', () => {
    assert.deepEqual(upstreamCredential(upstream({ type: 'compat' }), secret), {});
  });
});

describe('forwarded headers', () => {
  test("are the client's without its connection and its credentials", () => {
    const received = {
      host: 'gateway',
      authorization: 'Bearer gw',
      'x-api-key': 'gw',
      connection: 'close, X-Mine',
      'x-mine': '1',
      te: 'trailers',
      'content-length': '5',
      'content-type': 'text/json',
      'x-stainless-lang': 'js',
    };
    assert.deepEqual(forwardedHeaders(received), {
      headers: { 'content-type': 'text/json', 'x-stainless-lang': 'js' },
      dropped: undefined,
    });
  });

  const CHOOSING = [
    ...[
      'cookie',
      'openai-organization',
      'openai-project',
      'vendor-workspace-id',
      'anthropic-user-profile-id',
      'x-org-id',
    ],
    ...['x-openrouter-provider', 'x-portkey-config', 'helicone-fallbacks', 'cf-aig-authorization', 'x-litellm-tags'],
    ...['api-key', 'x-goog-user-project', 'x-vertex-ai-llm-request-type', 'azureml-model-deployment', 'x-router-model'],
    ...['OPENAI_PROJECT', 'X_API_KEY', 'x-gateway_tenant', 'x-service-tier', 'chatgpt-account-id'].map((name) =>
      name.toLowerCase(),
    ),
  ];
  test('leave those out that choose who serves or pays, and name them', () => {
    const received = Object.fromEntries(CHOOSING.map((name) => [name, 'x']));
    const { headers, dropped } = forwardedHeaders({ ...received, accept: '*/*' });
    assert.deepEqual([headers, dropped], [{ accept: '*/*' }, CHOOSING]);
    const allowed = forwardedHeaders(received, new Set(['openai-project']));
    assert.deepEqual(allowed.headers, { 'openai-project': 'x' });
  });

  test('keep what clients send to say who they are', () => {
    const received = Object.fromEntries(
      [
        ...[
          'http-referer',
          'x-title',
          'x-openrouter-title',
          'originator',
          'session-id',
          'thread-id',
          'x-client-request-id',
        ],
        ...[
          'x-codex-turn-metadata',
          'x-grok-conv-id',
          'x-app',
          'x-stainless-os',
          'x-claude-code-session-id',
          'vendor-beta',
        ],
        ...[
          'vendor-version',
          'user-agent',
          'traceparent',
          'x-request-id',
          'via',
          'cdn-loop',
          'x-authenticateresponse',
          'x-fast',
        ],
      ].map((name) => [name, 'x']),
    );
    assert.deepEqual(forwardedHeaders(received), { headers: received, dropped: undefined });
  });

  const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const TRACE = {
    traceparent: PARENT,
    tracestate: 'rojo=1',
    b3: '0',
    'x-datadog-trace-id': '1',
    'x-amzn-trace-id': 'r',
  };

  test('never have baggage, whatever its name', () => {
    const names = [
      'baggage',
      'correlation-context',
      'uberctx-user',
      'ot-baggage-user',
      'x-datadog-tags',
      'sw8_correlation',
    ];
    const received = Object.fromEntries(names.map((name) => [name, 'user=anna']));
    for (const propagate of ['verbatim', 'join', 'strip'] as const) {
      assert.deepEqual(forwardedHeaders(received, new Set(names), propagate), { headers: {}, dropped: names });
    }
  });

  test('have all that names a trace as it came, unless upstreams join the trace or get none', () => {
    const names = Object.keys(TRACE);
    const keep = { accept: '*/*' };
    const received = { ...TRACE, ...keep };
    assert.deepEqual(forwardedHeaders(received), { headers: received, dropped: undefined });
    assert.deepEqual(forwardedHeaders(received, undefined, 'strip'), { headers: keep, dropped: names });
    assert.deepEqual(forwardedHeaders(received, undefined, 'join'), {
      headers: { tracestate: 'rojo=1', ...keep },
      dropped: names.filter((name) => name !== 'tracestate'),
    });
  });

  test('of a trace that upstreams join have no state where the client named no parent', () => {
    const received = { tracestate: 'rojo=1', traceparent: 'nonsense' };
    assert.deepEqual(forwardedHeaders(received, undefined, 'join').headers, {});
    assert.deepEqual(forwardedHeaders(received).headers, received, 'verbatim is as it came');
  });

  const NEUTRAL = { header_prefix: 'vendor' };
  const of = (header_prefix?: string, server = NEUTRAL) =>
    messagesHeaders(header_prefix === undefined ? undefined : { header_prefix }, server);

  test('of a translated request say what it is in its new protocol', () => {
    const headers = { accept: '*/*', 'content-type': 'text/plain' };
    describeTranslated(headers, { protocol: 'messages', stream: true, messages: of('acme') });
    assert.deepEqual(headers, {
      accept: 'text/event-stream',
      'content-type': 'application/json',
      'acme-version': '2023-06-01',
    });
  });

  test('of a translated request have the neutral names and those in use where nobody knows the vendor', () => {
    const headers = {};
    describeTranslated(headers, { protocol: 'messages', stream: false, messages: of() });
    assert.deepEqual(headers, {
      accept: 'application/json',
      'content-type': 'application/json',
      'vendor-version': '2023-06-01',
      'anthropic-version': '2023-06-01',
    });
  });

  test('keep the version that the client asked for, and have none in other protocols', () => {
    const asked = { 'acme-version': '2024-01-01' };
    describeTranslated(asked, { protocol: 'messages', stream: false, messages: of('acme') });
    assert.equal(asked['acme-version'], '2024-01-01');
    const headers = {};
    describeTranslated(headers, { protocol: 'chat', stream: false, messages: of('acme') });
    assert.deepEqual(headers, { accept: 'application/json', 'content-type': 'application/json' });
  });

  for (const said of ['vendor', 'corp'] as const) {
    test(`pass on what the client said under the name ${said}, and say it under the upstream's own`, () => {
      const headers: Record<string, string> = { [`${said}-version`]: '2026-10-21', [`${said}-beta`]: 'a-1,b-2' };
      const messages = of('acme', { header_prefix: 'corp' });
      describeTranslated(headers, { protocol: 'messages', stream: false, messages });
      assert.deepEqual(headers, {
        accept: 'application/json',
        'content-type': 'application/json',
        [`${said}-version`]: '2026-10-21',
        [`${said}-beta`]: 'a-1,b-2',
        'acme-version': '2026-10-21',
        'acme-beta': 'a-1,b-2',
      });
    });
  }
});

test('what chooses the path or method at some servers, and what ends here in another spelling, does not travel', () => {
  const names = [
    ...['x-original-url', 'x-rewrite-url', 'x_original_url', 'x-http-method-override', 'x-method-override'],
    ...['content_length', 'transfer_encoding', 'x_api_key', 'proxy_authorization'],
    ...['x-envoy-original-dst-host', 'x-forwarded-uri', 'content_encoding'],
  ];
  const { headers } = forwardedHeaders({ ...Object.fromEntries(names.map((name) => [name, '1'])), 'x-kept': '1' });
  assert.deepEqual(headers, { 'x-kept': '1' });
});

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
