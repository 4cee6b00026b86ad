/** Headers that reach an upstream, that are added, and that are kept from clients. @module */
import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig, Profile, UpstreamConfig } from '../../base/contract/config.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import { parseTraceParent } from '../../base/kit/net/trace-context.ts';
import { percentDecoded } from '../../base/kit/text/percent.ts';
import { definitionOf } from '../protocols/index.ts';
import { UPSTREAM_TYPES } from './types/index.ts';

const NO_HEADERS: ReadonlySet<string> = new Set();

/** A lookup of table rows by header name. A trailing `*` makes a prefix. Exact names win, then the first row. */
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
 * The prefixes of version and feature headers (`form_headers` of a protocol) for an upstream with this profile: without one, or with
 * only the gateway's own, Anthropic's too. @param server the profile of the gateway, whose prefix clients may send
 */
export function headerPrefixes(profile: Profile | undefined, server: Profile): HeaderPrefixes {
  const { header_prefix } = profile ?? { header_prefix: NEUTRAL_PREFIX };
  // The gateway's own profile names headers of its clients, not of this upstream.
  const adds_theirs = profile === undefined || (profile === server && header_prefix !== NEUTRAL_PREFIX);
  const read = adds_theirs ? [...new Set([header_prefix, PREFIX_IN_USE])] : [header_prefix];
  return { read, sent: [...new Set([...read, server.header_prefix, NEUTRAL_PREFIX])] };
}

export function dropDigests(headers: IncomingHttpHeaders): void {
  for (const name of DIGESTS) delete headers[name];
}

/** Sets media types, version and features of a translated request. What the client sent with any prefix is kept. */
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

