import type { Router } from 'express';
import type { BrandingConfig } from '../../../base/contract/config.ts';
import { newSignInAttempt, ProviderError } from '../../../domain/identity/provider/provider.ts';
import type { PendingGrant } from '../../../domain/identity/sessions/device-grants.ts';
import { isCodeLike, TYPED_CHARS } from '../../../domain/identity/sessions/secrets.ts';
import { finishConsoleSignIn } from './console.ts';
import { type BrowserAttempt, type FinishedAttempt, isSameOrigin, openAttempt, signInCookies } from './cookies.ts';
import { OAuthError, readForm, readQuery, rejectCrossSiteEmbed, requireRequestRate, tooManyRequests } from './forms.ts';
import { confirmPage, declinedPage, enterCodePage, expiredPage, signInOffPage, successPage } from './pages.ts';
import { DEVICE_GRANT, PATHS, REFRESH_GRANT } from './paths.ts';
import {
  backTo,
  deviceFlow,
  deviceOf,
  identifyPerson,
  providerFailure,
  rejectAddress,
  storeFailure,
} from './refusals.ts';
import {
  type Answer,
  errorAnswer,
  logged,
  mountRoutes,
  type Route,
  type SignIn,
  type SignInOptions,
  type Visit,
} from './routes.ts';

const CACHE_SECONDS = 300;

/**
 * OAuth server metadata (RFC 8414). Does not depend on the identity provider. For an issuer with a path, the metadata is also at the
 * location of section 3.1: at the root of the host, before that path.
 */
export function discovery({ issuer }: SignIn): Route {
  const json = {
    issuer,
    device_authorization_endpoint: `${issuer}${PATHS.device_authorization}`,
    token_endpoint: `${issuer}${PATHS.token}`,
    revocation_endpoint: `${issuer}${PATHS.revocation}`,
    grant_types_supported: [DEVICE_GRANT, REFRESH_GRANT],
    response_types_supported: [],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    service_documentation: `${issuer}${PATHS.protocol}`,
  };
  const headers = { 'cache-control': `public, max-age=${CACHE_SECONDS}` };
  const { pathname } = new URL(issuer);
  // Other characters have a meaning in router patterns.
  const at_root = pathname !== '/' && /^[\w./~-]+$/.test(pathname) ? [`${PATHS.discovery}${pathname}`] : [];
  return { path: [PATHS.discovery, ...at_root], speaks: 'json', get: () => ({ status: 200, headers, json }) };
}

/** Begins a sign-in: issues a device code to the program and a user code for the person (RFC 8628 section 3.1). */
export function deviceAuthorization(sign_in: SignIn): Route {
  const { config, identity, issuer, form, addressOf } = sign_in;
  const { device_grants, attempts } = identity;
  const login_notice = config.auth?.login_notice;
  return {
    path: PATHS.device_authorization,
    speaks: 'json',
    operation: 'gateway.sign_in',
    async post({ req }) {
      // Other parameters are ignored, but an invalid form is an error of the client.
      const surface = (await readForm(req, form)).get('surface');
      rejectCrossSiteEmbed(req, 'This endpoint is for programs, not for pages of other sites.');
      const address = addressOf(req);
      const limit = await attempts.count('device_authorization', address);
      if (limit !== undefined) {
        const problem = 'Too many unfinished sign-ins from your address.';
        throw tooManyRequests(problem, limit.retry_after_seconds);
      }
      const begun = await device_grants.begin(deviceOf(req.headers, address, surface));
      const verification_uri = `${issuer}${PATHS.device}`;
      const json = {
        device_code: begun.device_code,
        user_code: begun.user_code,
        verification_uri,
        verification_uri_complete: `${verification_uri}?user_code=${encodeURIComponent(begun.user_code)}`,
        expires_in: begun.expires_in_seconds,
        interval: begun.interval_seconds,
        login_notice,
      };
      return { status: 200, json, result: { outcome: 'begun' } };
    },
  };
}

