/** Headers that reach an upstream, that are added, and that are kept from clients. @module */
import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig, Profile, UpstreamConfig } from '../../base/contract/config.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import { parseTraceParent } from '../../base/kit/net/trace-context.ts';
import { percentDecoded } from '../../base/kit/text/percent.ts';
import { definitionOf } from '../protocols/index.ts';
import { UPSTREAM_TYPES } from './types/index.ts';

const NO_HEADERS: ReadonlySet<string> = new Set();

/**
 * Makes a lookup of table rows by header name, in lower case. A name with a trailing `*` is a prefix.
 * An exact name wins over prefixes; of several prefixes, the first row wins.
 */
function rowFinder<Row>(
  table: readonly Row[],
  namesOf: (row: Row) => readonly string[],
): (name: string) => Row | undefined {
  const names = table.flatMap((row) => namesOf(row).map((name) => [name, row] as const));
  const exact = new Map(names.filter(([name]) => !name.endsWith('*')));
  const families = names.filter(([name]) => name.endsWith('*')).map(([name, row]) => [name.slice(0, -1), row] as const);
  // One regex rules out most names: this runs for every header of every response.
  const family = new RegExp(`^(?:${families.map(([prefix]) => prefix).join('|')})`);
  return (name) =>
    exact.get(name) ?? (family.test(name) ? families.find(([prefix]) => name.startsWith(prefix))?.[1] : undefined);
}

/** Digest headers of the request body. */
const DIGESTS = ['content-digest', 'content-md5', 'digest', 'repr-digest'];

/** Header prefixes: the neutral one, and Anthropic's. */
const NEUTRAL_PREFIX = 'vendor';
const PREFIX_IN_USE = 'anthropic';

/** The headers with an upstream's credential; none without a credential or when its variable is not set. */
export function upstreamCredential(
  { type, api_key_env, auth_token_env }: UpstreamConfig,
  secret: (variable: string) => string | undefined,
): Readonly<Record<string, string>> {
  const { keyHeaders, tokenHeaders } = UPSTREAM_TYPES[type];
  const variable = api_key_env ?? auth_token_env;
  const value = variable === undefined ? undefined : secret(variable);
  if (value === undefined) return {};
  return api_key_env === undefined ? tokenHeaders(value) : keyHeaders(value);
}

/** Which trace headers upstreams get. */
export type Propagation = GatewayConfig['telemetry']['propagate'];

type Kind = 'plain' | 'ending' | 'privileged' | 'baggage' | 'trace';

const REMEMBERED_MAX = 1000;

const remembered = new Map<string, Kind>();

function kindOf(name: string): Kind {
  let kind = remembered.get(name);
  if (kind === undefined) {
    kind = ENDING_HERE.has(name)
      ? 'ending'
      : isPrivilegedHeader(name)
        ? 'privileged'
        : (traceHeaderOf(name) ?? 'plain');
    if (remembered.size >= REMEMBERED_MAX) remembered.clear();
    remembered.set(name, kind);
  }
  return kind;
}

/**
 * Forwards all headers except: connection, credential, baggage, and privileged ones that `allowed` does not list.
 * `propagate: verbatim` forwards all trace headers; `join` forwards only `tracestate`, which belongs to the whole trace.
 */
export function forwardedHeaders(
  received: IncomingHttpHeaders,
  allowed: ReadonlySet<string> = NO_HEADERS,
  propagate: Propagation = 'verbatim',
) {
  const of_connection = nominated(received.connection);
  const headers: IncomingHttpHeaders = {};
  let dropped: string[] | undefined;
  for (const name in received) {
    const kind = kindOf(name);
    if (kind === 'ending' || of_connection.includes(name)) continue;
    if (
      kind === 'plain' ||
      (kind === 'privileged' && allowed.has(name)) ||
      (kind === 'trace' && passesOn(name, received, propagate))
    ) {
      headers[name] = received[name];
    } else {
      dropped ??= [];
      dropped.push(name);
    }
  }
  return { headers, dropped };
}

function passesOn(name: string, { traceparent }: IncomingHttpHeaders, propagate: Propagation): boolean {
  if (propagate !== 'join') return propagate === 'verbatim';
  // Without a valid `traceparent`, `tracestate` has no meaning (W3C Trace Context, section 3.3).
  return name === 'tracestate' && parseTraceParent(traceparent) !== undefined;
}

