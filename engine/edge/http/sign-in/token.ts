import {
  type AskingAbout,
  askAbout,
  endAsRefused,
  type Rechecked,
  recheckSession,
  suspendPerson,
  type TakenSession,
} from '../../../domain/identity/deprovisioning/recheck-session.ts';
import type { PollResult } from '../../../domain/identity/sessions/device-grants.ts';
import { isRefreshToken, isSecret } from '../../../domain/identity/sessions/opaque.ts';
import type {
  OpenSession,
  PresentedToken,
  RefreshBegun,
  RefreshedSession,
} from '../../../domain/identity/sessions/sessions.ts';
import { endTokensTheyLost } from '../../../domain/identity/tokens/tokens.ts';
import { notePerson } from '../request-identity.ts';
import { DEVICE_GRANT, REFRESH_GRANT, REVOCATION_PATH, TOKEN_PATH } from './paths.ts';
import {
  type Answer,
  logged,
  OAuthError,
  type OAuthErrorCode,
  type Route,
  readForm,
  type SignIn,
  temporarilyUnavailable,
  tooManyRequests,
  type Visit,
} from './routes.ts';

/** A session for a device, and how it came by it. */
interface Opened {
  readonly session: OpenSession;
  readonly outcome: 'began' | 'repeated' | 'renewed';
}

/**
 * Wrong credentials: the program has to forget what it has and sign in anew. Without a challenge, although the status
 * goes with one: OAuth clients take that for all there is to know, and never see that it is invalid_grant.
 */
function notRenewable(message: string, reason: string, cause?: unknown): OAuthError {
  return new OAuthError('invalid_grant', message, { status: 401, cause, reason });
}

/** Has the database asked about a credential. Raises OAuthError where too many came to nothing. */
async function ask<Answer>(
  { identity: { attempts, tokens }, addressOf }: SignIn,
  { req }: Visit,
  text: string,
  how: {
    ask(): Promise<Answer>;
    isGood(answer: Answer): boolean;
    readonly is_ours?: boolean;
    readonly advice: string;
    readonly error?: 'slow_down';
  },
): Promise<Answer> {
  const credential = { text, address: addressOf(req), is_ours: how.is_ours || tokens.marks.fit(text) };
  const asked = await attempts.ask(credential, how.ask, how.isGood);
  if ('answer' in asked) return asked.answer;
  const { advice, error = 'temporarily_unavailable' } = how;
  throw tooManyRequests(`Too many requests came to nothing; ${advice}`, asked.retry_after_seconds, error);
}

/**
 * Renews a session after asking the identity provider whether the person is still to be let in. Raises OAuthError:
 * invalid_grant when the session is over, temporarily_unavailable when nothing is decided and the refresh token is still
 * good. Raises store_unavailable, likewise.
 */
async function refresh(sign_in: SignIn, refresh_token: string, visit: Visit): Promise<Opened> {
  const { sessions } = sign_in.identity;
  if (!isRefreshToken(refresh_token)) throw notRenewable('The refresh token is unknown; sign in again.', 'unknown');
  const presented = { refresh_token, client_address: sign_in.addressOf(visit.req) };
  const begun = await ask(sign_in, visit, refresh_token, {
    ask: () => sessions.beginRefresh(presented),
    isGood: ({ outcome }) => outcome === 'ready' || outcome === 'repeated',
    advice: 'the refresh token may be good, try it again later.',
  });
  switch (begun.outcome) {
    case 'ready':
      break;
    case 'busy':
      throw temporarilyUnavailable('This session is just being renewed by another request; use what that one gets.', {
        reason: 'busy',
      });
    case 'repeated':
      return { session: begun.session, outcome: 'repeated' };
    case 'replaced':
      throw refuseReplaced(sign_in, begun, presented, visit);
    case 'expired':
      throw notRenewable('The session is over; sign in again.', 'expired');
    case 'revoked':
      throw notRenewable('The session was ended; sign in again.', 'revoked');
    case 'unknown':
      throw notRenewable('The refresh token is unknown; sign in again.', 'unknown');
  }
  return { session: await renew(sign_in, begun.session, presented, visit), outcome: 'renewed' };
}

/**
 * Somebody has the newer token: another process of the same installation, which has stored it by now, or whoever copied this
 * one. The session is left alone; ended, it would be for the one that did nothing wrong as well. The first time it is not said for
 * good: a Messages client whose token has expired looks for what others stored when it may try again, and gives up otherwise.
 */
function refuseReplaced(
  { log }: SignIn,
  { is_first, session: { id, person } }: Extract<RefreshBegun, { outcome: 'replaced' }>,
  { client_address }: PresentedToken,
  visit: Visit,
): OAuthError {
  const fields = { email: person.email, session: id, client_address, ...logged(visit) };
  log.info(fields, 'a refresh token was refused: it was replaced before, and what replaced it is in use');
  const problem =
    'This refresh token was replaced by one that is in use. Read the stored credentials again, another process may have renewed them.';
  if (is_first) return temporarilyUnavailable(problem, { reason: 'replaced' });
  return notRenewable(`${problem} If none did, somebody may have a copy of it: sign in again.`, 'replaced');
}

