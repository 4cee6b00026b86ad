import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { beginTrace, type OwnTrace } from '../kit/net/trace-context.ts';

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
export interface Person {
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