/** Prefixes of vendor headers: those that the upstream reads, and all that clients may send. */
export interface HeaderPrefixes {
  readonly read: readonly string[];
  readonly sent: readonly string[];
}

/**
 * The prefixes of version and feature headers (`form_headers` of a protocol) for an upstream with this profile.
 * Without a profile: the neutral and the Anthropic prefix. With only the gateway's own profile: its prefix and Anthropic's.
 * @param server the profile of the gateway, whose prefix clients may send.
 */
export function headerPrefixes(profile: Profile | undefined, server: Profile): HeaderPrefixes {
  const read = prefixesRead(profile, server);
  return { read, sent: [...new Set([...read, server.header_prefix, NEUTRAL_PREFIX])] };
}

/** The gateway's own profile says which headers its clients send, not which this upstream reads: Anthropic's are added. */
function prefixesRead(profile: Profile | undefined, server: Profile): readonly string[] {
  if (profile === undefined) return [NEUTRAL_PREFIX, PREFIX_IN_USE];
  const { header_prefix } = profile;
  return profile === server && header_prefix !== NEUTRAL_PREFIX
    ? [...new Set([header_prefix, PREFIX_IN_USE])]
    : [header_prefix];
}

/** Removes digest headers after the body was rewritten. */
export function dropDigests(headers: IncomingHttpHeaders): void {
  for (const name of DIGESTS) delete headers[name];
}

/**
 * Sets the headers of a translated request: media types, and version and features with the prefixes that the upstream reads.
 * Values that the client sent with any of its prefixes are kept.
 */
export function describeTranslated(
  headers: IncomingHttpHeaders,
  how: { readonly protocol: Protocol; readonly stream: boolean; readonly prefixes: HeaderPrefixes },
): void {
  const { protocol, stream, prefixes } = how;
  headers['content-type'] = 'application/json';
  headers.accept = stream ? 'text/event-stream' : 'application/json';
  for (const [name, usual] of Object.entries(definitionOf(protocol).form_headers)) {
    const by = prefixes.sent.find((prefix) => headers[`${prefix}-${name}`] !== undefined);
    const value = by === undefined ? usual : headers[`${by}-${name}`];
    if (value !== undefined) for (const prefix of prefixes.read) headers[`${prefix}-${name}`] ??= value;
  }
}

/** Distributed-tracing headers. */
export interface TraceHeaders {
  /** In lower case; a trailing `*` makes the name a prefix. */
  readonly names: readonly string[];
  /** `baggage`: whatever a program puts there. `trace`: identifiers, and whether the trace is kept. */
  readonly carries: 'baggage' | 'trace';
  readonly source: string;
}

/** All known distributed-tracing headers. */
export const TRACE_HEADERS: readonly TraceHeaders[] = [
  { names: ['baggage'], carries: 'baggage', source: 'W3C Baggage; Sentry' },
  { names: ['correlation-context'], carries: 'baggage', source: 'an earlier draft of it; .NET' },
  { names: ['uberctx-*', 'jaeger-baggage'], carries: 'baggage', source: 'Jaeger' },
  { names: ['ot-baggage-*'], carries: 'baggage', source: 'OpenTracing' },
  { names: ['baggage-*'], carries: 'baggage', source: 'Brave, Zipkin' },
  { names: ['sw8-correlation'], carries: 'baggage', source: 'Apache SkyWalking' },
  { names: ['x-datadog-tags'], carries: 'baggage', source: 'Datadog' },
  { names: ['traceparent', 'tracestate'], carries: 'trace', source: 'W3C Trace Context' },
  { names: ['b3', 'x-b3-*'], carries: 'trace', source: 'Zipkin' },
  { names: ['uber-trace-id', 'jaeger-debug-id'], carries: 'trace', source: 'Jaeger' },
  { names: ['ot-tracer-*', 'x-ot-span-context'], carries: 'trace', source: 'OpenTracing; LightStep' },
  { names: ['x-datadog-*'], carries: 'trace', source: 'Datadog' },
  { names: ['x-cloud-trace-context', 'grpc-trace-bin'], carries: 'trace', source: 'Google Cloud Trace; OpenCensus' },
  { names: ['x-amzn-trace-id'], carries: 'trace', source: 'AWS X-Ray' },
  { names: ['sentry-trace'], carries: 'trace', source: 'Sentry' },
  { names: ['newrelic', 'x-newrelic-*'], carries: 'trace', source: 'New Relic' },
  { names: ['elastic-apm-traceparent'], carries: 'trace', source: 'Elastic APM' },
  { names: ['sw8', 'sw8-x'], carries: 'trace', source: 'Apache SkyWalking' },
  { names: ['x-instana-*'], carries: 'trace', source: 'IBM Instana' },
  { names: ['x-dynatrace', 'x-dynatrace-*'], carries: 'trace', source: 'Dynatrace' },
  { names: ['singularityheader'], carries: 'trace', source: 'AppDynamics' },
];

