import type { RequestListener } from 'node:http';
import express, { type NextFunction, type Request, type Response, type Router } from 'express';
import { StageError } from '../contract/errors.ts';
import type { Log } from '../contract/services.ts';
import { NO_TELEMETRY, type Telemetry } from '../contract/telemetry.ts';
import { listed } from '../kit/text/suggest.ts';
import { DEFINITIONS } from '../protocols/definitions.ts';
import type { Plan } from '../run/plan.ts';
import { pathOf } from './path.ts';
import { identityOf } from './request-identity.ts';
import { sendError } from './send-error.ts';

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
  app.use((req: Request, res: Response) => {
    const path = pathOf(req.originalUrl);
    const methods = plan.pipelinesAt(path);
    if (methods === undefined) {
      const problem = describeWrongPath(path, (other) => plan.pipelinesAt(other) !== undefined);
      reject(res, path, new StageError('path_not_found', problem));
      return;
    }
    const allow = [...methods.keys()].join(', ');
    const problem = `This path takes ${allow}, not ${req.method}.`;
    reject(res, path, new StageError('method_not_allowed', problem, { headers: { allow } }));
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

/** Paths that clients ask for below their base URL. */
const PATHS = Object.values(DEFINITIONS).map(({ path }) => path);
const ENDS = [...PATHS, '/v1/messages/count_tokens', '/v1/models'];

const BASE_URLS = 'The base URL of a Messages client is the root of the gateway, that of other clients ends in /v1.';

/** What to say about a path that nothing serves: the one that was meant, where a wrong base URL or a typing error shows. */
function describeWrongPath(path: string, isServed: (path: string) => boolean): string {
  const typed = path
    .toLowerCase()
    .replace(/\/{2,}/g, '/')
    .replace(/\/$/, '');
  const meant = ENDS.find((end) => typed.endsWith(end.slice('/v1'.length)) && isServed(end));
  if (meant !== undefined) return `There is nothing at this path; did you mean ${meant}? ${BASE_URLS}`;
  const served = PATHS.filter(isServed);
  const where = served.length === 0 ? '' : ` Model requests go to POST ${listed(served)}.`;
  return `There is nothing at this path.${where}`;
}
