/** Headers on their way: of requests to an upstream, of responses to a client; and the path at an upstream. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { UpstreamConfig } from '../../engine/base/contract/config.ts';
import {
  actsOnOrigin,
  describeTranslated,
  forwardedHeaders,
  headerPrefixes,
  upstreamCredential,
  upstreamPaths,
} from '../../engine/domain/upstreams/headers.ts';
import { passedHeaders } from '../../engine/pipeline/run/headers.ts';

const words = (text: string): string[] => text.trim().split(/\s+/);
const all = (names: readonly string[], value = 'x') => Object.fromEntries(names.map((name) => [name, value]));

test("an upstream's credential is a key in x-api-key, for a compat upstream as bearer too, or a token as bearer", () => {
  const [key, bearer] = [{ 'x-api-key': 'secret of V' }, { authorization: 'Bearer secret of V' }];
  for (const [type, names, expected] of [
    ['vendor', { api_key_env: 'V' }, key],
    ['compat', { api_key_env: 'V' }, { ...bearer, ...key }],
    ['vendor', { auth_token_env: 'V' }, bearer],
    ['compat', { auth_token_env: 'V' }, bearer],
    ['compat', {}, {}],
  ] as const) {
    const upstream = { name: 'up', type, ...names } as UpstreamConfig;
    const credential = upstreamCredential(upstream, (name) => `secret of ${name}`);
    assert.deepEqual(credential, expected, type);
  }
});

describe('headers of a request', () => {
  test("are the client's without its connection and its credentials", () => {
    const received = {
      ...{ host: 'gateway', authorization: 'Bearer gw', 'x-api-key': 'gw', connection: 'close, X-Mine', 'x-mine': '1' },
      ...{
        te: 'trailers',
        'keep-alive': 'timeout=5',
        'proxy-connection': 'keep-alive',
        'proxy-authorization': 'Basic',
      },
      ...{ 'content-length': '5', 'content-type': 'text/json', 'x-stainless-lang': 'js' },
    };
    assert.deepEqual(forwardedHeaders(received), {
      headers: { 'content-type': 'text/json', 'x-stainless-lang': 'js' },
      dropped: undefined,
    });
  });

  const CHOOSING = words(`
    cookie openai-organization openai-project vendor-workspace-id anthropic-user-profile-id x-org-id
    x-openrouter-provider x-portkey-config helicone-fallbacks cf-aig-authorization x-litellm-tags
    api-key x-goog-user-project x-vertex-ai-llm-request-type azureml-model-deployment x-router-model
    openai_project x_api_key x-gateway_tenant x-service-tier chatgpt-account-id
    x-original-url x-rewrite-url x_original_url x-http-method-override x-method-override
    content_length transfer_encoding proxy_authorization x-envoy-original-dst-host x-forwarded-uri content_encoding
    forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port x-forwarded-prefix x-forwarded-server
    x-forwarded-user x-forwarded-access-token x_forwarded_host x-original-host x-original-forwarded-for x-host x-real-ip
    x-client-ip true-client-ip cf-connecting-ip cf-access-jwt-assertion fastly-client-ip fly-client-ip x-azure-clientip
    x-appengine-user-ip x-auth-request-email x-amzn-oidc-data x-ms-client-principal remote-user x-client-cert
    ssl-client-verify x-envoy-max-retries x-scheme x-forward-for x-target-host x-consumer-username
    x-credential-identifier x-authenticated-userid x-userinfo x-jwt-assertion`);
  test('that choose who serves, who pays or which path is served, or the origin of a request, are dropped and named', () => {
    const { headers, dropped } = forwardedHeaders({ ...all(CHOOSING), accept: '*/*' });
    assert.deepEqual([headers, dropped], [{ accept: '*/*' }, CHOOSING]);
    const allowed = forwardedHeaders(all(CHOOSING), new Set(['openai-project']));
    assert.deepEqual(allowed.headers, { 'openai-project': 'x' });
  });

  test('that identify the client pass', () => {
    const received = all(
      words(`
        http-referer x-title x-openrouter-title originator session-id thread-id x-client-request-id x-codex-turn-metadata
        x-grok-conv-id x-app x-stainless-os x-claude-code-session-id vendor-beta vendor-version user-agent traceparent
        x-request-id via cdn-loop x-authenticateresponse x-fast`),
    );
    assert.deepEqual(forwardedHeaders(received), { headers: received, dropped: undefined });
  });

  test('never have baggage, whatever its name', () => {
    const names = words('baggage correlation-context uberctx-user ot-baggage-user x-datadog-tags sw8_correlation');
    for (const propagate of ['verbatim', 'join', 'strip'] as const)
      assert.deepEqual(forwardedHeaders(all(names), new Set(names), propagate), { headers: {}, dropped: names });
  });

  test('have all trace headers unchanged, unless upstreams join the trace or get none', () => {
    const parent = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'rojo=1' };
    const trace = { ...parent, ...all(['b3', 'x-datadog-trace-id', 'x-amzn-trace-id']) };
    const names = Object.keys(trace);
    const keep = { accept: '*/*' };
    const received = { ...trace, ...keep };
    assert.deepEqual(forwardedHeaders(received), { headers: received, dropped: undefined });
    assert.deepEqual(forwardedHeaders(received, undefined, 'strip'), { headers: keep, dropped: names });
    assert.deepEqual(forwardedHeaders(received, undefined, 'join'), {
      headers: { tracestate: 'rojo=1', ...keep },
      dropped: names.filter((name) => name !== 'tracestate'),
    });
    const orphan = { tracestate: 'rojo=1', traceparent: 'nonsense' };
    assert.deepEqual(forwardedHeaders(orphan, undefined, 'join').headers, {}, 'no state without a parent');
    assert.deepEqual(forwardedHeaders(orphan).headers, orphan);
  });
});