export interface TraceHeaders {
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
  const because = (why: string, help = 'leave it out'): NotFixed => ({ why, help });
  if (CREDENTIALS.includes(name))
    return because('it carries the credential of the upstream', 'name the variable as api_key_env or auth_token_env');
  if (name === 'host') return because('the gateway derives it from base_url', 'change base_url');
  if (CONNECTION_HEADERS.includes(name)) return because('it is hop-by-hop: the gateway sets it for each connection');
  if (OF_BODY.test(name)) return because('it describes the body or the response, which differ by request');
  if (OF_PROTOCOL.test(name))
    return because('it names the API version and beta features of each request', 'leave it to clients');
  if (traceHeaderOf(name) !== undefined) {
    const help = 'telemetry.propagate selects the trace headers that upstreams get';
    return because('it belongs to the trace of a request', help);
  }
  const decides = decisionOf(name);
  if (decides === 'model' || decides === 'price') {
    const help = 'configure the model in `models` and its price in `prices`';
    return because(`it determines the ${decides}, which limits and bills would not see`, help);
  }
  return decides === 'path' ? because('it determines the path or method of the request') : undefined;
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
 * Upstreams get them only if `allow_headers` lists them: they would wrongly apply to the upstream what is about the gateway.
 */
export interface PrivilegedHeader {
  readonly name: string;
  readonly decides: 'model' | 'price' | 'account' | 'route' | 'origin';
  readonly meaning: string;
  readonly source: string;
}

const deciding =
  (decides: PrivilegedHeader['decides']) =>
  (names: string, meaning: string, source: string): readonly PrivilegedHeader[] =>
    names.split(' ').map((name) => ({ name, decides, meaning, source }));
const model = deciding('model');
const price = deciding('price');
const account = deciding('account');
const route = deciding('route');
const origin = deciding('origin');

const ADDRESS = 'the address of the client';
const PERSON = 'the user, as authenticated by a proxy in front of the gateway';
const CERTIFICATE = 'the certificate of the client, as a proxy in front of the gateway saw it';
const HOST = 'the requested host';
const SCHEME = 'the scheme of the request';

/** All known privileged request headers, except the caller's own credential. */
export const PRIVILEGED_HEADERS: readonly PrivilegedHeader[] = [
  account('cookie', 'a session at the upstream, and so the caller', 'RFC 6265'),
  account('cookie2', 'a session at the upstream, and so the caller', 'RFC 2965'),
  account('api-key', 'a credential', 'Azure OpenAI reference'),
  account('ocp-apim-subscription-key', 'a credential', 'Azure API Management'),
  account('x-goog-api-key', 'a credential', 'Gemini API reference'),
  account('x-goog-user-project', 'the project that pays', 'Google Cloud, quota project'),
  account('x-amz-security-token', 'a credential', 'AWS signature version 4'),
  account('x-auth-token', 'a credential', 'several self-hosted servers'),
  account('openai-organization', 'the organization that pays', 'OpenAI API reference, authentication'),
  account('openai-project', 'the project that pays', 'OpenAI API reference, authentication'),
  account('chatgpt-account-id', 'the account that pays', 'coding CLI, signed in'),
  account('anthropic-workspace-id', 'the workspace that pays', 'Messages API reference, create a message'),
  account('anthropic-user-profile-id', 'for whom it is, and who may pay', 'Messages API reference'),
  price('x-vertex-ai-llm-*', 'the capacity that serves the request', 'Vertex AI, consumption options'),
  price('x-amzn-bedrock-*', 'service tier and latency', 'Amazon Bedrock, InvokeModel'),
  model('azureml-model-deployment', 'the deployment of a model', 'Azure Machine Learning, online endpoints'),
  model('x-ms-model-mesh-model-name', 'the model', 'Azure AI model inference'),
  route('x-openrouter-*', 'settings of a router', 'OpenRouter API reference'),
  route('x-portkey-*', 'target, credential and retries of a router', 'Portkey documentation, headers'),
  route('helicone-*', 'target, fallbacks and model of a router', 'Helicone documentation, header directory'),
  route('cf-aig-*', 'credential, cost and retries of a router', 'Cloudflare AI Gateway, headers'),
  route('x-litellm-*', 'routing tags and customer of a router', 'LiteLLM proxy, request headers'),
  route('x-pass-*', 'headers that a router passes on', 'LiteLLM proxy, forward client headers'),
  route('x-bf-*', 'credential and target of a router', 'Bifrost documentation'),
  route('x-tfy-*', 'target of a router', 'TrueFoundry AI Gateway'),
  route('x-original-url', 'the path that is served', 'Internet Information Services, ASP.NET; Symfony'),
  route('x-original-uri', 'the path that is served', 'nginx, authentication by subrequest'),
  route('x-rewrite-url', 'the path that is served', 'Internet Information Services, URL rewriting'),
  route('x-forwarded-uri', 'the path that is served', 'Traefik and Caddy, forwarded authentication'),
  route('x-forwarded-path', 'the path that is served', 'Kong, proxy headers'),
  route('x-http-method* x-method-override', 'the method that is served', 'several web frameworks, method override'),
  route('x-envoy-original-*', 'the host or path that is served', 'Envoy, original destination and path rewriting'),
  route('x-envoy-*', 'retries and time limits, and from where the request came', 'Envoy, HTTP header manipulation'),
  route(
    'x-forwarded-*',
    `${HOST}, its scheme, port and prefix, and ${ADDRESS}`,
    'reverse proxies (MDN, X-Forwarded-*)',
  ),
  route('forwarded forwarded-for x-forwarded', `${HOST}, and ${ADDRESS}`, 'RFC 7239 and what was before it'),
  route('x-original-*', `${HOST}, or ${ADDRESS}`, 'ingress-nginx; ASP.NET, forwarded headers'),
  route('x-host x-http-host x-http-host-override x-host-override', HOST, 'several proxies and web frameworks'),
  route('x-proxy-host proxy-host x-request-host x-target-host', HOST, 'several proxies and web frameworks'),
  route('x-backend-host x-upstream-host x-destination-host', HOST, 'several proxies and web frameworks'),
  route('x-scheme x-url-scheme front-end-https', SCHEME, 'ingress-nginx; Internet Information Services'),
  route('x-script-name script-name x-base-path', 'the prefix of what is served', 'WSGI servers behind a proxy'),
  origin('x-forward-for x-real-ip x-real-port x-client-ip client-ip', ADDRESS, 'reverse proxies and balancers'),
  origin('x-cluster-client-ip x-originating-ip x-remote-ip x-remote-addr', ADDRESS, 'reverse proxies and balancers'),
  origin('true-client-ip akamai-* x-akamai-*', ADDRESS, 'Akamai; Cloudflare'),
  origin('proxy-client-ip wl-proxy-* x-proxyuser-ip', ADDRESS, 'WebLogic and other application servers'),
  origin('cf-*', `${ADDRESS}, its country, and the user`, 'Cloudflare, HTTP headers; Cloudflare Access'),
  origin(
    'fastly-* fly-* cloudfront-* x-vercel-* x-nf-* do-connecting-ip ali-cdn-real-ip incap-client-ip',
    ADDRESS,
    'Fastly, Fly.io, CloudFront, Vercel, Netlify, DigitalOcean, Alibaba Cloud, Imperva',
  ),
  origin('x-azure-* x-arr-* x-appengine-*', ADDRESS, 'Azure Front Door and App Service; App Engine'),
  account('remote-user remote-groups remote-email remote-name', PERSON, 'Authelia, Kubernetes, Grafana, oauth2-proxy'),
  account('x-remote-user x-remote-group x-remote-extra-*', PERSON, 'Authelia, Kubernetes, Grafana, oauth2-proxy'),
  account('x-webauth-* x-auth-request-*', PERSON, 'Authelia, Kubernetes, Grafana, oauth2-proxy'),
  account(
    'x-authentik-* x-pomerium-* tailscale-user-* x-goog-iap-* x-goog-authenticated-user-* x-amzn-oidc-* x-ms-client-principal* x-ms-token-*',
    PERSON,
    'authentik, Pomerium, Tailscale, Identity-Aware Proxy, Application Load Balancer, App Service',
  ),
  account('x-consumer-* x-anonymous-consumer x-authenticated-*', PERSON, 'Kong, Apache APISIX, WSO2, Envoy, Istio'),
  account('x-credential-* x-userinfo x-user-info x-jwt-assertion', PERSON, 'Kong, Apache APISIX, WSO2, Envoy, Istio'),
  account('x-jwt-payload x-token-payload', PERSON, 'Kong, Apache APISIX, WSO2, Envoy, Istio'),
  account('client-cert client-cert-chain', CERTIFICATE, 'RFC 9440; nginx, Apache httpd, Application Load Balancer'),
  account('x-client-cert* ssl-client-*', CERTIFICATE, 'RFC 9440; nginx, Apache httpd, Application Load Balancer'),
  account('x-ssl-* x-amzn-mtls-*', CERTIFICATE, 'RFC 9440; nginx, Apache httpd, Application Load Balancer'),
  route('x-orq-*', 'target of a router', 'orq.ai documentation'),
  route('ai-gateway-*', 'provider and credential of a router', 'Vercel AI Gateway'),
].flat();

const HARMLESS: ReadonlySet<string> = new Set(['x-openrouter-title', 'x-openrouter-categories']);

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

const OF_PATH = /\b(?:path|method)\b.* served$/;

const ACCOUNT_WORDS =
  /(?:^|-)(?:organi[sz]ation|org|project|workspace|tenant|account|customer|billing|subscription|user-profile|cost-center|byok|(?:virtual|provider|api|secret)-?keys?)(?:-(?:id|name|key|override|slug))?$/;

/** What a privileged header decides, by its name in lower case; `undefined` for other headers. */
export function decisionOf(name: string): PrivilegedHeader['decides'] | 'path' | undefined {
  if (!isPrivilegedHeader(name)) return undefined;
  const known = privilegedRow(name);
  if (known !== undefined) return OF_PATH.test(known.meaning) ? 'path' : known.decides;
  return ACCOUNT_WORDS.test(name) ? 'account' : 'model';
}

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
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
];

