/**
 * Headers on their way: those of a request that reach an upstream, those that are added, and those of an answer that are kept from
 * clients.
 * @module
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig, Profile, UpstreamConfig } from '../../base/contract/config.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import { parseTraceParent } from '../../base/kit/net/trace-context.ts';
import { percentDecoded } from '../../base/kit/text/percent.ts';
import { definitionOf } from '../protocols/index.ts';
import { UPSTREAM_TYPES } from './types/index.ts';

const NO_HEADERS: ReadonlySet<string> = new Set();

/**
 * Makes the function that finds the row of a table by a header name, in lower case. A name of the table that ends with `*` stands
 * for all names that begin so; a whole name wins over these, and then the first row.
 */
function rowFinder<Row>(
  table: readonly Row[],
  namesOf: (row: Row) => readonly string[],
): (name: string) => Row | undefined {
  const names = table.flatMap((row) => namesOf(row).map((name) => [name, row] as const));
  const exact = new Map(names.filter(([name]) => !name.endsWith('*')));
  const families = names.filter(([name]) => name.endsWith('*')).map(([name, row]) => [name.slice(0, -1), row] as const);
  // One expression for most names, which are in no family: this runs for every header of every response.
  const family = new RegExp(`^(?:${families.map(([prefix]) => prefix).join('|')})`);
  return (name) =>
    exact.get(name) ?? (family.test(name) ? families.find(([prefix]) => name.startsWith(prefix))?.[1] : undefined);
}

/** Headers by which a client vouches for bytes that the upstream does not get. */
const DIGESTS = ['content-digest', 'content-md5', 'digest', 'repr-digest'];

/** Prefixes of header names: the one that is nobody's, and the one that servers of the Messages protocol read. */
const NEUTRAL_PREFIX = 'vendor';
const PREFIX_IN_USE = 'anthropic';

/** The headers that carry an upstream's credential; none where it has none, or its variable is not set. */
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

/** What upstreams get of the trace of a request. */
export type Propagation = GatewayConfig['telemetry']['propagate'];

type Kind = 'plain' | 'ending' | 'privileged' | 'baggage' | 'trace';

/** Most names that are remembered: clients send the same few. */
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
 * What of a client's headers goes upstream: all but those of its connection, its credential, baggage, and those that choose who
 * serves or pays unless they are `allowed`. Headers of tracing go with `propagate: verbatim` alone; with `join` the `tracestate`
 * does, which belongs to the trace and not to one span of it.
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
  // Without a parent there is no trace whose state it could be (W3C Trace Context, section 3.3).
  return name === 'tracestate' && parseTraceParent(traceparent) !== undefined;
}

/** Prefixes of headers that have names by vendor: those that an upstream reads, and all that clients may use. */
export interface HeaderPrefixes {
  readonly read: readonly string[];
  readonly sent: readonly string[];
}

/**
 * The prefixes of the headers with version and features (`form_headers` of a protocol) at an upstream with this profile. Where
 * its profile is not known, it is sent the neutral names and those in use; where only the gateway's own names are known, these
 * and those in use.
 * @param server the profile of the gateway, whose names clients may have used.
 */
export function headerPrefixes(profile: Profile | undefined, server: Profile): HeaderPrefixes {
  const read = prefixesRead(profile, server);
  return { read, sent: [...new Set([...read, server.header_prefix, NEUTRAL_PREFIX])] };
}

/** A gateway whose own names are another vendor's tells by that only what its clients read, as a rule. */
function prefixesRead(profile: Profile | undefined, server: Profile): readonly string[] {
  if (profile === undefined) return [NEUTRAL_PREFIX, PREFIX_IN_USE];
  const { header_prefix } = profile;
  return profile === server && header_prefix !== NEUTRAL_PREFIX
    ? [...new Set([header_prefix, PREFIX_IN_USE])]
    : [header_prefix];
}

/** Takes out what a client vouched for its bytes with, where they were rewritten. */
export function dropDigests(headers: IncomingHttpHeaders): void {
  for (const name of DIGESTS) delete headers[name];
}

/**
 * Describes a translated request in its headers: media types, and version and features under the names that the upstream reads,
 * with the values that the client sent under any name.
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

/** Headers of requests by which programs follow a request from one to the next. */
export interface TraceHeaders {
  /** In lower case; one that ends in `*` stands for all names that begin so. */
  readonly names: readonly string[];
  /**
   * `baggage`: they carry whatever a program puts there, such as who its user is. `trace`: they carry identifiers, and whether the
   * trace is kept.
   */
  readonly carries: 'baggage' | 'trace';
  readonly source: string;
}

