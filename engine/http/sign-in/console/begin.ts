import { ProviderError } from '../../../identity/provider/provider.ts';
import { isLoopbackUrl } from '../../../kit/net/addresses.ts';
import { prefixOf } from '../../path.ts';
import { newConsoleAttempt } from '../attempt.ts';
import { signInCookies } from '../cookie.ts';
import { readQuery } from '../form.ts';
import { OAuthError, tooManyRequests } from '../oauth-error.ts';
import { errorPage } from '../pages/pages.ts';
import { CONSOLE_SIGN_IN_PATH } from '../paths.ts';
import { providerTrouble, type WayBack } from '../provider-trouble.ts';
import type { Answer, Route, SignIn, Visit } from '../routes.ts';
import { isUnseen } from '../same-origin.ts';
import { cameByOtherName } from './local-request.ts';
import { wantedPage } from './wanted-page.ts';

/** The link that begins signing in to a page of the console. */
export function signInAgain({ issuer }: Pick<SignIn, 'issuer'>, to: string, other_account = false): WayBack {
  const href = `${issuer}${CONSOLE_SIGN_IN_PATH}?back_to=${encodeURIComponent(to)}`;
  return other_account ? { href: `${href}&other=1`, label: 'Sign in as somebody else' } : { href, label: 'Try again' };
}

/** Sends the browser to the identity provider, from where it comes back to the page of the console that was wanted (`back_to`). */
export function beginConsole(sign_in: SignIn): Route {
  const { identity, clock, issuer, addressOf } = sign_in;
  const cookies = signInCookies(issuer);
  const prefix = prefixOf(issuer);
  const isExposed = !issuer.startsWith('https:') && !isLoopbackUrl(issuer);
  return {
    path: CONSOLE_SIGN_IN_PATH,
    speaks: 'page',
    told_as: 'gateway.sign_in',
    head: false,
    async get(visit) {
      const { req } = visit;
      if (isUnseen(req.headers)) {
        throw new OAuthError('invalid_request', 'This page cannot be part of another.', { status: 403 });
      }
      const limit = identity.attempts.request(addressOf(req));
      if (limit !== undefined) {
        throw tooManyRequests('Too many requests came from your address.', limit.retry_after_seconds);
      }
      if (isExposed) return overHttp(visit);
      const query = readQuery(req.originalUrl);
      const to = wantedPage(query.get('back_to'), prefix);
      // At most once: who followed a link of the console, or this redirect, is at the public URL whatever Host says.
      if (query.get('at') !== 'public_url' && cameByOtherName(req, issuer)) {
        return { status: 303, location: `${signInAgain(sign_in, to).href}&at=public_url` };
      }
      const attempt = newConsoleAttempt(to, clock.now());
      try {
        const url = await identity.provider.authorizationUrl(attempt, { other_account: query.get('other') === '1' });
        const sealed = await identity.tokens.seal(attempt, 'sign-in-attempt');
        const headers = { 'set-cookie': cookies.keep(req.headers, attempt.state, sealed) };
        return { status: 303, location: url.href, headers, told: { outcome: 'begun' } };
      } catch (error) {
        if (error instanceof ProviderError) return providerTrouble(sign_in, visit, signInAgain(sign_in, to), error);
        throw error;
      }
    },
  };
}

/** The same for the address with a slash at its end, as some proxies write it. */
export function beginConsoleWithSlash(sign_in: SignIn): Route {
  return { ...beginConsole(sign_in), path: `${CONSOLE_SIGN_IN_PATH}/` };
}

/** Whoever reads along on the way could use the cookie. */
function overHttp({ reference }: Visit): Answer {
  const page = errorPage({
    title: 'The console needs https',
    sentence: 'This gateway is served over http, where others on the network could take over your session.',
    advice: 'Tell your administrator: server.public_url in gateway.yaml must begin with https, or be on this machine.',
    reference,
  });
  return { status: 403, page, told: { outcome: 'refused', error_type: 'http' } };
}