/** Verification page: the person confirms the user code and goes to the identity provider (RFC 8628 section 3.3). */
export function device(sign_in: SignIn): Route {
  const { config, identity, clock, origin, form, addressOf } = sign_in;
  const { device_grants, attempts } = identity;
  const login_notice = config.auth?.login_notice;

  const formWithError = (status: number, typed: string | undefined, problem: string): Answer => {
    // Truncated: the page never repeats a longer text.
    const user_code = typed?.slice(0, TYPED_CHARS);
    return { status, page: enterCodePage({ user_code, problem, login_notice }) };
  };
  const malformed = (typed: string | undefined) =>
    formWithError(400, typed, 'A code has eight letters, such as WDJB-MJHT.');
  const unknown = (typed: string) =>
    formWithError(404, typed, 'Unknown code. It may be mistyped, already used, or older than ten minutes.');

  const enter = async (address: string, typed: string | undefined): Promise<PendingGrant | undefined> => {
    const entered = await attempts.enterCode(address, typed);
    if ('grant' in entered) return entered.grant;
    throw tooManyRequests('Too many wrong codes from your address.', entered.retry_after_seconds);
  };

  return {
    path: PATHS.device,
    speaks: 'page',
    operation: 'gateway.sign_in',
    async get({ req }) {
      const typed = readQuery(req.originalUrl).get('user_code');
      if (typed === undefined) return { status: 200, page: enterCodePage({ login_notice }) };
      if (!isCodeLike(typed)) return malformed(typed);
      rejectCrossSiteEmbed(req);
      const grant = await enter(addressOf(req), typed);
      if (grant === undefined) return unknown(typed);
      return { status: 200, page: confirmPage({ grant, now: new Date(clock.now()), login_notice }) };
    },
    async post(visit) {
      const { req } = visit;
      if (!isSameOrigin(req.headers, origin)) {
        return errorAnswer(visit, 403, {
          title: 'This form came from another site',
          sentence: 'The gateway accepts this form only from its own page.',
          advice: 'Open the address your terminal shows, and continue from there.',
        });
      }
      const parameters = await readForm(req, form);
      const action = parameters.get('action') ?? 'approve';
      if (!isAction(action)) {
        throw new OAuthError('invalid_request', 'The parameter "action" must be "approve", "other" or "deny".');
      }
      const typed = parameters.get('user_code');
      if (typed === undefined || !isCodeLike(typed)) return malformed(typed);
      // After a rejection, another account may continue the sign-in until the terminal has polled the result.
      if (action === 'other') await device_grants.reopen(typed);
      const grant = await enter(addressOf(req), typed);
      if (grant === undefined) return action === 'other' ? errorAnswer(visit, 400, TOO_LATE) : unknown(typed);
      if (action !== 'deny') return redirectToProvider(sign_in, visit, grant, action === 'other');
      const denied = await device_grants.deny(grant.id);
      if (!denied) return { status: 400, page: expiredPage() };
      return { status: 200, page: declinedPage(), result: { outcome: 'declined' } };
    },
  };
}

const isAction = (text: string) => ['approve', 'other', 'deny'].includes(text);

const TOO_LATE = {
  title: 'Your terminal has stopped waiting',
  sentence: 'Your terminal has already reported that the sign-in was rejected.',
  advice: 'Start signing in again there. On the page that opens, choose "Use another account".',
};

/** Redirects the address with a trailing slash to the page. */
export function deviceWithSlash({ issuer }: SignIn): Route {
  return {
    path: `${PATHS.device}/`,
    speaks: 'page',
    get({ req }) {
      const typed = readQuery(req.originalUrl).get('user_code');
      const query = typed === undefined ? '' : `?user_code=${encodeURIComponent(typed)}`;
      return { status: 308, location: `${issuer}${PATHS.device}${query}` };
    },
  };
}

async function redirectToProvider(
  sign_in: SignIn,
  visit: Visit,
  grant: PendingGrant,
  other_account: boolean,
): Promise<Answer> {
  const { provider, device_grants, tokens } = sign_in.identity;
  const attempt = { ...newSignInAttempt(), grant_id: grant.id, expires_at: grant.expires_at.getTime() };
  let url: URL;
  try {
    url = await provider.authorizationUrl(attempt, { other_account });
  } catch (error) {
    if (error instanceof ProviderError) return providerFailure(sign_in, visit, backTo(sign_in, grant), error);
    throw error;
  }
  if (!(await device_grants.noteState(grant.id, attempt.state))) return { status: 400, page: expiredPage() };
  const sealed = await tokens.seal(attempt, 'sign-in-attempt');
  const headers = { 'set-cookie': signInCookies(sign_in.issuer).keep(visit.req.headers, attempt.state, sealed) };
  return { status: 303, location: url.href, headers };
}

