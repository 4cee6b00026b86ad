import type { IncomingHttpHeaders } from 'node:http';
import type { UpstreamConfig } from '../contract/config.ts';
import { CONNECTION_HEADERS } from './connection-headers.ts';
import { decisionOf } from './decisive-headers.ts';
import { traceHeaderOf } from './trace-headers.ts';

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

/** The headers that every request to an upstream has, by name. */
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