const traceRow = rowFinder(TRACE_HEADERS, ({ names }) => names);

/** Kind of a tracing header, by its name in lower case; `undefined` for other headers. */
export function traceHeaderOf(name: string): TraceHeaders['carries'] | undefined {
  // Many servers read an underscore as a hyphen.
  const spelt = name.replaceAll('_', '-');
  return traceRow(spelt)?.carries;
}

/** Headers that describe the body or the response, which differ by request. */
const OF_BODY =
  /^(?:content-.*|accept(?:-.*)?|expect|range|if-.*|cache-control|(?:repr-)?digest|want-(?:content|repr)-digest)$/;

/** Headers with the protocol version and beta features of a request; a beta may lengthen the context window. */
const OF_PROTOCOL = /-(?:version|beta)$/;

const CREDENTIALS: readonly string[] = ['authorization', 'x-api-key'];

/** Why gateway.yaml cannot set a header for an upstream, and what to do instead. */
export interface NotFixed {
  readonly why: string;
  readonly help: string;
}

/** Why a header (in lower case) cannot be set for all requests to an upstream; `undefined` if it can. */
export function whyNotFixed(name: string): NotFixed | undefined {
  const remove = 'leave it out';
  if (CREDENTIALS.includes(name))
    return {
      why: 'it carries the credential of the upstream',
      help: 'name the variable as api_key_env or auth_token_env',
    };
  if (name === 'host') return { why: 'the gateway derives it from base_url', help: 'change base_url' };
  if (name === 'content-length' || CONNECTION_HEADERS.includes(name))
    return { why: 'it belongs to a single connection; the gateway sets it', help: remove };
  if (OF_BODY.test(name))
    return { why: 'it describes the body or the response, which differ by request', help: remove };
  if (OF_PROTOCOL.test(name))
    return {
      why: 'it names the API version and beta features of each request',
      help: 'leave it to clients',
    };
  if (traceHeaderOf(name) !== undefined)
    return {
      why: 'it belongs to the trace of a request',
      help: 'telemetry.propagate selects the trace headers that upstreams get',
    };
  const decides = decisionOf(name);
  if (decides === 'model' || decides === 'price') {
    const why = `it determines the ${decides}, which limits and bills would not see`;
    return { why, help: 'configure the model in `models` and its price in `prices`' };
  }
  if (decides === 'path') return { why: 'it determines the path or method of the request', help: remove };
  return undefined;
}

export function fixedHeaders(
  { headers }: Pick<UpstreamConfig, 'headers'>,
  secret: (variable: string) => string,
): Readonly<Record<string, string>> {
  const values = Object.entries(headers ?? {}).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : secret(value.value_env),
  ]);
  return Object.fromEntries(values) as Record<string, string>;
}

const NONE: readonly string[] = [];

/** Replaces a client's headers by fixed ones, also those with underscores for hyphens. @returns the names replaced */
export function fixHeaders(headers: IncomingHttpHeaders, fixed: Readonly<Record<string, string>>): readonly string[] {
  if (Object.keys(fixed).length === 0) return NONE;
  const replaced = Object.keys(headers).filter((name) => Object.hasOwn(fixed, name.replaceAll('_', '-')));
  for (const name of replaced) delete headers[name];
  Object.assign(headers, fixed);
  return replaced;
}

const VERSION = /\/v\d+[a-z0-9]*(?=\/|$)/i;