/** Never forwarded: of the connection, the caller's credential, set by the gateway; some servers reject on `origin`. */
export const ENDING_HERE: ReadonlySet<string> = new Set([
  ...CONNECTION_HEADERS,
  ...['authorization', 'content-length', 'expect', 'host', 'origin', 'x-api-key'],
]);

/** Hop-by-hop headers that Connection names, but none about the body, which has another recipient (RFC 9110 section 7.6.1). */
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
  readonly names: readonly string[];
  /** Their effect, as the rest of a sentence that begins with "it". */
  readonly effect: string;
}

const acts = (names: string, effect: string): OriginHeaders => ({ names: names.split(' '), effect });

/** Response headers that affect the whole host, which is the gateway's; clients of model APIs need none of them. */
export const ORIGIN_HEADERS: readonly OriginHeaders[] = [
  acts('set-cookie set-cookie2', "sets cookies for the gateway's host, its sign-in included"),
  acts('clear-site-data', "deletes browser data of the gateway's host, sign-ins included"),
  acts('strict-transport-security', "makes browsers reject plain HTTP to the gateway's host for months"),
  acts('public-key-pins* expect-ct', "pins certificates for the gateway's host"),
  acts('alt-svc', 'sends the next requests for the gateway to another address'),
  acts('access-control-* timing-allow-origin cross-origin-*', "lets pages of other sites read the gateway's responses"),
  acts(
    'nel report-to reporting-endpoints content-security-policy* attribution-reporting-*',
    "makes browsers send reports about the gateway's host to a third party",
  ),
  acts('accept-ch* critical-ch', "makes browsers send client hints to the gateway's host"),
  acts(
    'service-worker-allowed service-worker-navigation-preload',
    "widens what scripts may take over at the gateway's host",
  ),
  acts('refresh', 'redirects browsers to another address'),
  acts(
    'www-authenticate authentication-info proxy-authentication-info',
    "requests credentials from the caller, but the upstream rejected the gateway's credential",
  ),
  acts(
    'sec-* secure-session-* set-login activate-storage-access origin-trial',
    "changes how browsers treat sessions and sites at the gateway's host",
  ),
  acts(
    'x-accel-redirect x-sendfile x-lighttpd-send-file x-reproxy-url',
    'makes a reverse proxy in front of the gateway serve a file or address of its own',
  ),
];

const originRow = rowFinder(ORIGIN_HEADERS, ({ names }) => names);

/** Whether a response header, in lower case, acts on the gateway's host and is kept from clients. */
export function actsOnOrigin(name: string): boolean {
  return originRow(name) !== undefined;
}
