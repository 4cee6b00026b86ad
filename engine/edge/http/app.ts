import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import express, { type NextFunction, type Request, type Response, type Router } from 'express';
import { LRUCache } from 'lru-cache';
import { StageError } from '../../base/contract/errors.ts';
import { COUNT_PATH, PROTOCOL_PATHS } from '../../base/contract/protocol.ts';
import type { AuditRecord, Log, Principal } from '../../base/contract/services.ts';
import { NO_TELEMETRY, type Telemetry } from '../../base/contract/telemetry.ts';
import { atMost } from '../../base/kit/memory.ts';
import { verifyCaller } from '../../base/kit/net/credentials.ts';
import { listed } from '../../base/kit/text/suggest.ts';
import { createRateLimit } from '../../domain/identity/sessions/attempt-limits.ts';
import type { Plan } from '../../pipeline/run/plan.ts';
import { createOriginReader } from './client.ts';
import { identityOf, notePerson, pathOf } from './request-identity.ts';
import { methodNotAllowed, sendError } from './send-error.ts';

type Served = Pick<Plan, 'pipelinesAt'>;

const PATHS = Object.values(PROTOCOL_PATHS);
const ENDS = [...PATHS, COUNT_PATH, '/v1/models'];

const BASE_URLS = 'Messages clients use the root of the gateway as base URL; other clients use the root with /v1.';

function whyUnserved(plan: Served, path: string, method: string): StageError {
  const methods = plan.pipelinesAt(path);
  if (methods === undefined) {
    const isServed = (other: string) => plan.pipelinesAt(other) !== undefined;
    return new StageError('path_not_found', describeWrongPath(path, isServed));
  }
  return methodNotAllowed({ method }, [...methods.keys()].join(', '));
}

function describeWrongPath(path: string, isServed: (path: string) => boolean): string {
  const typed = path
    .toLowerCase()
    .replace(/\/{2,}/g, '/')
    .replace(/\/$/, '');
  const meant = ENDS.find((end) => typed.endsWith(end.slice('/v1'.length)) && isServed(end));
  if (meant !== undefined) return `Path not found; did you mean ${meant}? ${BASE_URLS}`;
  const served = PATHS.filter(isServed);
  const where = served.length === 0 ? '' : ` Model requests go to POST ${listed(served)}.`;
  if (!typed.startsWith('/v1/')) return `Path not found.${where}`;
  return `This gateway does not serve this API; an administrator can add a pipeline with the stage route-to.${where}`;
}

/** Audit records per caller and minute; the next record has the number of omitted ones. */
const RECORDS_PER_MINUTE = 60;
const MAX_CALLERS = 20_000;

/** Longest wait of the response for the caller's identity; the record is written even if it takes longer. */
const CALLER_TIMEOUT_MS = 250;

const PATH_LENGTH_MAX = 200;

/**
 * Makes the function that writes an audit record for a request outside the pipelines with a valid credential. Telemetry counts
 * requests without one: anyone can send any number of them.
 */
export function createUnservedRecords({ config, services, other_requests }: Plan) {
  const { audit, clock, tokens } = services;
  const origin = createOriginReader(config.server);
  const records = createRateLimit({ clock, most: RECORDS_PER_MINUTE, window_seconds: 60 });
  const omitted = new LRUCache<string, number>(atMost(MAX_CALLERS));
  const is_audited = other_requests?.finally.some(({ definition }) => definition.name === 'audit') ?? false;

  async function callerOf({ headers }: IncomingMessage): Promise<Principal | undefined> {
    try {
      return await verifyCaller(headers, (token) => tokens.verify(token));
    } catch {
      // An invalid credential or an outage of the store does not change the response.
      return undefined;
    }
  }

  function record(caller: Principal | undefined, res: ServerResponse, request: Partial<AuditRecord>): void {
    if (caller === undefined) return;
    notePerson(res, caller);
    if (is_audited) return;
    const omitted_before = omitted.get(caller.id) ?? 0;
    if (records.take(caller.id) !== undefined) return void omitted.set(caller.id, omitted_before + 1);
    omitted.delete(caller.id);
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
      ...(omitted_before > 0 && { omitted: omitted_before }),
    });
  }

  return async (req: IncomingMessage, res: ServerResponse, path: string, error: StageError): Promise<void> => {
    // Read the request now: it may be over once the caller is known.
    const request = {
      method: req.method!,
      path: path.slice(0, PATH_LENGTH_MAX),
      status: error.status,
      error: error.code,
      address: origin.address(req.socket.remoteAddress, req.headers),
    };
    const recorded = callerOf(req).then((caller) => record(caller, res, request));
    const timeout = Promise.withResolvers<void>();
    const timer = clock.after(CALLER_TIMEOUT_MS, timeout.resolve);
    await Promise.race([recorded, timeout.promise]).finally(() => timer.close());
  };
}

/** A plan with the Express application for requests outside its pipelines. */
export interface ServedPlan extends Plan {
  readonly app: RequestListener;
}

/** Adds the Express application to a plan: the given routes, in order, and an error for other requests. */
export function servePlan(
  plan: Plan,
  log: Log,
  routes: readonly Router[] = [],
  telemetry: Pick<Telemetry, 'requestRejected'> = NO_TELEMETRY,
): ServedPlan {
  const reject = (res: Response, path: string, error: StageError) => {
    sendError(res, path, error);
    telemetry.requestRejected(error.status, error.code);
  };
  const app = express();
  app.disable('x-powered-by').disable('etag');
  for (const route of routes) app.use(route);
  const recordUnserved = createUnservedRecords(plan);
  app.use(async (req: Request, res: Response) => {
    const path = pathOf(req.originalUrl);
    const error = whyUnserved(plan, path, req.method);
    await recordUnserved(req, res, path, error);
    reject(res, path, error);
  });
  app.use((error: unknown, req: Request, res: Response, _next: NextFunction) => {
    const path = pathOf(req.originalUrl);
    const { request_id, trace } = identityOf(res);
    const problem = asStageError(error);
    if (problem.status >= 500)
      log.error({ err: error, method: req.method, path, request_id, trace_id: trace.trace_id }, 'a request failed');
    if (res.headersSent) res.destroy();
    else reject(res, path, problem);
  });
  return { ...plan, app };
}

function asStageError(error: unknown): StageError {
  if (error instanceof StageError) return error;
  const { status } = error as { status?: unknown };
  if (status === 400) return new StageError('bad_http', 'The percent-encoding of the path is malformed.');
  return new StageError('internal_error', 'Internal error; see the log of the gateway.', { cause: error });
}
