import type { Router } from 'express';
import type { BrandingConfig } from '../../../base/contract/config.ts';
import { ProviderError } from '../../../domain/identity/provider/provider.ts';
import type { PendingGrant } from '../../../domain/identity/sessions/device-grants.ts';
import { isCodeLike, TYPED_CHARS } from '../../../domain/identity/sessions/opaque.ts';
import { comeBackToConsole } from './console.ts';
import {
  type BrowserAttempt,
  type FinishedAttempt,
  isSameOrigin,
  newAttempt,
  openAttempt,
  signInCookies,
} from './cookies.ts';
import {
  confirmPage,
  declinedPage,
  enterCodePage,
  errorPage,
  expiredPage,
  signInOffPage,
  successPage,
} from './pages.ts';
import {
  CALLBACK_PATH,
  DEVICE_AUTHORIZATION_PATH,
  DEVICE_GRANT,
  DEVICE_PATH,
  DISCOVERY_PATH,
  PROTOCOL_PATH,
  REFRESH_GRANT,
  REVOCATION_PATH,
  TOKEN_PATH,
} from './paths.ts';
import { backTo, deviceEntrance, deviceOf, providerTrouble, refuseAddress, storeTrouble, whoCame } from './refusals.ts';
import {
  type Answer,
  demandRoom,
  demandSeen,
  logged,
  mountRoutes,
  OAuthError,
  type Route,
  readForm,
  readQuery,
  type SignIn,
  type SignInOptions,
  tooManyRequests,
  type Visit,
} from './routes.ts';

const CACHE_SECONDS = 300;

/** The document that tells programs where to sign in (RFC 8414). It says nothing of the identity provider, and so does not wait for it. */
export function discovery({ issuer }: SignIn): Route {
  const json = {
    issuer,
    device_authorization_endpoint: `${issuer}${DEVICE_AUTHORIZATION_PATH}`,
    token_endpoint: `${issuer}${TOKEN_PATH}`,
    revocation_endpoint: `${issuer}${REVOCATION_PATH}`,
    grant_types_supported: [DEVICE_GRANT, REFRESH_GRANT],
    // There is no authorization endpoint for programs to send a browser to.
    response_types_supported: [],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    service_documentation: `${issuer}${PROTOCOL_PATH}`,
  };
  const headers = { 'cache-control': `public, max-age=${CACHE_SECONDS}` };
  return { path: DISCOVERY_PATH, speaks: 'json', get: () => ({ status: 200, headers, json }) };
}

/**
 * The same document where RFC 8414 (section 3.1) has it for an issuer with a path: before that path, at the root of the
 * host. Most programs look below the issuer, as for OpenID Connect.
 */
export function discoveryAtRoot(sign_in: SignIn): Route[] {
  const { pathname } = new URL(sign_in.issuer);
  // What else a path may hold would mean something to the router.
  if (pathname === '/' || !/^[\w./~-]+$/.test(pathname)) return [];
  return [{ ...discovery(sign_in), path: `${DISCOVERY_PATH}${pathname}` }];
}

/** Begins a sign-in: gives a program a code to wait with, and one for the person to confirm (RFC 8628 section 3.1). */
export function deviceAuthorization(sign_in: SignIn): Route {
  const { config, identity, issuer, form, addressOf } = sign_in;
  const { device_grants, attempts } = identity;
  const login_notice = config.auth?.login_notice;
  return {
    path: DEVICE_AUTHORIZATION_PATH,
    speaks: 'json',
    told_as: 'gateway.sign_in',
    async post({ req }) {
      // No other parameter means anything here, but a form that is none is a client's mistake that it should hear of.
      const surface = (await readForm(req, form)).get('surface');
      demandSeen(req, 'Programs sign in here, not pages of other sites.');
      const address = addressOf(req);
      const limit = await attempts.count('device_authorization', address);
      if (limit !== undefined) {
        const problem = 'Too many sign-ins that nobody finished were begun from your address.';
        throw tooManyRequests(problem, limit.retry_after_seconds);
      }
      const begun = await device_grants.begin(deviceOf(req.headers, address, surface));
      const verification_uri = `${issuer}${DEVICE_PATH}`;
      const json = {
        device_code: begun.device_code,
        user_code: begun.user_code,
        verification_uri,
        verification_uri_complete: `${verification_uri}?user_code=${encodeURIComponent(begun.user_code)}`,
        expires_in: begun.expires_in_seconds,
        interval: begun.interval_seconds,
        login_notice,
      };
      return { status: 200, json, told: { outcome: 'begun' } };
    },
  };
}

