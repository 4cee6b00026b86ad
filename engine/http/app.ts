import type { RequestListener } from 'node:http';
import express, { type NextFunction, type Request, type Response, type Router } from 'express';
import { StageError } from '../contract/errors.ts';
import type { Log } from '../contract/services.ts';
import { NO_TELEMETRY, type Telemetry } from '../contract/telemetry.ts';
import type { Plan } from '../run/plan.ts';
import { pathOf } from './path.ts';
import { identityOf } from './request-identity.ts';
import { sendError } from './send-error.ts';
import { createUnservedRecords } from './unserved-records.ts';
import { whyUnserved } from './why-unserved.ts';

/** A plan together with what serves the requests that none of its pipelines takes. */
export interface ServedPlan extends Plan {
  readonly app: RequestListener;
}

/** Puts the express application behind the pipelines of a plan: the given routes, in order, and an error for the rest. */
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
    log.error({ err: error, method: req.method, path, request_id, trace_id: trace.trace_id }, 'a request failed');
    if (res.headersSent) res.destroy();
    else reject(res, path, asStageError(error));
  });
  return { ...plan, app };
}

/** Express marks what is the client's fault, such as a path that can't be decoded, by a status. */
function asStageError(error: unknown): StageError {
  if (error instanceof StageError) return error;
  const { status } = error as { status?: unknown };
  if (status === 400) return new StageError('bad_http', 'The request cannot be read: its path or body is malformed.');
  return new StageError('internal_error', 'The gateway failed; its log says why.', { cause: error });
}
