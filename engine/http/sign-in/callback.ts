import { type Identified, ProviderError, type SignInAttempt } from '../../identity/provider/provider.ts';
import type { PendingGrant } from '../../identity/sessions/device-grants.ts';
import { isUnavailable } from '../../store/store-errors.ts';
import { notePerson } from '../request-identity.ts';
import { type BrowserAttempt, type FinishedAttempt, openAttempt } from './attempt.ts';
import { comeBackToConsole } from './console/come-back.ts';
import { signInCookies } from './cookie.ts';
import { readQuery } from './form.ts';
import { tooManyRequests } from './oauth-error.ts';
import { errorPage, expiredPage, successPage } from './pages/pages.ts';
import { CALLBACK_PATH } from './paths.ts';
import { backTo, providerTrouble } from './provider-trouble.ts';
import { deviceEntrance, endRefused, refuseAddress, refusePerson } from './refusals.ts';
import { type Answer, logged, type Route, type SignIn, type Visit } from './routes.ts';

/** Where the identity provider sends the browser back to: only the browser that left, once, for the sign-in it left for. */
export function callback(sign_in: SignIn): Route {
  const { identity, clock, issuer, addressOf } = sign_in;
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
      const limit = identity.attempts.request(addressOf(visit.req));
      if (limit !== undefined) {
        throw tooManyRequests('Too many requests came from your address.', limit.retry_after_seconds);
      }
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
  try {
    const identified = await identify(sign_in, visit, attempt);
    return identified instanceof ProviderError
      ? await turnAway(sign_in, visit, grant, identified)
      : await decide(sign_in, visit, grant, identified, attempt);
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    const page = errorPage({
      title: 'Not available at the moment',
      sentence: error.message,
      advice: 'Wait a moment, then try again. The code in your terminal is still good.',
      again: backTo(sign_in, grant),
      reference: visit.reference,
    });
    const told = { outcome: 'failed', error_type: 'store_unavailable' } as const;
    return { status: 503, page, headers: { 'retry-after': '1' }, told };
  }
}

/** Asks the identity provider who came back. The URL is made of the public one, whatever the request says its host is. */
export async function identify(
  { issuer, identity }: Pick<SignIn, 'issuer' | 'identity'>,
  { req }: Visit,
  attempt: SignInAttempt,
): Promise<Identified | ProviderError> {
  const url = new URL(`${issuer}${CALLBACK_PATH}`);
  url.search = req.originalUrl.slice(req.originalUrl.indexOf('?'));
  try {
    return await identity.provider.identify(url, attempt);
  } catch (error) {
    if (error instanceof ProviderError) return error;
    throw error;
  }
}

/** Where the identity provider names nobody. Only its no to the person ends the sign-in. */
async function turnAway(sign_in: SignIn, visit: Visit, grant: PendingGrant, error: ProviderError): Promise<Answer> {
  if (error.problem !== 'refused') return providerTrouble(sign_in, visit, backTo(sign_in, grant), error);
  const fields = { reason: error.message, client: grant.client, ...logged(visit) };
  sign_in.log.info(fields, 'the identity provider refused a sign-in');
  const message = 'You cancelled signing in, or your identity provider does not let you use the gateway.';
  return endRefused(sign_in, visit, grant, { message, reason: 'provider_refused' });
}

async function decide(
  sign_in: SignIn,
  visit: Visit,
  grant: PendingGrant,
  { claims, grant: provider_grant, scopes }: Identified,
  { state, expires_at }: BrowserAttempt,
): Promise<Ended> {
  const { identity, log } = sign_in;
  const { client } = grant;
  const admission = identity.admit(claims, scopes);
  notePerson(visit.req.res, claims);
  const entrance = deviceEntrance(sign_in, visit, grant);
  if ('refused' in admission) return refusePerson(sign_in, visit, entrance, { claims, admission });
  const { person } = admission;
  notePerson(visit.req.res, person);
  const problem = await identity.claimProblem(person);
  if (problem !== undefined) return refuseAddress(sign_in, visit, entrance, { person, problem });
  const sealed_grant = await identity.tokens.seal(provider_grant, 'provider-grant');
  const approved = await identity.device_grants.approve(grant.id, { person, sealed_grant });
  if (!approved) return EXPIRED;
  // Only sign-ins that came to nothing count: any number of people may share an address.
  await identity.attempts.forgive('device_authorization', grant.client_address).catch(() => {});
  const fields = { email: person.email, client, client_address: grant.client_address, ...logged(visit) };
  log.info(fields, 'a sign-in was approved');
  const signed_in = { email: person.email, client };
  const finished = { state, expires_at, signed_in };
  return { status: 200, page: successPage(signed_in), finished, told: { outcome: 'approved' } };
}