describe('headers of a translated request', () => {
  const json = { accept: 'application/json', 'content-type': 'application/json' };
  const said = (prefix: string) => ({ [`${prefix}-version`]: '2026-10-21', [`${prefix}-beta`]: 'a-1,b-2' });
  type Case = readonly [
    what: string,
    given: Record<string, string>,
    how: { readonly protocol?: 'chat'; readonly stream?: true; readonly at?: string; readonly server?: string },
    expected: object,
  ];
  const CASES: readonly Case[] = [
    [
      'say what it is in its new protocol',
      { accept: '*/*', 'content-type': 'text/plain' },
      { stream: true, at: 'acme' },
      { accept: 'text/event-stream', 'content-type': 'application/json', 'acme-version': '2023-06-01' },
    ],
    [
      'have the neutral names and those in use where the vendor is unknown',
      {},
      {},
      { ...json, 'vendor-version': '2023-06-01', 'anthropic-version': '2023-06-01' },
    ],
    [
      'keep the version that the client asked for',
      { 'acme-version': '2024-01-01' },
      { at: 'acme' },
      { ...json, 'acme-version': '2024-01-01' },
    ],
    ['have none in other protocols', {}, { protocol: 'chat', at: 'acme' }, json],
    ...['vendor', 'corp'].map(
      (name): Case => [
        `say what the client said under the name ${name} under that of the upstream as well`,
        said(name),
        { at: 'acme', server: 'corp' },
        { ...json, ...said(name), ...said('acme') },
      ],
    ),
  ];
  for (const [what, input, { protocol = 'messages', stream = false, at, server = 'vendor' }, expected] of CASES) {
    test(what, () => {
      const headers = { ...input };
      const prefixes = headerPrefixes(at === undefined ? undefined : { header_prefix: at }, { header_prefix: server });
      describeTranslated(headers, { protocol, stream, prefixes });
      assert.deepEqual(headers, expected);
    });
  }
});

