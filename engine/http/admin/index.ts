import { type NextFunction, type Request, type Response, Router } from 'express';
import type { AdminOptions } from '../../admin/asked.ts';
import {
  ADMIN_API_DESCRIPTION,
  ADMIN_API_DOCUMENT,
  ADMIN_API_PATH,
  ADMIN_OPERATIONS,
  type DescribedOperation,
} from '../../admin/description.ts';
import type { Download } from '../../admin/download.ts';
import { createRunOperation, demandRole } from '../../admin/operations.ts';
import { asStageError } from '../../admin/problem.ts';
import type { LiveFeed } from '../../admin/requests/live-feed.ts';
import { StageError } from '../../contract/errors.ts';
import type { BearerTokens, Log } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';
import { createServiceTokenVerifier } from '../../identity/tokens/verify-service-token.ts';
import { programVersion } from '../../kit/package-root.ts';
import { jsonText } from '../../kit/text/printable.ts';
import { REQUEST_ID_HEADER } from '../../run/headers.ts';
import { pathOf } from '../path.ts';
import { identityOf, notePerson, type RequestIdentity } from '../request-identity.ts';
import { sendError } from '../send-error.ts';
import type { ConsoleCallers } from '../sign-in/console/console-caller.ts';
import { createReadCall } from './call.ts';
import { demandScope, demandStillThere, identifyCaller, withoutLostGroups } from './caller.ts';
import { sendDownload } from './send-download.ts';
import { sendFeed } from './send-feed.ts';
import { beginChange } from './tell-change.ts';

const FEED = 'text/event-stream';

/** What the admin API is served with. */
export interface AdminRoutesOptions extends AdminOptions {
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'operation'>;
  readonly verify: BearerTokens['verify'];
  /** Who asks by the cookie of a browser; absent: nobody does. */
  readonly console?: Pick<ConsoleCallers, 'concerns' | 'identify' | 'cookie' | 'sessions'>;
  /** Resolves when this process goes by what was changed. */
  catchUp(): Promise<void>;
}

/**
 * The admin API of one configuration: JSON for people who signed in, as `schemas/admin-api.openapi.json` describes it.
 * Bearer credentials open it, and the cookie of the console where the console itself sends it: no other site's page can use it.
 */
export function adminRoutes(options: AdminRoutesOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const methods = new Map<string, string[]>();
  const note = (path: string, method: string) => methods.set(path, [...(methods.get(path) ?? []), method]);

  const description = describe(options.config.server.public_url);
  note(ADMIN_API_DESCRIPTION, 'GET');
  router.get(ADMIN_API_DESCRIPTION, (_req, res) => send(res, 200, description));
  const answer = createAnswer(options);
  for (const operation of ADMIN_OPERATIONS.values()) {
    const pattern = operation.path.replace(/\{(\w+)\}/g, ':$1');
    note(pattern, operation.method);
    const verb = operation.method.toLowerCase() as 'get' | 'post' | 'put' | 'delete';
    router[verb](pattern, (req, res) => answer(operation, req, res));
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
    const problem = isMalformedPath(error)
      ? new StageError('bad_http', 'The path cannot be read: its percent-encoding is malformed.')
      : asStageError(error);
    // Trouble of the gateway's own belongs in its log as well.
    if (!(problem instanceof StageError) || problem.status >= 500 || res.headersSent) next(problem);
    else sendError(res, pathOf(req.originalUrl), problem);
  });
  return router;
}

/** Makes the function that answers a request for an operation. */
function createAnswer(options: AdminRoutesOptions) {
  const read = createReadCall(options.config, options.clock);
  const run = createRunOperation(options);
  const verifying = { ...options, verifyService: createServiceTokenVerifier(options) };
  return async (operation: DescribedOperation, req: Request, res: Response) => {
    const changes = operation.method !== 'GET';
    const change = changes ? beginChange(operation, identityOf(res), options) : undefined;
    try {
      const identified = await identifyCaller(req, res, verifying);
      change?.isBy(identified);
      notePerson(res, identified.principal);
      demandScope(operation, identified);
      const caller = changes ? await withoutLostGroups(identified, options) : identified;
      demandRole(operation, caller);
      const answered = await run(operation, caller, await read(req, operation, caller.principal.id));
      if (operation.file_type === FEED) {
        const mayGoOn = () => demandStillThere(req, res, verifying, caller);
        await sendFeed(res, answered as LiveFeed, { headers: fixedHeaders(res, FEED), mayGoOn });
        return;
      }
      if (operation.file_type !== undefined) {
        await sendDownload(res, answered as Download, fixedHeaders(res, `${operation.file_type}; charset=utf-8`));
        return;
      }
      const made = (answered as { readonly id?: string }).id;
      change?.tell({ subject: made });
      if (changes) await catchUp(options, identityOf(res));
      const collection = operation.path.replace(/\/\{id\}.*/, '');
      send(res, operation.status, answered, operation.has_location ? { location: `${collection}/${made}` } : {});
    } catch (error) {
      change?.tell({ error });
      throw error;
    }
  };
}

/** What was changed is changed, and what was made is shown this once, whatever comes of this. */
async function catchUp({ catchUp, log }: AdminRoutesOptions, { request_id, trace }: RequestIdentity): Promise<void> {
  try {
    await catchUp();
  } catch (error) {
    const fields = { err: error, request_id, trace_id: trace.trace_id };
    log.warn(fields, 'a change was made, and takes a moment longer to be noticed here');
  }
}

function describe(public_url: string): object {
  const info = { ...ADMIN_API_DOCUMENT.info, version: programVersion() };
  return { ...ADMIN_API_DOCUMENT, info, servers: [{ url: public_url.replace(/\/+$/, '') }] };
}

function send(res: Response, status: number, body: object, headers: Readonly<Record<string, string>> = {}): void {
  const bytes = Buffer.from(jsonText(body));
  res
    .writeHead(status, {
      ...fixedHeaders(res, 'application/json'),
      'content-length': bytes.length,
      ...headers,
    })
    .end(bytes);
}

function fixedHeaders(res: Response, type: string) {
  return {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    [REQUEST_ID_HEADER]: identityOf(res).request_id,
  };
}

/** Express marks a path it can't decode so. */
function isMalformedPath(error: unknown): boolean {
  return !(error instanceof StageError) && (error as { readonly status?: unknown } | null)?.status === 400;
}
