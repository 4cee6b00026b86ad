import type { IncomingMessage, ServerResponse } from 'node:http';
import type { StageError } from '../contract/errors.ts';
import type { AuditRecord, Principal } from '../contract/services.ts';
import { verifyCaller } from '../kit/net/credentials.ts';
import type { Plan } from '../run/plan.ts';
import { createOriginReader } from './forwarded.ts';
import { identityOf, notePerson } from './request-identity.ts';

/** Records of one caller within a minute; what comes beyond them is counted, and told in the next one. */
const RECORDS_PER_MINUTE = 60;
const MINUTE_MS = 60_000;

/** How long an answer waits until it is known whom it is for; what is known later is still recorded. */
const CALLER_MS = 250;

/** Longest path that is kept: it is whatever the client sent. */
const PATH_LENGTH_MAX = 200;

/** Makes what says how many records of a caller were left out since the last one; `undefined` where this one is, too. */
function createBound(now: () => number): (principal: string) => number | undefined {
  let minute = 0;
  let written = new Map<string, number>();
  const omitted = new Map<string, number>();
  return (principal) => {
    const current = Math.floor(now() / MINUTE_MS);
    if (current !== minute) {
      minute = current;
      written = new Map();
    }
    const count = (written.get(principal) ?? 0) + 1;
    written.set(principal, count);
    if (count > RECORDS_PER_MINUTE) {
      omitted.set(principal, (omitted.get(principal) ?? 0) + 1);
      return undefined;
    }
    const before = omitted.get(principal) ?? 0;
    omitted.delete(principal);
    return before;
  };
}

/**
 * Makes what leaves an audit record of a request that no pipeline takes, where its credential is one of somebody. Requests of
 * nobody are only counted, in telemetry: anybody can send as many as they like, and nothing could have come of them.
 */
export function createUnservedRecords({ config, services, other_requests }: Plan) {
  const { audit, clock, tokens } = services;
  const origin = createOriginReader(config.server);
  const omittedBefore = createBound(() => clock.now());
  const is_audited = other_requests?.finally.some(({ definition }) => definition.name === 'audit') ?? false;

  async function callerOf({ headers }: IncomingMessage): Promise<Principal | undefined> {
    try {
      return await verifyCaller(headers, (token) => tokens.verify(token));
    } catch {
      // Whoever it is, and whether the store can tell: the answer is the same.
      return undefined;
    }
  }

  function record(caller: Principal | undefined, res: ServerResponse, request: Partial<AuditRecord>): void {
    if (caller === undefined) return;
    notePerson(res, caller);
    if (is_audited) return;
    const omitted = omittedBefore(caller.id);
    if (omitted === undefined) return;
    const { request_id, trace } = identityOf(res);
    audit.write({
      at: new Date(clock.now()).toISOString(),
      request_id,
      trace_id: trace.trace_id,
      user: caller.email,
      principal: caller.id,
      token_id: caller.token.id,
      team: caller.team ?? null,
      project: caller.project ?? null,
      protocol: 'none',
      ...request,
      model: null,
      upstream: null,
      aborted: false,
      groups: caller.groups,
      token_name: caller.token.name,
      token_group: caller.token.group,
      ...(omitted > 0 && { omitted }),
    });
  }

  return async (req: IncomingMessage, res: ServerResponse, path: string, error: StageError): Promise<void> => {
    // All that is read of the request is read now: when the caller is known, it may be over.
    const request = {
      method: req.method!,
      path: path.slice(0, PATH_LENGTH_MAX),
      status: error.status,
      error: error.code,
      address: origin.address(req.socket.remoteAddress, req.headers),
    };
    const recorded = callerOf(req).then((caller) => record(caller, res, request));
    const patience = Promise.withResolvers<void>();
    const timer = clock.after(CALLER_MS, patience.resolve);
    await Promise.race([recorded, patience.promise]).finally(() => timer.close());
  };
}