describe('headers of a response', () => {
  const passing = (raw: readonly string[], connection?: string) => passedHeaders(raw, connection);

  test('keep their order, spelling and repetitions', () => {
    const raw = ['X-B', '1', 'Link', '</a>', 'link', '</b>', 'anthropic-RateLimit', '3'];
    assert.deepEqual(passing(raw), raw);
  });

  test('of one connection stay behind, those that Connection names too, but none that describes the body', () => {
    const hop = words('Connection X-Hop x-hop 1 Transfer-Encoding chunked Keep-Alive 5 TE x Upgrade h2c Date d');
    assert.deepEqual(passing(hop, 'X-Hop , close'), ['Date', 'd']);
    const body = ['Connection', 'content-length, Content-Type', 'Content-Length', '3', 'Content-Type', 'a/b'];
    assert.deepEqual(passing(body, 'content-length, Content-Type'), body.slice(2));
  });

  test('that act on their host are dropped', () => {
    const acting = words(`
      Set-Cookie set-cookie2 Strict-Transport-Security Clear-Site-Data Alt-Svc Access-Control-Allow-Origin
      access-control-of-the-future Public-Key-Pins-Report-Only Content-Security-Policy NEL Report-To WWW-Authenticate
      Accept-CH X-Accel-Redirect Cross-Origin-Resource-Policy`);
    const harmless = words('x-accel-buffering retry-after access security server-timing link cache-control');
    const raw = [...acting, ...harmless].flatMap((name) => [name, 'value']);
    assert.deepEqual(
      passing(raw),
      harmless.flatMap((name) => [name, 'value']),
    );
    for (const name of acting) assert.ok(actsOnOrigin(name.toLowerCase()), name);
    for (const name of harmless) assert.ok(!actsOnOrigin(name), name);
  });
});

describe('the path at an upstream', () => {
  type Row = readonly [type: 'vendor' | 'compat', base: string, asked: string, path: string, append_v1?: boolean];
  const ROWS: readonly Row[] = [
    // The received one behind the path of the base URL, with its unchanged query.
    ['vendor', '', '/v1/messages?beta=true&x=%2F', '/v1/messages?beta=true&x=%2F'],
    ['vendor', '/gate/', '/v1/messages', '/gate/v1/messages'],
    ['compat', '/', '/v1/responses', '/v1/responses'],
    // Without the version that a compat base URL has; a vendor's keeps both.
    ...words('/v1 /v1/ /openai/v1 /api/v3 /v1beta/openai /V2').map(
      (base): Row => ['compat', base, '/v1/models', `${base.replace(/\/$/, '')}/models`],
    ),
    ...words('/vendor /v /dev1 /v1-eu /1v').map(
      (base): Row => ['compat', base, '/v1/responses', `${base}/v1/responses`],
    ),
    ['vendor', '/v1', '/v1/messages', '/v1/v1/messages'],
    ['compat', '/v1', '/own/completions', '/v1/own/completions'],
    // Where the base URL is declared complete, and where it is declared incomplete.
    ...['/inference', '/serving-endpoints', '/openai/deployments/x', ''].flatMap((base): Row[] => [
      ['compat', base, '/v1/chat/completions?a=/v1/b', `${base}/chat/completions?a=/v1/b`, false],
      ['compat', `${base}/`, '/v1/models', `${base}/models`, false],
      ['vendor', base, '/v1/messages/count_tokens', `${base}/messages/count_tokens`, false],
    ]),
    ['compat', '/api/v3', '/v1/models', '/api/v3/v1/models', true],
    ['compat', '/x', '/own', '/x/own', false],
    ['compat', '/x', '/v1', '/x/v1', false],
  ];
  for (const [type, base, asked, path, append_v1] of ROWS) {
    test(`${type} ${base} ${asked}${append_v1 === undefined ? '' : ` append_v1: ${append_v1}`}`, () => {
      const base_url = `https://example.com${base}`;
      const made = upstreamPaths({ type, base_url, ...(append_v1 !== undefined && { append_v1 }) })(asked);
      assert.equal(made, path);
    });
  }

  test("has the query of the upstream first, and the client's parameters with other names", () => {
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
});