async function renew(
  sign_in: SignIn,
  session: TakenSession,
  presented: PresentedToken,
  visit: Visit,
): Promise<OpenSession> {
  const { identity, log } = sign_in;
  const { client_address } = presented;
  const { req, reference } = visit;
  const { request_id } = reference;
  const occasion = { when: 'when a session was to be renewed', request: { client_address, request_id } };
  const rechecked = await recheckSession(sign_in, session, occasion);
  if (rechecked.outcome !== 'stays') throw await notRenewed(sign_in, session, rechecked, visit);
  const { person, sealed_grant } = rechecked;
  if (!req.socket.writable) {
    // The client gave up waiting: a new refresh token would reach nobody.
    await identity.sessions.abandonRefresh(session.id, sealed_grant);
    throw temporarilyUnavailable('The client is gone; the refresh token it has is still good.', { reason: 'gone' });
  }
  const renewed = await finish(sign_in, session, { ...presented, person, sealed_grant });
  if (renewed === undefined) throw notRenewable('The session was ended; sign in again.', 'revoked');
  log.debug({ email: person.email, session: session.id, ...logged(visit) }, 'a session was renewed');
  return renewed;
}

/** What the client is told of a session that was not renewed, after what is still to be done about it. */
async function notRenewed(
  sign_in: SignIn,
  session: TakenSession,
  rechecked: Exclude<Rechecked, { outcome: 'stays' }>,
  visit: Visit,
): Promise<OAuthError> {
  const { identity, log } = sign_in;
  switch (rechecked.outcome) {
    case 'unreadable':
      // Nothing ends: the key may come back, as after an update that went wrong.
      return notRenewable('The keys of the gateway were changed; sign in again.', rechecked.outcome);
    case 'other_provider':
      await identity.sessions.end(session.id, 'the identity provider was changed');
      return notRenewable('People sign in at another identity provider now; sign in again.', rechecked.outcome);
    case 'other_identity':
      return notRenewable(
        'Your identity provider describes you differently than when you signed in; sign in again.',
        rechecked.outcome,
      );
    case 'not_admitted':
      return notRenewable(rechecked.message, rechecked.outcome);
    case 'unavailable': {
      const { error } = rechecked;
      const fields = { reason: error.message, session: session.id, ...logged(visit) };
      if (error.problem === 'unavailable') {
        log.warn(fields, 'the identity provider is not available: a session was not renewed');
      } else {
        log.error(fields, 'the identity provider gave no usable answer: a session was not renewed');
      }
      const reason = `provider_${error.problem}`;
      const more = { cause: error, retry_after_seconds: 5, reason };
      return temporarilyUnavailable('The identity provider gives no usable answer at the moment; try again.', more);
    }
    case 'refused':
      await suspendUnlessVerified(sign_in, session);
      return notRenewable(NOT_RENEWED, 'provider_refused', rechecked.error);
    case 'unaskable':
      await endAsRefused(sign_in, session, rechecked.error);
      return notRenewable(NOT_RENEWED, 'provider_unaskable', rechecked.error);
  }
}

const NOT_RENEWED = 'The identity provider did not renew your sign-in; sign in again.';

async function finish({ identity }: SignIn, { id }: TakenSession, refreshed: RefreshedSession) {
  try {
    return await identity.sessions.finishRefresh(id, refreshed);
  } catch (error) {
    // The provider may have replaced what was kept; its new one is tried to be kept with the claim given back.
    await identity.sessions.abandonRefresh(id, refreshed.sealed_grant).catch(() => {});
    throw error;
  }
}

/** Suspends what somebody made when the provider refused one of their sessions, unless it verifies them by another. */
export async function suspendUnlessVerified(
  sign_in: AskingAbout,
  { person: { email } }: Pick<TakenSession, 'person'>,
): Promise<void> {
  const answer = await askAbout(sign_in, email);
  if (answer === 'verified' || answer === 'not_admitted') return;
  await suspendPerson(sign_in, email, 'the identity provider refused to renew the sign-in');
}

/** Gives session tokens to devices whose sign-in is approved, and renews them (RFC 8628 section 3.4, RFC 6749 section 6). */
export function token(sign_in: SignIn): Route {
  const { form } = sign_in;
  return {
    path: TOKEN_PATH,
    speaks: 'json',
    told_as: 'gateway.session',
    async post(visit) {
      const parameters = await readForm(visit.req, form);
      const grant_type = parameters.need('grant_type');
      if (grant_type === DEVICE_GRANT) {
        return answer(sign_in, await redeem(sign_in, parameters.need('device_code'), visit), visit);
      }
      if (grant_type === REFRESH_GRANT) {
        return answer(sign_in, await refresh(sign_in, parameters.need('refresh_token'), visit), visit);
      }
      const problem = `The parameter "grant_type" must be "${DEVICE_GRANT}" or "${REFRESH_GRANT}".`;
      throw new OAuthError('unsupported_grant_type', problem);
    },
  };
}