/**
 * Makes the function that appends a request's path and query to an upstream's base URL, and adds the upstream's query.
 * Removes the version from the path if `append_v1` is false, or if the base URL has one and the upstream type permits that.
 */
export function upstreamPaths({
  type,
  base_url,
  append_v1,
  query,
}: Pick<UpstreamConfig, 'type' | 'base_url' | 'append_v1' | 'query'>): (path: string) => string {
  const base = new URL(base_url).pathname.replace(/\/$/, '');
  const keeps_version = append_v1 ?? !(UPSTREAM_TYPES[type].versioned_base_url && VERSION.test(base));
  const join = keeps_version
    ? (path: string) => base + path
    : (path: string) => base + (path.startsWith('/v1/') ? path.slice('/v1'.length) : path);
  if (query === undefined) return join;
  const names = new Set(Object.keys(query).map((name) => name.toLowerCase()));
  const own = Object.entries(query)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join('&');
  return (path) => join(withQuery(path, own, names));
}

/** Puts the upstream's query before the client's remaining parameters. */
function withQuery(path: string, own: string, names: ReadonlySet<string>): string {
  const at = path.indexOf('?');
  if (at < 0) return `${path}?${own}`;
  const isOwn = (pair: string) => pair.split(';').some((piece) => names.has(nameOf(piece)));
  const rest = path
    .slice(at + 1)
    .split('&')
    .filter((pair) => pair !== '' && !isOwn(pair));
  return `${path.slice(0, at)}?${[own, ...rest].join('&')}`;
}