/** Redirect URI of the identity provider: completes a sign-in once, only in the browser that began it. */
export function callback(sign_in: SignIn): Route {
  const { identity, clock, issuer } = sign_in;
  const cookies = signInCookies(issuer);
  return {
    path: PATHS.callback,
    speaks: 'page',
    operation: 'gateway.sign_in',
    // A HEAD request must not complete a sign-in.
    head: false,
    async get(visit) {
      const state = readQuery(visit.req.originalUrl).get('state');
      const sealed = state && cookies.read(visit.req.headers, state);
      const attempt = sealed && (await openAttempt(sealed, state, identity.tokens, clock.now()));
      if (!state || !attempt) return nothingToFinish(sign_in, visit);
      // The person reloads the last page.
      if ('signed_in' in attempt) return { status: 200, page: successPage(attempt.signed_in) };
      requireRequestRate(sign_in, visit.req);
      const answer =
        'to' in attempt
          ? await finishConsoleSignIn(sign_in, visit, attempt)
          : await finishDeviceSignIn(sign_in, visit, attempt);
      return { ...answer, headers: { 'set-cookie': cookies.clear(state), ...answer.headers } };
    },
  };
}

const EXPIRED: Answer = {
  status: 400,
  page: expiredPage(),
  result: { outcome: 'refused', error_type: 'expired' },
};

function nothingToFinish({ issuer }: Pick<SignIn, 'issuer'>, visit: Visit): Answer {
  const texts = {
    title: 'There is no sign-in to finish here',
    sentence: `The sign-in is over, took longer than ten minutes, or began in another browser or at another address than ${issuer}.`,
    advice:
      'If your terminal still waits, open the address it shows again, in this browser. Otherwise start the sign-in again there. Cookies must be allowed for this site.',
  };
  return errorAnswer(visit, 400, texts, { outcome: 'refused', error_type: 'unknown' });
}

/** Completes a device sign-in. Its state is used up: after a failure the person begins again with the code. */
async function finishDeviceSignIn(sign_in: SignIn, visit: Visit, attempt: BrowserAttempt): Promise<Answer> {
  const { identity, log } = sign_in;
  const { state, grant_id, expires_at } = attempt;
  const grant = await identity.device_grants.takeState(state);
  if (grant === undefined || grant.id !== grant_id) return EXPIRED;
  const { client, client_address } = grant;
  const flow = deviceFlow(sign_in, visit, grant);
  try {
    const identified = await identifyPerson(sign_in, visit, flow, attempt);
    if ('status' in identified) return identified;
    const { person } = identified;
    const problem = await identity.claimProblem(person);
    if (problem !== undefined) return await rejectAddress(sign_in, visit, flow, { person, problem });
    const sealed_grant = await identity.tokens.seal(identified.grant, 'provider-grant');
    if (!(await identity.device_grants.approve(grant.id, { person, sealed_grant }))) return EXPIRED;
    // Only unfinished sign-ins count against the limit: many people may share an address.
    await identity.attempts.forgive('device_authorization', client_address).catch(() => {});
    log.info({ email: person.email, client, client_address, ...logged(visit) }, 'a sign-in was approved');
    const signed_in = { email: person.email, client };
    const finished: FinishedAttempt = { state, expires_at, signed_in };
    const sealed = await identity.tokens.seal(finished, 'sign-in-attempt');
    const headers = { 'set-cookie': signInCookies(sign_in.issuer).keep(visit.req.headers, state, sealed) };
    return { status: 200, headers, page: successPage(signed_in), result: { outcome: 'approved' } };
  } catch (error) {
    return storeFailure(visit, flow.again, error);
  }
}

/** Routes of sign-in for a gateway without an identity provider: 404 with the reason. */
export function signInOff(
  options: Pick<SignInOptions, 'clock' | 'log'> & { readonly branding?: BrandingConfig | undefined },
): Router {
  const json = {
    error: 'not_supported',
    error_description:
      'Sign-in is off: this gateway has no identity provider (auth.oidc in gateway.yaml). Use an access token, which begins with "gw_".',
  };
  const page = signInOffPage();
  return mountRoutes(
    [
      {
        path: [PATHS.discovery, PATHS.device_authorization, PATHS.token, PATHS.revocation],
        speaks: 'json',
        any: () => ({ status: 404, json }),
      },
      { path: [PATHS.device, `${PATHS.device}/`, PATHS.callback], speaks: 'page', any: () => ({ status: 404, page }) },
    ],
    options,
  );
}