type Unfinished = Exclude<PollResult['outcome'], 'signed_in' | 'repeated' | 'denied'>;

const UNFINISHED: Readonly<Record<Unfinished, readonly [OAuthErrorCode, string]>> = {
  pending: ['authorization_pending', 'Nobody has confirmed the code yet; ask again after the interval.'],
  slow_down: ['slow_down', 'You ask too often; add five seconds to the interval.'],
  expired: ['expired_token', 'Nobody confirmed the code in time; begin the sign-in again.'],
  unknown: ['invalid_grant', 'The device code is unknown or was used before; begin the sign-in again.'],
  used: [
    'invalid_grant',
    'The device code was used before, so the session that it began is over; begin the sign-in again.',
  ],
};

async function redeem(sign_in: SignIn, text: string, visit: Visit): Promise<Opened> {
  const { identity, log, addressOf } = sign_in;
  const { req } = visit;
  if (!isSecret(text)) throw unfinished('unknown');
  const result = await ask(sign_in, visit, text, {
    ask: () => identity.device_grants.poll(text),
    isGood: ({ outcome }) => outcome === 'signed_in' || outcome === 'repeated' || outcome === 'pending',
    advice: 'ask less often.',
    error: 'slow_down',
  });
  if (result.outcome === 'denied') throw denied(result);
  if (result.outcome === 'used' && result.ended) {
    const fields = { session: result.session_id, client_address: addressOf(req), ...logged(visit) };
    log.warn(fields, 'a device code was used again, so the session that it began was ended');
  }
  if (result.outcome !== 'signed_in' && result.outcome !== 'repeated') {
    throw unfinished(result.outcome);
  }
  const { outcome, session } = result;
  const fields = { email: session.person.email, session: session.id, ...logged(visit) };
  if (outcome === 'signed_in') log.info(fields, 'a session began');
  else log.info(fields, 'a device that asked again was given its session again');
  return { session, outcome: outcome === 'signed_in' ? 'began' : 'repeated' };
}

function unfinished(outcome: Unfinished): OAuthError {
  return new OAuthError(...UNFINISHED[outcome], { reason: outcome });
}

/** Programs that have a sentence of their own for access_denied, and show ours for any other error. */
const SENTENCE_OF_THEIR_OWN = /^claude_code/;

function denied({ because, surface }: Extract<PollResult, { outcome: 'denied' }>): OAuthError {
  if (because === undefined) return new OAuthError('access_denied', 'The person declined it in the browser.');
  if (surface === undefined || !SENTENCE_OF_THEIR_OWN.test(surface)) return new OAuthError('access_denied', because);
  return new OAuthError('invalid_grant', because, { status: 403 });
}

async function answer(sign_in: SignIn, { session, outcome }: Opened, { req }: Visit): Promise<Answer> {
  const { identity } = sign_in;
  notePerson(req.res, session.person);
  await endTokensTheyLost(sign_in, session.person);
  const { access_token, expires_in_seconds } = await identity.tokens.issue(session);
  const json = {
    access_token,
    token_type: 'Bearer',
    expires_in: expires_in_seconds,
    refresh_token: session.refresh_token,
    email: session.person.email,
  };
  return { status: 200, json, told: { outcome } };
}

/** Session tokens carry everything that is known of a person, so that they may be long. */
const MAX_BYTES = 65_536;

/** Ends the session of a session token or refresh token (RFC 7009); a token that means nothing is as good as revoked. */
export function revoke(sign_in: SignIn): Route {
  const { identity, form, log } = sign_in;
  const { tokens, sessions } = identity;
  /** Ends the session of a token; no session token that another key signed gets as far as the database. */
  const end = async (text: string, visit: Visit) => {
    const signed = text.includes('.') ? await tokens.sessionOf(text) : undefined;
    if (signed === undefined && !isRefreshToken(text)) return undefined;
    return ask(sign_in, visit, text, {
      is_ours: signed !== undefined,
      ask: async () => {
        const session = signed ?? (await sessions.sessionOf(text));
        return session !== undefined && (await sessions.end(session, 'signed out', 'person')) ? session : undefined;
      },
      isGood: (session) => session !== undefined,
      advice: 'sign out again later.',
    });
  };
  return {
    path: REVOCATION_PATH,
    speaks: 'json',
    told_as: 'gateway.session',
    async post(visit) {
      const { req } = visit;
      const token = (await readForm(req, { ...form, max_bytes: MAX_BYTES })).need('token');
      if (token.startsWith('gw_')) {
        const problem =
          'An access token is not signed out here: revoke it with "appscli tokens revoke" or ask your administrator.';
        throw new OAuthError('unsupported_token_type', problem);
      }
      const session = await end(token, visit);
      if (session === undefined) return { status: 200, json: {} };
      log.info({ session, ...logged(visit) }, 'somebody signed out');
      return { status: 200, json: {}, told: { outcome: 'ended' } };
    },
  };
}
