import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig, Profile, UpstreamConfig } from '../contract/config.ts';
import type { Protocol } from '../contract/protocol.ts';
import { parseTraceParent } from '../kit/net/trace-context.ts';
import { percentDecoded } from '../kit/text/percent.ts';
import { CONNECTION_HEADERS, decisionOf, ENDING_HERE, isDecisiveHeader, nominated } from './decisive-headers.ts';

const NO_HEADERS: ReadonlySet<string> = new Set();

/** Headers by which a client vouches for bytes that the upstream does not get. */
const DIGESTS = ['content-digest', 'content-md5', 'digest', 'repr-digest'];

/** Prefixes of header names: the one that is nobody's, and the one that servers of the Messages protocol read. */
const NEUTRAL_PREFIX = 'vendor';
const PREFIX_IN_USE = 'anthropic';

/** The version of the Messages protocol that translated requests are written in. */
const MESSAGES_VERSION = '2023-06-01';

/** The headers that carry an upstream's credential. Compat upstreams read the one or the other, so both carry a key. */
export function upstreamCredential(
  { type, api_key_env, auth_token_env }: UpstreamConfig,
  secret: (variable: string) => string,
): Readonly<Record<string, string>> {
  if (api_key_env !== undefined) {
    const key = secret(api_key_env);
    return { ...(type === 'compat' && { authorization: `Bearer ${key}` }), 'x-api-key': key };
  }
  return auth_token_env === undefined ? {} : { authorization: `Bearer ${secret(auth_token_env)}` };
}

/** What upstreams get of the trace of a request. */
export type Propagation = GatewayConfig['telemetry']['propagate'];

type Kind = 'plain' | 'ending' | 'decisive' | 'baggage' | 'trace';

/** Most names that are remembered: clients send the same few. */
const REMEMBERED_MAX = 1000;

const remembered = new Map<string, Kind>();

function kindOf(name: string): Kind {
  let kind = remembered.get(name);
  if (kind === undefined) {
    kind = ENDING_HERE.has(name) ? 'ending' : isDecisiveHeader(name) ? 'decisive' : (traceHeaderOf(name) ?? 'plain');
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
      (kind === 'decisive' && allowed.has(name)) ||
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

/** Names of a header of the Messages protocol: those an upstream reads, and all that a client may have used for it. */
interface HeaderNames {
  readonly read: readonly string[];
  readonly sent: readonly string[];
}

/** The headers in which a request says in which form of the Messages protocol it is written. */
export interface MessagesHeaders {
  readonly version: HeaderNames;
  readonly beta: HeaderNames;
}

/**
 * What the headers of the Messages protocol are called at an upstream with this profile. Where it is not known whose names it
 * takes, it is sent the neutral ones and those in use; where only the gateway's own names are known, these and those in use.
 * @param server the profile of the gateway, whose names clients may have used.
 */
export function messagesHeaders(profile: Profile | undefined, server: Profile): MessagesHeaders {
  const read = prefixesRead(profile, server);
  const sent = [...new Set([...read, server.header_prefix, NEUTRAL_PREFIX])];
  const named = (part: string): HeaderNames => ({
    read: read.map((prefix) => `${prefix}-${part}`),
    sent: sent.map((prefix) => `${prefix}-${part}`),
  });
  return { version: named('version'), beta: named('beta') };
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

/** Puts what a translated request says of itself in the place of what its client said. */
export function describeTranslated(
  headers: IncomingHttpHeaders,
  how: { readonly protocol: Protocol; readonly stream: boolean; readonly messages: MessagesHeaders },
): void {
  const { protocol, stream, messages } = how;
  headers['content-type'] = 'application/json';
  headers.accept = stream ? 'text/event-stream' : 'application/json';
  if (protocol !== 'messages') return;
  sayAgain(headers, messages.version, MESSAGES_VERSION);
  sayAgain(headers, messages.beta);
}

/** Says what the client said under any name under the names that the upstream reads; what stands there stays. */
function sayAgain(headers: IncomingHttpHeaders, { read, sent }: HeaderNames, otherwise?: string): void {
  const by = sent.find((name) => headers[name] !== undefined);
  const value = by === undefined ? otherwise : headers[by];
  if (value !== undefined) for (const name of read) headers[name] ??= value;
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

const EXACT = new Map<string, TraceHeaders['carries']>();
const PREFIXES: [string, TraceHeaders['carries']][] = [];
for (const { names, carries } of TRACE_HEADERS) {
  for (const name of names) {
    if (name.endsWith('*')) PREFIXES.push([name.slice(0, -1), carries]);
    else EXACT.set(name, carries);
  }
}

/** What a header of a request carries, by its name in lower case; `undefined` for one that is not of this kind. */
export function traceHeaderOf(name: string): TraceHeaders['carries'] | undefined {
  // Many servers take an underscore for a hyphen.
  const spelt = name.replaceAll('_', '-');
  return EXACT.get(spelt) ?? PREFIXES.find(([prefix]) => spelt.startsWith(prefix))?.[1];
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
 * Makes the function that puts a request's path, with its query, behind the path of an upstream's base URL, and adds the query of
 * the upstream. The version that the path begins with is left out where `append_v1` is false, and where the base URL of a compat upstream names one.
 */
export function upstreamPaths({
  type,
  base_url,
  append_v1,
  query,
}: Pick<UpstreamConfig, 'type' | 'base_url' | 'append_v1' | 'query'>): (path: string) => string {
  const base = new URL(base_url).pathname.replace(/\/$/, '');
  const keeps_version = append_v1 ?? !(type === 'compat' && VERSION.test(base));
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
