import { askAbout, suspendPerson } from '../../identity/deprovisioning/ask-about.ts';
import {
  type AskingAbout,
  endAsRefused,
  type Rechecked,
  recheckSession,
  type TakenSession,
} from '../../identity/deprovisioning/recheck-session.ts';
import { isRefreshToken } from '../../identity/sessions/opaque.ts';
import type { OpenSession, PresentedToken, RefreshBegun, RefreshedSession } from '../../identity/sessions/sessions.ts';
import { OAuthError, temporarilyUnavailable, tooManyRequests } from './oauth-error.ts';
import { logged, type SignIn, type Visit } from './routes.ts';

/** A session for a device, and how it came by it. */
export interface Opened {
  readonly session: OpenSession;
  readonly outcome: 'began' | 'repeated' | 'renewed';
}

/**
 * Wrong credentials: the program has to forget what it has and sign in anew. Without a challenge, although the status
 * goes with one: OAuth clients take that for all there is to know, and never see that it is invalid_grant.
 */
function signInAgain(message: string, reason: string, cause?: unknown): OAuthError {
  return new OAuthError('invalid_grant', message, { status: 401, cause, reason });
}

/**
 * Renews a session after asking the identity provider whether the person is still to be let in. Raises OAuthError:
 * invalid_grant when the session is over, temporarily_unavailable when nothing is decided and the refresh token is still
 * good. Raises store_unavailable, likewise.
 */
export async function refresh(sign_in: SignIn, refresh_token: string, visit: Visit): Promise<Opened> {
  const { sessions, attempts, tokens } = sign_in.identity;
  if (!isRefreshToken(refresh_token)) throw signInAgain('The refresh token is unknown; sign in again.', 'unknown');
  const presented = { refresh_token, client_address: sign_in.addressOf(visit.req) };
  const asked = await attempts.ask(
    { text: refresh_token, address: presented.client_address, is_ours: tokens.marks.fit(refresh_token) },
    () => sessions.beginRefresh(presented),
    ({ outcome }) => outcome === 'ready' || outcome === 'repeated',
  );
  if ('retry_after_seconds' in asked) {
    const problem = 'Too many requests came to nothing; the refresh token may be good, try it again later.';
    throw tooManyRequests(problem, asked.retry_after_seconds, 'temporarily_unavailable');
  }
  const { answer: begun } = asked;
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
      throw signInAgain('The session is over; sign in again.', 'expired');
    case 'revoked':
      throw signInAgain('The session was ended; sign in again.', 'revoked');
    case 'unknown':
      throw signInAgain('The refresh token is unknown; sign in again.', 'unknown');
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
  return signInAgain(`${problem} If none did, somebody may have a copy of it: sign in again.`, 'replaced');
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
  if (renewed === undefined) throw signInAgain('The session was ended; sign in again.', 'revoked');
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
      return signInAgain('The keys of the gateway were changed; sign in again.', rechecked.outcome);
    case 'other_provider':
      await identity.sessions.end(session.id, 'the identity provider was changed');
      return signInAgain('People sign in at another identity provider now; sign in again.', rechecked.outcome);
    case 'other_identity':
      return signInAgain(
        'Your identity provider describes you differently than when you signed in; sign in again.',
        rechecked.outcome,
      );
    case 'not_admitted':
      return signInAgain(rechecked.message, rechecked.outcome);
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
      return signInAgain(NOT_RENEWED, 'provider_refused', rechecked.error);
    case 'unaskable':
      await endAsRefused(sign_in, session, rechecked.error);
      return signInAgain(NOT_RENEWED, 'provider_unaskable', rechecked.error);
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
