import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { beginTrace, type OwnTrace } from '../../base/kit/net/trace-context.ts';

/** The path of a request target as received, without its query; never decoded or normalised, so that it means one thing. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}

/** First segments of what the gateway serves itself. A prefix that begins like one of them cannot be distinguished. */
const OWN_SEGMENTS = /^\/(?:v1|api|admin|console|managed|oauth|device|protocol|healthz|readyz|\.well-known)(?:\/|$)/;

/**
 * The path of the public URL, without a slash at its end, by which requests are known that come through a proxy that
 * leaves it on; empty where there is none, or where only a proxy that takes it away can be meant.
 */
export function prefixOf(public_url: string): string {
  const prefix = new URL(public_url).pathname.replace(/\/+$/, '');
  return OWN_SEGMENTS.test(prefix) ? '' : prefix;
}

/** A request target without the path of the public URL, whether the proxy has taken it away or not. */
export function belowPrefix(url: string, prefix: string): string {
  if (prefix === '' || !url.startsWith(prefix)) return url;
  const rest = url.slice(prefix.length);
  if (rest.startsWith('/')) return rest;
  return rest === '' || rest.startsWith('?') ? `/${rest}` : url;
}

/** What a request that no pipeline takes is found by: in its answer, in the log, in telemetry. */
export interface RequestIdentity {
  readonly request_id: string;
  readonly trace: OwnTrace;
  /** How it ended, where it did not go well. */
  error?: string | undefined;
  /** Who sent it, where that came to light. */
  person?: Person | undefined;
}

/** Somebody whom a request that no pipeline takes is about. */
interface Person {
  readonly id?: string;
  readonly email?: string | undefined;
  readonly groups?: readonly string[];
}

const identities = new WeakMap<ServerResponse, RequestIdentity>();

/** The identity of a request, by its response; the same whenever it is asked for. */
export function identityOf(res: ServerResponse): RequestIdentity {
  let identity = identities.get(res);
  if (identity === undefined) {
    identity = { request_id: randomUUID(), trace: beginTrace(res.req?.headers.traceparent) };
    identities.set(res, identity);
  }
  return identity;
}

/** Notes whom a request turned out to be about, for the stages that run after it. */
export function notePerson(res: ServerResponse | undefined, { id, email, groups }: Person): void {
  if (res !== undefined) identityOf(res).person = { ...(id !== undefined && { id }), email, ...(groups && { groups }) };
}