/** Where a person confirms the code of a terminal and leaves for the identity provider (RFC 8628 section 3.3). */
export function device(sign_in: SignIn): Route {
  const { config, identity, clock, origin, form, addressOf } = sign_in;
  const { device_grants, attempts } = identity;
  const login_notice = config.auth?.login_notice;

  /** A code that is no good, on the page where another one can be typed. */
  const askAgain = (status: number, typed: string | undefined, problem: string): Answer => {
    // What is longer is not repeated on the page.
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
      demandSeen(req);
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

/** Where the identity provider sends the browser back to: only the browser that left, once, for the sign-in it left for. */
export function callback(sign_in: SignIn): Route {
  const { identity, clock, issuer } = sign_in;
  const cookies = signInCookies(issuer);
  return {
    path: CALLBACK_PATH,
    speaks: 'page',
    told_as: 'gateway.sign_in',
    // It ends a sign-in, which no HEAD may do.
    head: false,
    async get(visit) {
      const state = readQuery(visit.req.originalUrl).get('state');
      const sealed = state && cookies.read(visit.req.headers, state);
      const attempt = sealed && (await openAttempt(sealed, state, identity.tokens, clock.now()));
      if (!state || !attempt) return nothingToFinish(sign_in, visit);
      // The person loads the last page again.
      if ('signed_in' in attempt) return { status: 200, page: successPage(attempt.signed_in) };
      demandRoom(sign_in, visit.req);
      if ('to' in attempt) return comeBackToConsole(sign_in, visit, attempt);
      const grant = await identity.device_grants.takeState(state);
      const answer: Ended =
        grant === undefined || grant.id !== attempt.grant_id ? EXPIRED : await comeBack(sign_in, visit, grant, attempt);
      const { finished, ...shown } = answer;
      const set_cookie =
        finished === undefined
          ? cookies.clear(state)
          : cookies.keep(visit.req.headers, state, await identity.tokens.seal(finished, 'sign-in-attempt'));
      return { ...shown, headers: { ...shown.headers, 'set-cookie': set_cookie } };
    },
  };
}

const EXPIRED: Answer = {
  status: 400,
  page: expiredPage(),
  told: { outcome: 'refused', error_type: 'expired' },
};

/** How a sign-in ended, and what the browser keeps of one that worked. */
type Ended = Answer & { readonly finished?: FinishedAttempt };

function nothingToFinish({ issuer }: Pick<SignIn, 'issuer'>, { reference }: Visit): Answer {
  const page = errorPage({
    title: 'There is no sign-in to finish here',
    sentence: `The one this page belongs to is over, took longer than ten minutes, or began in another browser or at another address than ${issuer}.`,
    advice:
      'Look at your terminal: if it still waits, open the address it shows once more, in this browser; otherwise start signing in again there. Cookies must be allowed for this site.',
    reference,
  });
  return { status: 400, page, told: { outcome: 'refused', error_type: 'unknown' } };
}

/** The end of a sign-in whose state is used up: whatever goes wrong now, the person begins again with the code. */
async function comeBack(sign_in: SignIn, visit: Visit, grant: PendingGrant, attempt: BrowserAttempt): Promise<Ended> {
  const { identity, log } = sign_in;
  const { client, client_address } = grant;
  const entrance = deviceEntrance(sign_in, visit, grant);
  try {
    const came = await whoCame(sign_in, visit, entrance, attempt);
    if ('status' in came) return came;
    const { person } = came;
    const problem = await identity.claimProblem(person);
    if (problem !== undefined) return await refuseAddress(sign_in, visit, entrance, { person, problem });
    const sealed_grant = await identity.tokens.seal(came.grant, 'provider-grant');
    if (!(await identity.device_grants.approve(grant.id, { person, sealed_grant }))) return EXPIRED;
    // Only sign-ins that came to nothing count: any number of people may share an address.
    await identity.attempts.forgive('device_authorization', client_address).catch(() => {});
    log.info({ email: person.email, client, client_address, ...logged(visit) }, 'a sign-in was approved');
    const signed_in = { email: person.email, client };
    const finished = { state: attempt.state, expires_at: attempt.expires_at, signed_in };
    return { status: 200, page: successPage(signed_in), finished, told: { outcome: 'approved' } };
  } catch (error) {
    return storeTrouble(visit, entrance.again, error);
  }
}

/** Answers at the paths of sign-in where no identity provider is configured, and says so. */
export function signInOff(
  options: Pick<SignInOptions, 'clock' | 'log'> & { readonly branding?: BrandingConfig | undefined },
): Router {
  const json = {
    error: 'not_supported',
    error_description:
      'Nobody signs in at this gateway: it has no identity provider (auth.oidc in gateway.yaml). Use an access token, which begins with "gw_".',
  };
  const said: Answer = { status: 404, json };
  const shown: Answer = { status: 404, page: signInOffPage() };
  const silent = [DISCOVERY_PATH, DEVICE_AUTHORIZATION_PATH, TOKEN_PATH, REVOCATION_PATH].map(
    (path): Route => ({ path, speaks: 'json', any: () => said }),
  );
  const seen = [DEVICE_PATH, `${DEVICE_PATH}/`, CALLBACK_PATH].map(
    (path): Route => ({ path, speaks: 'page', any: () => shown }),
  );
  return mountRoutes([...silent, ...seen], options);
}
