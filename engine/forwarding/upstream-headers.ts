import type { IncomingHttpHeaders } from 'node:http';
import type { UpstreamConfig } from '../config.ts';
import type { Protocol } from '../translation/protocol.ts';

/** Request headers that end here: connection headers (RFC 9110 section 7.6.1), the caller's credential, what is set anew. */
const DROPPED = new Set([
  'authorization',
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-api-key',
]);

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

/** What of a client's headers goes upstream: all but those of its connection and its credential. */
export function forwardedHeaders(received: IncomingHttpHeaders): IncomingHttpHeaders {
  const { connection } = received;
  const nominated =
    connection === undefined || connection === 'keep-alive' || connection === 'close'
      ? undefined
      : connection.toLowerCase().split(/\s*,\s*/);
  const headers: IncomingHttpHeaders = {};
  for (const name in received) {
    if (!DROPPED.has(name) && !nominated?.includes(name)) headers[name] = received[name];
  }
  return headers;
}

/** What a request says of itself that the gateway wrote in an API its client does not speak. */
export interface TranslatedRequest {
  readonly protocol: Protocol;
  readonly stream: boolean;
  /** Prefix of the headers of the Messages API. */
  readonly header_prefix: string;
}

/** Puts what a translated request says of itself in the place of what its client said. */
export function describeTranslated(headers: IncomingHttpHeaders, request: TranslatedRequest): void {
  headers['content-type'] = 'application/json';
  headers.accept = request.stream ? 'text/event-stream' : 'application/json';
  if (request.protocol === 'messages') headers[`${request.header_prefix}-version`] ??= MESSAGES_VERSION;
}
