import type { IncomingHttpHeaders } from 'node:http';
import type { UpstreamConfig } from '../config.ts';
import type { Protocol } from '../translation/protocol.ts';
import { ENDING_HERE, nominated } from './connection-headers.ts';
import { isDecisiveHeader } from './decisive-headers.ts';

const NO_HEADERS: ReadonlySet<string> = new Set();

/** Headers by which a client vouches for bytes that the upstream does not get. */
const DIGESTS = ['content-digest', 'content-md5', 'digest', 'repr-digest'];

/** The version of the Messages API that translated requests are written in. */
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

/**
 * What of a client's headers goes upstream: all but those of its connection, its credential, and those that choose who
 * serves or pays unless they are `allowed`.
 */
export function forwardedHeaders(
  received: IncomingHttpHeaders,
  allowed: ReadonlySet<string> = NO_HEADERS,
): ForwardedHeaders {
  const of_connection = nominated(received.connection);
  const headers: IncomingHttpHeaders = {};
  let dropped: string[] | undefined;
  for (const name in received) {
    if (ENDING_HERE.has(name) || of_connection.includes(name)) continue;
    if (isDecisiveHeader(name) && !allowed.has(name)) {
      dropped ??= [];
      dropped.push(name);
    } else {
      headers[name] = received[name];
    }
  }
  return { headers, dropped };
}

/** Puts what a translated request says of itself in the place of what its client said. */
export function describeTranslated(
  headers: IncomingHttpHeaders,
  {
    protocol,
    stream,
    header_prefix,
  }: {
    readonly protocol: Protocol;
    readonly stream: boolean;
    /** Prefix of the headers of the Messages API. */
    readonly header_prefix: string;
  },
): void {
  for (const name of DIGESTS) delete headers[name];
  headers['content-type'] = 'application/json';
  headers.accept = stream ? 'text/event-stream' : 'application/json';
  if (protocol === 'messages') headers[`${header_prefix}-version`] ??= MESSAGES_VERSION;
}
