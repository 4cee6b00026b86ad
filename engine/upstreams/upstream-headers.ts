import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayConfig, Profile, UpstreamConfig } from '../contract/config.ts';
import type { Protocol } from '../contract/protocol.ts';
import { parseTraceParent } from '../kit/net/trace-context.ts';
import { ENDING_HERE, nominated } from './connection-headers.ts';
import { isDecisiveHeader } from './decisive-headers.ts';
import { traceHeaderOf } from './trace-headers.ts';

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

/** What of a client's headers goes upstream, and the names of those that do not because of what they decide. */
export interface ForwardedHeaders {
  readonly headers: IncomingHttpHeaders;
  /** `undefined` without any. */
  readonly dropped: readonly string[] | undefined;
}

/** What upstreams get of the trace of a request. */
export type Propagation = GatewayConfig['telemetry']['propagate'];

/** What a header is, by its name. `plain`: it passes. */
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
): ForwardedHeaders {
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
