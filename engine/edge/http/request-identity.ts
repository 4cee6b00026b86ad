import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { beginTrace, type OwnTrace } from '../../base/kit/net/trace-context.ts';

/** Path of a request target as received, without query. Never decoded or normalised: every component sees the same path. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}

/** First segments of the gateway's own paths. A public prefix that begins with one of them would be ambiguous. */
const OWN_SEGMENTS = /^\/(?:v1|api|admin|console|managed|oauth|device|protocol|healthz|readyz|\.well-known)(?:\/|$)/;

/** Path of the public URL, which a proxy may leave on requests. Empty without one, or where it is ambiguous. */
export function prefixOf(public_url: string): string {
  const prefix = new URL(public_url).pathname.replace(/\/+$/, '');
  return OWN_SEGMENTS.test(prefix) ? '' : prefix;
}

/** A request target without the public prefix, whether or not the proxy stripped it. */
export function belowPrefix(url: string, prefix: string): string {
  if (prefix === '' || !url.startsWith(prefix)) return url;
  const rest = url.slice(prefix.length);
  if (rest.startsWith('/')) return rest;
  return rest === '' || rest.startsWith('?') ? `/${rest}` : url;
}

/** Identity of a request outside the pipelines, for its response, the log and telemetry. */
export interface RequestIdentity {
  readonly request_id: string;
  readonly trace: OwnTrace;
  error?: string | undefined;
  person?: Person | undefined;
}

interface Person {
  readonly id?: string;
  readonly email?: string | undefined;
  readonly groups?: readonly string[];
}

const identities = new WeakMap<ServerResponse, RequestIdentity>();

/** The identity of a request, created once per response. */
export function identityOf(res: ServerResponse): RequestIdentity {
  let identity = identities.get(res);
  if (identity === undefined) {
    identity = { request_id: randomUUID(), trace: beginTrace(res.req?.headers.traceparent) };
    identities.set(res, identity);
  }
  return identity;
}

/** Records the sender of a request, for the stages that run after it. */
export function notePerson(res: ServerResponse | undefined, { id, email, groups }: Person): void {
  if (res !== undefined) identityOf(res).person = { ...(id !== undefined && { id }), email, ...(groups && { groups }) };
}
