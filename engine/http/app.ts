import express, { type Express } from 'express';
import { StageError } from '../errors.ts';
import type { Plan } from '../run/plan.ts';
import { pathOf } from './path.ts';
import { sendError } from './send-error.ts';

/** The express application behind the pipelines: it serves every request that no pipeline takes. */
export function createApp(plan: () => Plan): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.use((req, res) => {
    const path = pathOf(req.originalUrl);
    const methods = plan().pipelinesAt(path);
    if (methods === undefined) {
      const problem = 'There is nothing at this path. Model requests go to POST /v1/messages.';
      sendError(res, path, new StageError('path_not_found', problem));
      return;
    }
    const allow = [...methods.keys()].join(', ');
    const problem = `This path takes ${allow}, not ${req.method}.`;
    sendError(res, path, new StageError('method_not_allowed', problem, { headers: { allow } }));
  });
  return app;
}
