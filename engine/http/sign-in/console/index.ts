import { type NextFunction, type Request, type Response, Router } from 'express';
import { StageError } from '../../../contract/errors.ts';
import { issuerOf } from '../../../identity/provider/issuer.ts';
import { jsonText } from '../../../kit/text/printable.ts';
import { REQUEST_ID_HEADER } from '../../../run/headers.ts';
import { CONSOLE_HEADERS } from '../../console/console-headers.ts';
import { pathOf } from '../../path.ts';
import { identityOf } from '../../request-identity.ts';
import { sendError } from '../../send-error.ts';
import { CONSOLE_PATH, CONSOLE_SESSION_PATH, CONSOLE_SIGN_OUT_PATH, CONSOLE_SIGNED_OUT_PATH } from '../paths.ts';
import { mountRoutes } from '../routes.ts';
import type { ConsoleCallerOptions, ConsoleCallers } from './console-caller.ts';
import { consoleLink, consoleLinkOff, consoleWithoutProvider } from './link.ts';
import { signedOut } from './sign-out.ts';
import { createConsoleState } from './state.ts';
import { demandTrusted } from './trusted-request.ts';

/**
 * What a browser asks about its own session of the console.
 *
 * | path                | what happens                                                        |
 * |---------------------|---------------------------------------------------------------------|
 * | /console/sign-in    | goes to the identity provider, which sends back to /oauth/callback  |
 * | /console/link       | opens the console where there is no identity provider               |
 * | /console/session    | tells the console who is signed in                                  |
 * | /console/sign-out   | ends the session                                                    |
 * | /console/signed-out | says so                                                             |
 */
export function consoleSessionRoutes(options: ConsoleCallerOptions, callers: ConsoleCallers): Router {
  const { config, identity, log } = options;
  const issuer = issuerOf(config);
  const { origin } = new URL(issuer);
  const provider = async () => identity?.provider.signOutUrl();
  const pages = [
    signedOut(issuer, provider),
    ...(identity === undefined
      ? [consoleWithoutProvider(), consoleLink(config, callers, log)]
      : [consoleLinkOff(issuer)]),
  ];
  const router = Router({ caseSensitive: true, strict: true });
  router.use(CONSOLE_PATH, (_req, res, next) => {
    res.setHeaders(new Headers(CONSOLE_HEADERS));
    next();
  });
  router.use(
    mountRoutes(pages, { ...options, branding: config.branding, provider_url: config.auth?.oidc?.issuer_url }),
  );
  const tellState = createConsoleState(config, callers);
  serve(router, CONSOLE_SESSION_PATH, 'GET', tellState);
  serve(router, CONSOLE_SIGN_OUT_PATH, 'POST', async (req, res) => {
    // Another site's form comes without the cookie, and the answer would take it away all the same.
    demandTrusted(req, origin);
    // Also where the provider is away, or the session is over already.
    const session = await callers.find(req);
    if (session !== undefined) await callers.sessions.forget(session);
    const person = session?.person;
    if (person !== undefined) await identity?.sessions.end(person.session_id, 'signed out', 'person');
    res.setHeader('set-cookie', callers.cookie.cleared);
    return { location: `${issuer}${CONSOLE_SIGNED_OUT_PATH}` };
  });
  return router;
}

function serve(
  router: Router,
  path: string,
  method: 'GET' | 'POST',
  answer: (req: Request, res: Response) => Promise<object>,
) {
  router.all(path, async (req, res, next) => {
    try {
      if (req.method !== method) {
        const headers = { allow: method };
        throw new StageError('method_not_allowed', `This path takes ${method}, not ${req.method}.`, { headers });
      }
      send(res, await answer(req, res));
    } catch (error) {
      refuse(req, res, error, next);
    }
  });
}

function refuse(req: Request, res: Response, error: unknown, next: NextFunction): void {
  if (!(error instanceof StageError) || error.status >= 500 || res.headersSent) next(error);
  else sendError(res, pathOf(req.originalUrl), error);
}

function send(res: Response, body: object): void {
  const bytes = Buffer.from(jsonText(body));
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'content-length': bytes.length,
    [REQUEST_ID_HEADER]: identityOf(res).request_id,
  };
  res.writeHead(200, headers).end(bytes);
}
