import type { GatewayConfig } from '../../../contract/config.ts';
import { StageError } from '../../../contract/errors.ts';
import type { Log } from '../../../contract/services.ts';
import { issuerOf } from '../../../identity/provider/issuer.ts';
import { readQuery } from '../form.ts';
import { errorPage } from '../pages/pages.ts';
import { CONSOLE_LINK_PATH, CONSOLE_PATH, CONSOLE_SIGN_IN_PATH } from '../paths.ts';
import { type Answer, logged, type Route } from '../routes.ts';
import { isUnseen } from '../same-origin.ts';
import type { ConsoleCallers } from './console-caller.ts';
import { demandLocal } from './local-request.ts';

const HOW = 'On the machine of the gateway, run "appscli console": it prints a link that opens the console.';

/** Opens the console by a link that a command printed, where there is no identity provider; once, and on its machine only. */
export function consoleLink(
  config: GatewayConfig,
  { cookie, sessions }: Pick<ConsoleCallers, 'cookie' | 'sessions'>,
  log: Log,
): Route {
  const issuer = issuerOf(config);
  return {
    path: CONSOLE_LINK_PATH,
    speaks: 'page',
    head: false,
    async get(visit) {
      const { req, reference } = visit;
      const no = (status: number, sentence: string, advice = HOW): Answer => ({
        status,
        page: errorPage({ title: 'This link does not open the console', sentence, advice, reference }),
      });
      if (isUnseen(req.headers)) return no(403, 'It cannot be part of another page.');
      try {
        demandLocal(req, config);
      } catch (error) {
        if (error instanceof StageError)
          return no(403, error.message, 'The link is still good for the rest of its minute.');
        throw error;
      }
      const opened = await sessions.openLink(readQuery(req.originalUrl).get('once') ?? '');
      if (opened === undefined) return no(404, 'It was used before, or is older than a minute.');
      log.info({ operator: opened.operator, ...logged(visit) }, 'a session of the console began, by a link');
      const headers = { 'set-cookie': cookie.keep(opened.cookie) };
      return { status: 303, location: `${issuer}${CONSOLE_PATH}`, headers };
    },
  };
}

/** What is said where somebody wants to sign in and nobody can. */
export function consoleWithoutProvider(): Route {
  const page = errorPage({
    title: 'Open the console with a link',
    sentence: 'This gateway has no identity provider, so nobody signs in here.',
    advice: HOW,
  });
  return { path: CONSOLE_SIGN_IN_PATH, speaks: 'page', any: () => ({ status: 404, page }) };
}

/** What is said of a link where people sign in. */
export function consoleLinkOff(issuer: string): Route {
  const page = errorPage({
    title: 'People sign in here',
    sentence: 'Links of "appscli console" are for gateways without an identity provider.',
    advice: 'Sign in with the account you have at work.',
    again: { href: `${issuer}${CONSOLE_SIGN_IN_PATH}`, label: 'Sign in' },
  });
  return { path: CONSOLE_LINK_PATH, speaks: 'page', any: () => ({ status: 404, page }) };
}