/** The name of a query parameter as many servers read it: case-insensitive, and `name[]` is a list. */
function nameOf(pair: string): string {
  const name = percentDecoded(pair.split('=', 1)[0]!.replaceAll('+', ' '));
  return name.trim().replace(/\[.*$/, '').toLowerCase();
}

/**
 * Request headers that choose the account, model, price or route, or that proxies add: the client's address, host or identity.
 * Upstreams get them only if `allow_headers` lists them. Clients send some by habit; the operator chose the account by the
 * upstream's credential. Forwarding headers describe the path to the gateway; an upstream would wrongly apply them to itself.
 */
export interface PrivilegedHeader {
  /** In lower case; a trailing `*` makes the name a prefix. */
  readonly name: string;
  readonly decides: 'model' | 'price' | 'account' | 'route' | 'origin';
  readonly meaning: string;
  readonly source: string;
}

const rows = (
  names: string,
  decides: PrivilegedHeader['decides'],
  meaning: string,
  source: string,
): readonly PrivilegedHeader[] => names.split(' ').map((name) => ({ name, decides, meaning, source }));

const ADDRESS = 'the address of the client';
const PERSON = 'the user, as authenticated by a proxy in front of the gateway';
const CERTIFICATE = 'the certificate of the client, as a proxy in front of the gateway saw it';
const HOST = 'the requested host';
const SCHEME = 'the scheme of the request';

/** All known privileged request headers, except the caller's own credential. */
export const PRIVILEGED_HEADERS: readonly PrivilegedHeader[] = [
  rows('cookie', 'account', 'a session at the upstream, and with it somebody', 'RFC 6265'),
  rows('cookie2', 'account', 'a session at the upstream, and with it somebody', 'RFC 2965'),
  rows('api-key', 'account', 'a credential', 'Azure OpenAI reference'),
  rows('ocp-apim-subscription-key', 'account', 'a credential', 'Azure API Management'),
  rows('x-goog-api-key', 'account', 'a credential', 'Gemini API reference'),
  rows('x-goog-user-project', 'account', 'the project that pays', 'Google Cloud, quota project'),
  rows('x-amz-security-token', 'account', 'a credential', 'AWS signature version 4'),
  rows('x-auth-token', 'account', 'a credential', 'several self-hosted servers'),
  rows('openai-organization', 'account', 'the organization that pays', 'OpenAI API reference, authentication'),
  rows('openai-project', 'account', 'the project that pays', 'OpenAI API reference, authentication'),
  rows('chatgpt-account-id', 'account', 'the account that pays', 'coding CLI, signed in'),
  rows('anthropic-workspace-id', 'account', 'the workspace that pays', 'Messages API reference, create a message'),
  rows('anthropic-user-profile-id', 'account', 'for whom it is, and who may pay', 'Messages API reference'),
  rows('x-vertex-ai-llm-*', 'price', 'the capacity that serves the request', 'Vertex AI, consumption options'),
  rows('x-amzn-bedrock-*', 'price', 'service tier and latency', 'Amazon Bedrock, InvokeModel'),
  rows('azureml-model-deployment', 'model', 'the deployment of a model', 'Azure Machine Learning, online endpoints'),
  rows('x-ms-model-mesh-model-name', 'model', 'the model', 'Azure AI model inference'),
  rows('x-openrouter-*', 'route', 'settings of a router', 'OpenRouter API reference'),
  rows('x-portkey-*', 'route', 'target, credential and retries of a router', 'Portkey documentation, headers'),
  rows('helicone-*', 'route', 'target, fallbacks and model of a router', 'Helicone documentation, header directory'),
  rows('cf-aig-*', 'route', 'credential, cost and retries of a router', 'Cloudflare AI Gateway, headers'),
  rows('x-litellm-*', 'route', 'routing tags and customer of a router', 'LiteLLM proxy, request headers'),
  rows('x-pass-*', 'route', 'headers that a router passes on', 'LiteLLM proxy, forward client headers'),
  rows('x-bf-*', 'route', 'credential and target of a router', 'Bifrost documentation'),
  rows('x-tfy-*', 'route', 'target of a router', 'TrueFoundry AI Gateway'),
  rows('x-original-url', 'route', 'the path that is served', 'Internet Information Services, ASP.NET; Symfony'),
  rows('x-original-uri', 'route', 'the path that is served', 'nginx, authentication by subrequest'),
  rows('x-rewrite-url', 'route', 'the path that is served', 'Internet Information Services, URL rewriting'),
  rows('x-forwarded-uri', 'route', 'the path that is served', 'Traefik and Caddy, forwarded authentication'),
  rows('x-forwarded-path', 'route', 'the path that is served', 'Kong, proxy headers'),
  rows(
    'x-http-method* x-method-override',
    'route',
    'the method that is served',
    'several web frameworks, method override',
  ),
  rows(
    'x-envoy-original-*',
    'route',
    'the host or path that is served',
    'Envoy, original destination and path rewriting',
  ),
  rows(
    'x-envoy-*',
    'route',
    'retries and time limits, and from where the request came',
    'Envoy, HTTP header manipulation',
  ),
  rows(
    'x-forwarded-*',
    'route',
    `${HOST}, its scheme, port and prefix, and ${ADDRESS}`,
    'reverse proxies (MDN, X-Forwarded-*)',
  ),
  rows('forwarded forwarded-for x-forwarded', 'route', `${HOST}, and ${ADDRESS}`, 'RFC 7239 and what was before it'),
  rows('x-original-*', 'route', `${HOST}, or ${ADDRESS}`, 'ingress-nginx; ASP.NET, forwarded headers'),
  rows(
    'x-host x-http-host x-http-host-override x-host-override x-proxy-host proxy-host x-request-host x-target-host x-backend-host x-upstream-host x-destination-host',
    'route',
    HOST,
    'several proxies and web frameworks',
  ),
  rows('x-scheme x-url-scheme front-end-https', 'route', SCHEME, 'ingress-nginx; Internet Information Services'),
  rows('x-script-name script-name x-base-path', 'route', 'the prefix of what is served', 'WSGI servers behind a proxy'),
  rows(
    'x-forward-for x-real-ip x-real-port x-client-ip client-ip x-cluster-client-ip x-originating-ip x-remote-ip x-remote-addr',
    'origin',
    ADDRESS,
    'reverse proxies and balancers',
  ),
  rows('true-client-ip akamai-* x-akamai-*', 'origin', ADDRESS, 'Akamai; Cloudflare'),
  rows('proxy-client-ip wl-proxy-* x-proxyuser-ip', 'origin', ADDRESS, 'WebLogic and other application servers'),
  rows('cf-*', 'origin', `${ADDRESS}, its country, and who asks`, 'Cloudflare, HTTP headers; Cloudflare Access'),
  rows(
    'fastly-* fly-* cloudfront-* x-vercel-* x-nf-* do-connecting-ip ali-cdn-real-ip incap-client-ip',
    'origin',
    ADDRESS,
    'Fastly, Fly.io, CloudFront, Vercel, Netlify, DigitalOcean, Alibaba Cloud, Imperva',
  ),
  rows('x-azure-* x-arr-* x-appengine-*', 'origin', ADDRESS, 'Azure Front Door and App Service; App Engine'),
  rows(
    'remote-user remote-groups remote-email remote-name x-remote-user x-remote-group x-remote-extra-* x-webauth-* x-auth-request-*',
    'account',
    PERSON,
    'Authelia, Kubernetes, Grafana, oauth2-proxy',
  ),
  rows(
    'x-authentik-* x-pomerium-* tailscale-user-* x-goog-iap-* x-goog-authenticated-user-* x-amzn-oidc-* x-ms-client-principal* x-ms-token-*',
    'account',
    PERSON,
    'authentik, Pomerium, Tailscale, Identity-Aware Proxy, Application Load Balancer, App Service',
  ),
  rows(
    'x-consumer-* x-anonymous-consumer x-authenticated-* x-credential-* x-userinfo x-user-info x-jwt-assertion x-jwt-payload x-token-payload',
    'account',
    PERSON,
    'Kong, Apache APISIX, WSO2, Envoy, Istio',
  ),
  rows(
    'client-cert client-cert-chain x-client-cert* ssl-client-* x-ssl-* x-amzn-mtls-*',
    'account',
    CERTIFICATE,
    'RFC 9440; nginx, Apache httpd, Application Load Balancer',
  ),
  rows('x-orq-*', 'route', 'target of a router', 'orq.ai documentation'),
  rows('ai-gateway-*', 'route', 'provider and credential of a router', 'Vercel AI Gateway'),
].flat();

/** Headers that match a privileged prefix but only name the client application. */
const HARMLESS: ReadonlySet<string> = new Set(['x-openrouter-title', 'x-openrouter-categories']);

/** Endings of other header names that choose an account, a model or a price. */
const PRIVILEGED_WORDS =
  /(?:^|-)(?:(?:organi[sz]ation|org|project|workspace|tenant|account|customer|billing|subscription|user-profile|cost-center|model|deployment|fallbacks?|byok)(?:-(?:id|name|key|override|slug))?|(?:virtual|provider|api|secret)-?keys?|(?:service|price)-tier|speed-mode|service-level)$/;

const privilegedRow = rowFinder(PRIVILEGED_HEADERS, ({ name }) => [name]);

/** Betas of the Messages protocol that lengthen the context window, such as `context-1m-2025-08-07`. */
const WINDOW_BETA = /^context-(\d{1,6})([km])(?![a-z\d])/;

const UNITS = { k: 1000, m: 1_000_000 } as const;

/** The longest context window that beta headers request, in tokens; `undefined` without any. */
export function requestedWindow(headers: IncomingHttpHeaders): number | undefined {
  let longest: number | undefined;
  for (const name in headers) {
    if (!name.endsWith('-beta')) continue;
    for (const beta of String(headers[name]).split(',')) {
      const [, count, unit] = WINDOW_BETA.exec(beta.trim()) ?? [];
      if (count !== undefined) longest = Math.max(longest ?? 0, Number(count) * UNITS[unit as keyof typeof UNITS]);
    }
  }
  return longest;
}

/** Matches the meaning of headers that choose the path or method. */
const OF_PATH = /\b(?:path|method)\b.* served$/;

/** Endings of header names that choose an account or carry its credential. */
const ACCOUNT_WORDS =
  /(?:^|-)(?:organi[sz]ation|org|project|workspace|tenant|account|customer|billing|subscription|user-profile|cost-center|byok|(?:virtual|provider|api|secret)-?keys?)(?:-(?:id|name|key|override|slug))?$/;

/** What a privileged header decides, by its name in lower case; `undefined` for other headers. */
export function decisionOf(name: string): PrivilegedHeader['decides'] | 'path' | undefined {
  if (!isPrivilegedHeader(name)) return undefined;
  const known = privilegedRow(name);
  if (known !== undefined) return OF_PATH.test(known.meaning) ? 'path' : known.decides;
  return ACCOUNT_WORDS.test(name) ? 'account' : 'model';
}

/** Headers of the body that the gateway may change. */
const REFRAMED: ReadonlySet<string> = new Set(['content-encoding', 'content-type']);

/** Whether a request header is privileged, or another spelling of one that ends here or frames the body. */
export function isPrivilegedHeader(name: string): boolean {
  // Many servers read an underscore as a hyphen.
  const spelt = name.replaceAll('_', '-');
  return (
    !HARMLESS.has(spelt) &&
    ((spelt !== name && (ENDING_HERE.has(spelt) || REFRAMED.has(spelt))) ||
      privilegedRow(spelt) !== undefined ||
      PRIVILEGED_WORDS.test(spelt))
  );
}

/** Hop-by-hop headers (RFC 9110 section 7.6.1). */
export const CONNECTION_HEADERS: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/**
 * Request headers that are never forwarded: hop-by-hop headers, the caller's credential, headers that the gateway sets itself,
 * and `origin`, on which some servers reject requests.
 */
export const ENDING_HERE: ReadonlySet<string> = new Set([
  ...CONNECTION_HEADERS,
  'authorization',
  'content-length',
  'expect',
  'host',
  'origin',
  'x-api-key',
]);

/**
 * Hop-by-hop headers that a Connection header names, in lower case. `content-*` is ignored there: it describes the body for
 * its final recipient (RFC 9110 section 7.6.1).
 */
export function nominated(connection: string | string[] | undefined): readonly string[] {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return [];
  return String(connection)
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => !name.startsWith('content-'));
}

