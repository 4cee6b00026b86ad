import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type NextFunction, type Request, type Response, Router } from 'express';
import { StageError } from '../../contract/errors.ts';
import { TokenError } from '../../identity/tokens/tokens.ts';
import { createServiceTokenVerifier } from '../../identity/tokens/verify-service-token.ts';
import { PACKAGE_ROOT, programVersion } from '../../kit/package-root.ts';
import { jsonText } from '../../kit/text/printable.ts';
import { LimitError } from '../../money/limits/limit-names.ts';
import { REQUEST_ID_HEADER } from '../../run/headers.ts';
import { pathOf } from '../path.ts';
import { sendError } from '../send-error.ts';
import { demandScope, identifyCaller, withoutLostGroups } from './caller.ts';
import { changeRoutes } from './changes.ts';
import { limitRoutes } from './limits.ts';
import { meRoutes } from './me.ts';
import { peopleRoutes } from './people.ts';
import { refusedSignInRoutes } from './refused-sign-ins.ts';
import { type AdminAnswer, type AdminOptions, type AdminRoute, createCalls } from './route.ts';
import { serviceTokenRoutes } from './service-tokens.ts';
import { sessionRoutes } from './sessions.ts';
import { tokenRoutes } from './tokens.ts';

export type { AdminOptions } from './route.ts';

/** Where everything of the admin API is. */
export const ADMIN_API_PATH = '/admin/api';
/** The description of the admin API, which anybody may read. */
export const ADMIN_API_DESCRIPTION = `${ADMIN_API_PATH}/openapi.json`;

/** Every operation of the admin API that asks for a session token. */
export function adminOperations(options: AdminOptions): AdminRoute[] {
  return [
    meRoutes,
    tokenRoutes,
    sessionRoutes,
    peopleRoutes,
    refusedSignInRoutes,
    limitRoutes,
    changeRoutes,
    serviceTokenRoutes,
  ].flatMap((routes) => routes(options));
}

/**
 * The admin API of one configuration: JSON for people who signed in, described by `schemas/admin-api.openapi.json`.
 * Bearer credentials alone open it, so that no other site's page can use it.
 */
export function adminRoutes(options: AdminOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const callOf = createCalls(options);
  const verifying = { verify: options.verify, verifyService: createServiceTokenVerifier(options) };
  const methods = new Map<string, string[]>();
  const note = (path: string, method: string) => methods.set(path, [...(methods.get(path) ?? []), method]);

  const description = describe(options.config.server.public_url);
  note(ADMIN_API_DESCRIPTION, 'GET');
  router.get(ADMIN_API_DESCRIPTION, (_req, res) => send(res, { body: description }));
  for (const { method, path, scope, told_in, answer } of adminOperations(options)) {
    const pattern = path.replace(/\{(\w+)\}/g, ':$1');
    note(pattern, method);
    const verb = method.toLowerCase() as 'get' | 'post' | 'put' | 'delete';
    router[verb](pattern, async (req, res) => {
      const caller = await identifyCaller(req.headers, verifying);
      demandScope(caller, scope);
      const call = callOf(req, method === 'GET' ? caller : await withoutLostGroups(caller, options));
      if (method !== 'GET' && told_in !== 'query') call.query();
      const answered = await answer(call);
      if (method !== 'GET') await catchUp(options);
      send(res, answered);
    });
  }
  for (const [pattern, allowed] of methods) {
    router.all(pattern, (req) => {
      const allow = allowed.map((method) => (method === 'GET' ? 'GET, HEAD' : method)).join(', ');
      throw new StageError('method_not_allowed', `This path takes ${allow}, not ${req.method}.`, {
        headers: { allow },
      });
    });
  }
  router.use(ADMIN_API_PATH, () => {
    throw new StageError(
      'path_not_found',
      `There is nothing at this path; GET ${ADMIN_API_DESCRIPTION} describes what there is.`,
    );
  });
  router.use(ADMIN_API_PATH, (error: unknown, req: Request, res: Response, next: NextFunction) => {
    const problem = asStageError(error);
    // Trouble of the gateway's own belongs in its log as well.
    if (!(problem instanceof StageError) || problem.status >= 500 || res.headersSent) next(problem);
    else sendError(res, pathOf(req.originalUrl), problem);
  });
  return router;
}

/** What was changed is changed, and what was made is shown this once, whatever comes of this. */
async function catchUp({ catchUp, log }: AdminOptions): Promise<void> {
  try {
    await catchUp();
  } catch (error) {
    log.warn({ err: error }, 'a change was made, and takes a moment longer to be noticed here');
  }
}

function describe(public_url: string): object {
  const document = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'schemas/admin-api.openapi.json'), 'utf8'));
  const info = { ...document.info, version: programVersion() };
  return { ...document, info, servers: [{ url: public_url.replace(/\/+$/, '') }] };
}

function send(res: Response, { status = 200, headers = {}, body }: AdminAnswer): void {
  const bytes = Buffer.from(jsonText(body));
  res
    .writeHead(status, {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'content-length': bytes.length,
      [REQUEST_ID_HEADER]: randomUUID(),
      ...headers,
    })
    .end(bytes);
}

const CODE = { invalid: 'invalid_request', missing: 'not_found', conflict: 'conflict', limit: 'conflict' } as const;

function asStageError(error: unknown): unknown {
  if (error instanceof TokenError || error instanceof LimitError) {
    const sentence = `${error.message[0]!.toUpperCase()}${error.message.slice(1)}.`;
    return new StageError(CODE[error.problem], sentence);
  }
  // Express marks a path it can't decode so.
  const { status } = error as { status?: unknown };
  if (error instanceof StageError || status !== 400) return error;
  return new StageError('bad_http', 'The path cannot be read: its percent-encoding is malformed.');
}
