import { ProviderError } from '../../identity/provider/provider.ts';
import type { PendingGrant } from '../../identity/sessions/device-grants.ts';
import { newAttempt } from './attempt.ts';
import { signInCookies } from './cookie.ts';
import { readForm, readQuery } from './form.ts';
import { OAuthError, tooManyRequests } from './oauth-error.ts';
import { confirmPage, declinedPage, enterCodePage, errorPage, expiredPage } from './pages/pages.ts';
import { DEVICE_PATH } from './paths.ts';
import { backTo, providerTrouble } from './provider-trouble.ts';
import type { Answer, Route, SignIn, Visit } from './routes.ts';
import { isSameOrigin, isUnseen } from './same-origin.ts';

/** Longer than any way to type a code; what is longer is not repeated on the page. */
const TYPED_CHARS = 40;

/** What people put between the letters of a code, and what programs make of a dash. */
const BETWEEN = /[\s._\p{Pd}\u00ad\u2212]/gu;

/** Whether a text could be a user code, however it is typed. What could not is no guess. */
function isCodeLike(typed: string): boolean {
  return typed.length <= TYPED_CHARS && /^[a-z]{8}$/i.test(typed.replace(BETWEEN, ''));
}

/** Where a person confirms the code of a terminal and leaves for the identity provider (RFC 8628 section 3.3). */
export function device(sign_in: SignIn): Route {
  const { config, identity, clock, origin, form, addressOf } = sign_in;
  const { device_grants, attempts } = identity;
  const login_notice = config.auth?.login_notice;

  /** A code that is no good, on the page where another one can be typed. */
  const askAgain = (status: number, typed: string | undefined, problem: string): Answer => {
    const user_code = typed?.slice(0, TYPED_CHARS);
    return { status, page: enterCodePage({ user_code, problem, login_notice }) };
  };
  const malformed = (typed: string | undefined) => askAgain(400, typed, 'A code has eight letters, such as WDJB-MJHT.');
  const unknown = (typed: string) =>
    askAgain(404, typed, 'This code is not known. It may be mistyped, used already, or older than ten minutes.');

  /** The sign-in of a code that somebody tries. Raises OAuthError when too many came to nothing before. */
  const enter = async (address: string, typed: string | undefined): Promise<PendingGrant | undefined> => {
    const entered = await attempts.enterCode(address, typed);
    if ('grant' in entered) return entered.grant;
    throw tooManyRequests('Too many wrong codes were entered from your address.', entered.retry_after_seconds);
  };

  return {
    path: DEVICE_PATH,
    speaks: 'page',
    told_as: 'gateway.sign_in',
    async get({ req }) {
      const typed = readQuery(req.originalUrl).get('user_code');
      if (typed === undefined) return { status: 200, page: enterCodePage({ login_notice }) };
      if (!isCodeLike(typed)) return malformed(typed);
      if (isUnseen(req.headers)) {
        throw new OAuthError('invalid_request', 'This page cannot be part of another.', { status: 403 });
      }
      const grant = await enter(addressOf(req), typed);
      if (grant === undefined) return unknown(typed);
      return { status: 200, page: confirmPage({ grant, now: new Date(clock.now()), login_notice }) };
    },
    async post(visit) {
      const { req, reference } = visit;
      if (!isSameOrigin(req.headers, origin)) {
        const page = errorPage({
          title: 'This form came from elsewhere',
          sentence: 'The gateway takes this form only from its own page.',
          advice: 'Open the address your terminal shows, and continue from there.',
          reference,
        });
        return { status: 403, page };
      }
      const parameters = await readForm(req, form);
      const action = parameters.get('action') ?? 'approve';
      if (!isAction(action)) {
        throw new OAuthError('invalid_request', 'The parameter "action" must be "approve", "other" or "deny".');
      }
      const typed = parameters.get('user_code');
      if (typed === undefined || !isCodeLike(typed)) return malformed(typed);
      // A person who was refused: as long as the terminal has not heard of it, somebody else may take the sign-in on.
      if (action === 'other') await device_grants.reopen(typed);
      const grant = await enter(addressOf(req), typed);
      if (grant === undefined) return action === 'other' ? tooLate(reference) : unknown(typed);
      if (action !== 'deny') return leave(sign_in, visit, grant, action === 'other');
      const denied = await device_grants.deny(grant.id);
      if (!denied) return { status: 400, page: expiredPage() };
      return { status: 200, page: declinedPage(), told: { outcome: 'declined' } };
    },
  };
}

const isAction = (text: string) => ['approve', 'other', 'deny'].includes(text);

function tooLate(reference: Visit['reference']): Answer {
  const page = errorPage({
    title: 'Your terminal has stopped waiting',
    sentence: 'It was told that the sign-in was refused.',
    advice: 'Start signing in again there. On the page that opens, choose "Use another account".',
    reference,
  });
  return { status: 400, page };
}

/** The address as some type it, with a slash at its end, leads to the page. */
export function deviceWithSlash({ issuer }: SignIn): Route {
  return {
    path: `${DEVICE_PATH}/`,
    speaks: 'page',
    get({ req }) {
      const typed = readQuery(req.originalUrl).get('user_code');
      const query = typed === undefined ? '' : `?user_code=${encodeURIComponent(typed)}`;
      return { status: 308, location: `${issuer}${DEVICE_PATH}${query}` };
    },
  };
}

/** Sends the browser to the identity provider, with a cookie that it must bring back. */
async function leave(sign_in: SignIn, visit: Visit, grant: PendingGrant, other_account: boolean): Promise<Answer> {
  const { provider, device_grants, tokens } = sign_in.identity;
  const attempt = newAttempt(grant);
  let url: URL;
  try {
    url = await provider.authorizationUrl(attempt, { other_account });
  } catch (error) {
    if (error instanceof ProviderError) return providerTrouble(sign_in, visit, backTo(sign_in, grant), error);
    throw error;
  }
  if (!(await device_grants.noteState(grant.id, attempt.state))) return { status: 400, page: expiredPage() };
  const sealed = await tokens.seal(attempt, 'sign-in-attempt');
  const headers = { 'set-cookie': signInCookies(sign_in.issuer).keep(visit.req.headers, attempt.state, sealed) };
  return { status: 303, location: url.href, headers };
}