/** Response headers that clients do not get, for one reason. */
export interface OriginHeaders {
  /** In lower case; a trailing `*` makes the name a prefix. */
  readonly names: readonly string[];
  /** Their effect, as the rest of a sentence that begins with "it". */
  readonly effect: string;
}

/**
 * Response headers that affect the whole host or the proxies in front of it, not only this response.
 * The host is the gateway's, so upstreams may not set them. Clients of model APIs need none of them.
 */
export const ORIGIN_HEADERS: readonly OriginHeaders[] = [
  { names: ['set-cookie', 'set-cookie2'], effect: "sets cookies for the gateway's host, its sign-in included" },
  { names: ['clear-site-data'], effect: "deletes browser data of the gateway's host, sign-ins included" },
  { names: ['strict-transport-security'], effect: "makes browsers reject plain HTTP to the gateway's host for months" },
  { names: ['public-key-pins*', 'expect-ct'], effect: "pins certificates for the gateway's host" },
  { names: ['alt-svc'], effect: 'sends the next requests for the gateway to another address' },
  {
    names: ['access-control-*', 'timing-allow-origin', 'cross-origin-*'],
    effect: "lets pages of other sites read the gateway's responses",
  },
  {
    names: ['nel', 'report-to', 'reporting-endpoints', 'content-security-policy*', 'attribution-reporting-*'],
    effect: "makes browsers send reports about the gateway's host to a third party",
  },
  { names: ['accept-ch*', 'critical-ch'], effect: "makes browsers send client hints to the gateway's host" },
  {
    names: ['service-worker-allowed', 'service-worker-navigation-preload'],
    effect: "widens what scripts may take over at the gateway's host",
  },
  { names: ['refresh'], effect: 'redirects browsers to another address' },
  {
    names: ['www-authenticate', 'authentication-info', 'proxy-authentication-info'],
    effect: "asks the caller for credentials, but the upstream rejected the gateway's credential",
  },
  {
    names: ['sec-*', 'secure-session-*', 'set-login', 'activate-storage-access', 'origin-trial'],
    effect: "changes how browsers treat sessions and sites at the gateway's host",
  },
  {
    names: ['x-accel-redirect', 'x-sendfile', 'x-lighttpd-send-file', 'x-reproxy-url'],
    effect: 'makes a reverse proxy in front of the gateway serve a file or address of its own',
  },
];

const originRow = rowFinder(ORIGIN_HEADERS, ({ names }) => names);

/** Whether a response header, in lower case, acts on the gateway's host and is kept from clients. */
export function actsOnOrigin(name: string): boolean {
  return originRow(name) !== undefined;
}
