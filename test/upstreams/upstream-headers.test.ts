import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { UpstreamConfig } from '../../engine/contract/config.ts';
import {
  describeTranslated,
  forwardedHeaders,
  messagesHeaders,
  upstreamCredential,
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