/** Every header that is known to be of this kind. */
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

/** What a header of a request carries, by its name in lower case; `undefined` for one that is not of this kind. */
export function traceHeaderOf(name: string): TraceHeaders['carries'] | undefined {
  // Many servers take an underscore for a hyphen.
  const spelt = name.replaceAll('_', '-');
  return traceRow(spelt)?.carries;
}

/** Headers that say what the body and its answer are: the bytes that travel decide them. */
const OF_BODY =
  /^(?:content-.*|accept(?:-.*)?|expect|range|if-.*|cache-control|(?:repr-)?digest|want-(?:content|repr)-digest)$/;

/** Headers in which a request says in which form of its protocol it is written; a beta may lengthen the context window. */
const OF_PROTOCOL = /-(?:version|beta)$/;

const CREDENTIALS: readonly string[] = ['authorization', 'x-api-key'];

/** Why a header cannot be fixed for an upstream, and what to do instead. */
export interface NotFixed {
  readonly why: string;
  readonly help: string;
}

/** Whether a header may be set for all requests to an upstream, by its name in lower case; `undefined` where it may. */
export function whyNotFixed(name: string): NotFixed | undefined {
  const remove = 'leave it out';
  if (CREDENTIALS.includes(name))
    return {
      why: 'it carries the credential of the upstream',
      help: 'name the variable as api_key_env or auth_token_env',
    };
  if (name === 'host') return { why: 'it follows from the address', help: 'write the address as base_url' };
  if (name === 'content-length' || CONNECTION_HEADERS.includes(name))
    return { why: 'it belongs to a connection, and the gateway sets it for each', help: remove };
  if (OF_BODY.test(name))
    return { why: 'it says what the body or the answer is, which differs by request', help: remove };
  if (OF_PROTOCOL.test(name))
    return {
      why: 'a request says in it in which form it is written, and what it may use',
      help: 'leave it to clients',
    };
  if (traceHeaderOf(name) !== undefined)
    return {
      why: 'it belongs to the trace of a request',
      help: 'telemetry.propagate says what upstreams get of traces',
    };
  const decides = decisionOf(name);
  if (decides === 'model' || decides === 'price') {
    const why = `it decides over the ${decides}, and limits and bills would not know`;
    return { why, help: 'say in `models` and `prices` what is asked for and what it costs' };
  }
  if (decides === 'path') return { why: 'it decides which path or method is served', help: remove };
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

/**
 * Puts fixed headers in the place of a client's own.
 * @returns names of the client's headers that are gone; many servers take an underscore for a hyphen
 */
export function fixHeaders(headers: IncomingHttpHeaders, fixed: Readonly<Record<string, string>>): readonly string[] {
  if (Object.keys(fixed).length === 0) return NONE;
  const replaced = Object.keys(headers).filter((name) => Object.hasOwn(fixed, name.replaceAll('_', '-')));
  for (const name of replaced) delete headers[name];
  Object.assign(headers, fixed);
  return replaced;
}

/** A segment such as `v1`, `v3` or `v1beta`. */
const VERSION = /\/v\d+[a-z0-9]*(?=\/|$)/i;

/**
 * Makes the function that appends a request's path, with its query, to an upstream's base URL, and adds the upstream's own query.
 * The path loses its version where `append_v1` is false, or where the base URL has one and the type of the upstream allows it.
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

/** Puts the query of an upstream before what remains of a client's own. */
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

/** The name of a query parameter as servers read it: many don't mind its case, and take `name[]` for a list. */
function nameOf(pair: string): string {
  const name = percentDecoded(pair.split('=', 1)[0]!.replaceAll('+', ' '));
  return name.trim().replace(/\[.*$/, '').toLowerCase();
}

/**
 * Request headers that choose who serves or pays, or that say on whose behalf and from where a request came, as proxies and
 * sign-ins in front of the gateway do. They are dropped on the way to an upstream, unless its `allow_headers` lists them: clients
 * send some of them by habit, and without them a request is charged to the account of the upstream's credential, which is what the
 * operator chose; the way to the gateway is not the way to the upstream, whose router or server would go by it.
 */
export interface PrivilegedHeader {
  /** A whole name, or how names begin when it ends with `*`; lower case. */
  readonly name: string;
  readonly decides: 'model' | 'price' | 'account' | 'route' | 'origin';
  readonly meaning: string;
  readonly source: string;
}

const row = (
  name: string,
  decides: PrivilegedHeader['decides'],
  meaning: string,
  source: string,
): PrivilegedHeader => ({
  name,
  decides,
  meaning,
  source,
});

const rows = (
  names: string,
  decides: PrivilegedHeader['decides'],
  meaning: string,
  source: string,
): readonly PrivilegedHeader[] => names.split(' ').map((name) => row(name, decides, meaning, source));

const ADDRESS = 'the address from which the request came';
const PERSON = 'who asks, as a sign-in in front of the gateway says';
const CERTIFICATE = 'the certificate of the client, as a proxy in front of the gateway saw it';
const HOST = 'the host that is served';
const SCHEME = 'the scheme by which the request came';

/** Every request header that is known to do so, the caller's own credential apart. */
export const PRIVILEGED_HEADERS: readonly PrivilegedHeader[] = [
  row('cookie', 'account', 'a session at the upstream, and with it somebody', 'RFC 6265'),
  row('cookie2', 'account', 'a session at the upstream, and with it somebody', 'RFC 2965'),
  row('api-key', 'account', 'a credential', 'Azure OpenAI reference'),
  row('ocp-apim-subscription-key', 'account', 'a credential', 'Azure API Management'),
  row('x-goog-api-key', 'account', 'a credential', 'Gemini API reference'),
  row('x-goog-user-project', 'account', 'the project that pays', 'Google Cloud, quota project'),
  row('x-amz-security-token', 'account', 'a credential', 'AWS signature version 4'),
  row('x-auth-token', 'account', 'a credential', 'several self-hosted servers'),
  row('openai-organization', 'account', 'the organization that pays', 'OpenAI API reference, authentication'),
  row('openai-project', 'account', 'the project that pays', 'OpenAI API reference, authentication'),
  row('chatgpt-account-id', 'account', 'the account that pays', 'coding CLI, signed in'),
  row('anthropic-workspace-id', 'account', 'the workspace that pays', 'Messages API reference, create a message'),
  row('anthropic-user-profile-id', 'account', 'for whom it is, and who may pay', 'Messages API reference'),
  row('x-vertex-ai-llm-*', 'price', 'the capacity that serves the request', 'Vertex AI, consumption options'),
  row('x-amzn-bedrock-*', 'price', 'service tier and latency', 'Amazon Bedrock, InvokeModel'),
  row('azureml-model-deployment', 'model', 'the deployment of a model', 'Azure Machine Learning, online endpoints'),
  row('x-ms-model-mesh-model-name', 'model', 'the model', 'Azure AI model inference'),
  row('x-openrouter-*', 'route', 'settings of a router', 'OpenRouter API reference'),
  row('x-portkey-*', 'route', 'target, credential and retries of a router', 'Portkey documentation, headers'),
  row('helicone-*', 'route', 'target, fallbacks and model of a router', 'Helicone documentation, header directory'),
  row('cf-aig-*', 'route', 'credential, cost and retries of a router', 'Cloudflare AI Gateway, headers'),
  row('x-litellm-*', 'route', 'routing tags and customer of a router', 'LiteLLM proxy, request headers'),
  row('x-pass-*', 'route', 'headers that a router passes on', 'LiteLLM proxy, forward client headers'),
  row('x-bf-*', 'route', 'credential and target of a router', 'Bifrost documentation'),
  row('x-tfy-*', 'route', 'target of a router', 'TrueFoundry AI Gateway'),
  row('x-original-url', 'route', 'the path that is served', 'Internet Information Services, ASP.NET; Symfony'),
  row('x-original-uri', 'route', 'the path that is served', 'nginx, authentication by subrequest'),
  row('x-rewrite-url', 'route', 'the path that is served', 'Internet Information Services, URL rewriting'),
  row('x-forwarded-uri', 'route', 'the path that is served', 'Traefik and Caddy, forwarded authentication'),
  row('x-forwarded-path', 'route', 'the path that is served', 'Kong, proxy headers'),
  row('x-http-method*', 'route', 'the method that is served', 'several web frameworks, method override'),
  row('x-method-override', 'route', 'the method that is served', 'several web frameworks, method override'),
  row(
    'x-envoy-original-*',
    'route',
    'the host or path that is served',
    'Envoy, original destination and path rewriting',
  ),
  row(
    'x-envoy-*',
    'route',
    'retries and time limits, and from where the request came',
    'Envoy, HTTP header manipulation',
  ),
  row(
    'x-forwarded-*',
    'route',
    `${HOST}, its scheme, port and prefix, and ${ADDRESS}`,
    'reverse proxies (MDN, X-Forwarded-*)',
  ),
  ...rows('forwarded forwarded-for x-forwarded', 'route', `${HOST}, and ${ADDRESS}`, 'RFC 7239 and what was before it'),
  row('x-original-*', 'route', `${HOST}, or ${ADDRESS}`, 'ingress-nginx; ASP.NET, forwarded headers'),
  ...rows(
    'x-host x-http-host x-http-host-override x-host-override x-proxy-host proxy-host x-request-host x-target-host x-backend-host x-upstream-host x-destination-host',
    'route',
    HOST,
    'several proxies and web frameworks',
  ),
  ...rows('x-scheme x-url-scheme front-end-https', 'route', SCHEME, 'ingress-nginx; Internet Information Services'),
  ...rows(
    'x-script-name script-name x-base-path',
    'route',
    'the prefix of what is served',
    'WSGI servers behind a proxy',
  ),
  ...rows(
    'x-forward-for x-real-ip x-real-port x-client-ip client-ip x-cluster-client-ip x-originating-ip x-remote-ip x-remote-addr',
    'origin',
    ADDRESS,
    'reverse proxies and balancers',
  ),
  ...rows('true-client-ip akamai-* x-akamai-*', 'origin', ADDRESS, 'Akamai; Cloudflare'),
  ...rows('proxy-client-ip wl-proxy-* x-proxyuser-ip', 'origin', ADDRESS, 'WebLogic and other application servers'),
  row('cf-*', 'origin', `${ADDRESS}, its country, and who asks`, 'Cloudflare, HTTP headers; Cloudflare Access'),
  ...rows(
    'fastly-* fly-* cloudfront-* x-vercel-* x-nf-* do-connecting-ip ali-cdn-real-ip incap-client-ip',
    'origin',
    ADDRESS,
    'Fastly, Fly.io, CloudFront, Vercel, Netlify, DigitalOcean, Alibaba Cloud, Imperva',
  ),
  ...rows('x-azure-* x-arr-* x-appengine-*', 'origin', ADDRESS, 'Azure Front Door and App Service; App Engine'),
  ...rows(
    'remote-user remote-groups remote-email remote-name x-remote-user x-remote-group x-remote-extra-* x-webauth-* x-auth-request-*',
    'account',
    PERSON,
    'Authelia, Kubernetes, Grafana, oauth2-proxy',
  ),
  ...rows(
    'x-authentik-* x-pomerium-* tailscale-user-* x-goog-iap-* x-goog-authenticated-user-* x-amzn-oidc-* x-ms-client-principal* x-ms-token-*',
    'account',
    PERSON,
    'authentik, Pomerium, Tailscale, Identity-Aware Proxy, Application Load Balancer, App Service',
  ),
  ...rows(
    'x-consumer-* x-anonymous-consumer x-authenticated-* x-credential-* x-userinfo x-user-info x-jwt-assertion x-jwt-payload x-token-payload',
    'account',
    PERSON,
    'Kong, Apache APISIX, WSO2, Envoy, Istio',
  ),
  ...rows(
    'client-cert client-cert-chain x-client-cert* ssl-client-* x-ssl-* x-amzn-mtls-*',
    'account',
    CERTIFICATE,
    'RFC 9440; nginx, Apache httpd, Application Load Balancer',
  ),
  row('x-orq-*', 'route', 'target of a router', 'orq.ai documentation'),
  row('ai-gateway-*', 'route', 'provider and credential of a router', 'Vercel AI Gateway'),
];

/** Headers whose names begin like privileged ones, and which only say who asks. */
const HARMLESS: ReadonlySet<string> = new Set(['x-openrouter-title', 'x-openrouter-categories']);

/** Words at the end of other names that choose an account, a model or a price. */
const PRIVILEGED_WORDS =
  /(?:^|-)(?:(?:organi[sz]ation|org|project|workspace|tenant|account|customer|billing|subscription|user-profile|cost-center|model|deployment|fallbacks?|byok)(?:-(?:id|name|key|override|slug))?|(?:virtual|provider|api|secret)-?keys?|(?:service|price)-tier|speed-mode|service-level)$/;

const privilegedRow = rowFinder(PRIVILEGED_HEADERS, ({ name }) => [name]);

/** How betas of the Messages protocol that lengthen the context window are written: `context-1m-2025-08-07`. */
const WINDOW_BETA = /^context-(\d{1,6})([km])(?![a-z\d])/;

const UNITS = { k: 1000, m: 1_000_000 } as const;

/** The longest context window that betas in these headers ask for, in tokens; `undefined` where they ask for none. */
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

/** Rows whose headers choose the path or the method that is served, whoever serves it. */
const OF_PATH = /\b(?:path|method)\b.* served$/;

/** Words at the end of names that choose an account, or whose credential. */
const ACCOUNT_WORDS =
  /(?:^|-)(?:organi[sz]ation|org|project|workspace|tenant|account|customer|billing|subscription|user-profile|cost-center|byok|(?:virtual|provider|api|secret)-?keys?)(?:-(?:id|name|key|override|slug))?$/;

/** What a header that is dropped decides, by its name in lower case; `undefined` for all others. */
export function decisionOf(name: string): PrivilegedHeader['decides'] | 'path' | undefined {
  if (!isPrivilegedHeader(name)) return undefined;
  const known = privilegedRow(name);
  if (known !== undefined) return OF_PATH.test(known.meaning) ? 'path' : known.decides;
  return ACCOUNT_WORDS.test(name) ? 'account' : 'model';
}

/** Headers of a body that the gateway may send in another form than it came. */
const REFRAMED: ReadonlySet<string> = new Set(['content-encoding', 'content-type']);

/**
 * Whether a request header, in lower case, chooses who serves or pays or says from where a request came, or is one in another
 * spelling that ends here or says what the body is.
 */
export function isPrivilegedHeader(name: string): boolean {
  // Many servers take an underscore for a hyphen.
  const spelt = name.replaceAll('_', '-');
  return (
    !HARMLESS.has(spelt) &&
    ((spelt !== name && (ENDING_HERE.has(spelt) || REFRAMED.has(spelt))) ||
      privilegedRow(spelt) !== undefined ||
      PRIVILEGED_WORDS.test(spelt))
  );
}

/** Headers that belong to one connection and never travel further (RFC 9110 section 7.6.1). */
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
 * Request headers that end here: those of the connection, the caller's credential, what is set anew, and the page that sent a
 * request, which some servers refuse although it is the gateway that asks them.
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
 * Names that a Connection header adds to them, in lower case; none of those that describe the body, which are for whoever
 * reads it (RFC 9110 section 7.6.1).
 */
export function nominated(connection: string | string[] | undefined): readonly string[] {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return [];
  return String(connection)
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => !name.startsWith('content-'));
}

/** Headers of an answer that are kept from clients for one reason. */
export interface OriginHeaders {
  /** In lower case; one that ends in `*` stands for all names that begin so. */
  readonly names: readonly string[];
  /** What they would do, ending a sentence that begins with "it". */
  readonly effect: string;
}

/**
 * Response headers that act on the whole host an answer comes from, or on the proxies in front of it, not on the answer.
 * That host is the gateway, and an upstream has no say over it. No client of a model API needs one of them.
 */
export const ORIGIN_HEADERS: readonly OriginHeaders[] = [
  { names: ['set-cookie', 'set-cookie2'], effect: "sets cookies for the gateway's host, its own sign-in among them" },
  { names: ['clear-site-data'], effect: "deletes what a browser keeps for the gateway's host, sign-ins included" },
  { names: ['strict-transport-security'], effect: "makes browsers refuse plain HTTP to the gateway's host for months" },
  { names: ['public-key-pins*', 'expect-ct'], effect: "pins certificates for the gateway's host" },
  { names: ['alt-svc'], effect: 'sends the next requests for the gateway to another address' },
  {
    names: ['access-control-*', 'timing-allow-origin', 'cross-origin-*'],
    effect: 'lets pages of other sites read what the gateway answers',
  },
  {
    names: ['nel', 'report-to', 'reporting-endpoints', 'content-security-policy*', 'attribution-reporting-*'],
    effect: "makes browsers report what happens at the gateway's host to somebody else",
  },
  { names: ['accept-ch*', 'critical-ch'], effect: "makes browsers tell more about themselves to the gateway's host" },
  {
    names: ['service-worker-allowed', 'service-worker-navigation-preload'],
    effect: "widens what scripts may take over at the gateway's host",
  },
  { names: ['refresh'], effect: 'sends a browser on to another address' },
  {
    names: ['www-authenticate', 'authentication-info', 'proxy-authentication-info'],
    effect: "asks the caller for a password; what the upstream refuses is the gateway's credential, never the caller's",
  },
  {
    names: ['sec-*', 'secure-session-*', 'set-login', 'activate-storage-access', 'origin-trial'],
    effect: "changes how browsers treat sessions and sites at the gateway's host",
  },
  {
    names: ['x-accel-redirect', 'x-sendfile', 'x-lighttpd-send-file', 'x-reproxy-url'],
    effect: 'makes a reverse proxy in front of the gateway answer with a file or address of its own',
  },
];

const originRow = rowFinder(ORIGIN_HEADERS, ({ names }) => names);

/** Whether a response header, in lower case, acts on the gateway's host and is kept from clients. */
export function actsOnOrigin(name: string): boolean {
  return originRow(name) !== undefined;
}
