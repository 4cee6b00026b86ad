import { askAbout, deprovisionAsRefused, suspendPerson } from '../../identity/deprovisioning/ask-about.ts';
import type { Person } from '../../identity/provider/admit.ts';
import { type Identified, ProviderError, type ProviderGrant } from '../../identity/provider/provider.ts';
import { isRefreshToken } from '../../identity/sessions/opaque.ts';
import type { OpenSession, PresentedToken, RefreshBegun, Sessions } from '../../identity/sessions/sessions.ts';
import { OAuthError, temporarilyUnavailable, tooManyRequests } from './oauth-error.ts';
import type { SignIn, Visit } from './routes.ts';

type Begun = Extract<RefreshBegun, { outcome: 'ready' }>['session'];

/**
 * Wrong credentials: the program has to forget what it has and sign in anew. Without a challenge, although the status
 * goes with one: OAuth clients take that for all there is to know, and never see that it is invalid_grant.
 */
function signInAgain(message: string, cause?: unknown): OAuthError {
  return new OAuthError('invalid_grant', message, { status: 401, cause });
}

/**
 * Renews a session after asking the identity provider whether the person is still to be let in. Raises OAuthError:
 * invalid_grant when the session is over, temporarily_unavailable when nothing is decided and the refresh token is still
 * good. Raises store_unavailable, likewise.
 */
export async function refresh(sign_in: SignIn, refresh_token: string, visit: Visit): Promise<OpenSession> {
  const { sessions, attempts, tokens } = sign_in.identity;
  const { request_id } = visit.reference;
  if (!isRefreshToken(refresh_token)) throw signInAgain('The refresh token is unknown; sign in again.');
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
      throw temporarilyUnavailable('This session is just being renewed by another request; use what that one gets.');
    case 'repeated':
      return begun.session;
    case 'replaced':
      throw refuseReplaced(sign_in, begun, presented, request_id);
    case 'expired':
      throw signInAgain('The session is over; sign in again.');
    case 'revoked':
      throw signInAgain('The session was ended; sign in again.');
    case 'unknown':
      throw signInAgain('The refresh token is unknown; sign in again.');
  }
  const { session } = begun;
  try {
    return await renew(sign_in, session, presented, visit);
  } catch (error) {
    if (error instanceof OAuthError) throw error;
    await giveBack(sign_in, session, error);
    if (!(error instanceof ProviderError)) throw error;
    const fields = { reason: error.message, session: session.id, request_id };
    if (error.problem === 'unavailable') {
      sign_in.log.warn(fields, 'the identity provider is not available: a session was not renewed');
    } else {
      sign_in.log.error(fields, 'the identity provider gave no usable answer: a session was not renewed');
    }
    throw temporarilyUnavailable('The identity provider gives no usable answer at the moment; try again.', error, 5);
  }
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
  request_id: string,
): OAuthError {
  const fields = { email: person.email, session: id, client_address, request_id };
  log.info(fields, 'a refresh token was refused: it was replaced before, and what replaced it is in use');
  const problem =
    'This refresh token was replaced by one that is in use. Read the stored credentials again, another process may have renewed them.';
  if (is_first) return temporarilyUnavailable(problem);
  return signInAgain(`${problem} If none did, somebody may have a copy of it: sign in again.`);
}

/** Nothing was decided: the same refresh token must be good for another try, whatever became of this one. */
async function giveBack({ identity }: SignIn, { id }: Begun, error: unknown): Promise<void> {
  const grant = error instanceof ProviderError ? error.grant : undefined;
  try {
    const sealed_grant = grant && (await identity.tokens.seal(grant, 'provider-grant'));
    await identity.sessions.abandonRefresh(id, sealed_grant);
  } catch {
    // The claim on it runs out by itself, and what went wrong first is what the client is told.
  }
}

/** Raises ProviderError when the identity provider decides nothing, and OAuthError when the session is over. */
async function renew(
  sign_in: SignIn,
  session: Begun,
  presented: PresentedToken,
  { req, reference }: Visit,
): Promise<OpenSession> {
  const { identity, log } = sign_in;
  const grant = (await identity.tokens.open(session.sealed_grant, 'provider-grant')) as ProviderGrant | undefined;
  if (grant === undefined) {
    // Nothing ends: the key may come back, as after an update that went wrong.
    await identity.sessions.abandonRefresh(session.id);
    throw signInAgain('The keys of the gateway were changed; sign in again.');
  }
  if (!identity.isVerified(session.person)) {
    // What one provider gave is not shown to another.
    await identity.sessions.end(session.id, 'the identity provider was changed');
    throw signInAgain('People sign in at another identity provider now; sign in again.');
  }
  const identified = await recheck(sign_in, session, grant);
  const person = await admitAgain(sign_in, session, identified, {
    client_address: presented.client_address,
    request_id: reference.request_id,
  });
  const sealed_grant = await identity.tokens.seal(identified.grant, 'provider-grant');
  if (!req.socket.writable) {
    // The client gave up waiting: a new refresh token would reach nobody.
    await identity.sessions.abandonRefresh(session.id, sealed_grant);
    throw temporarilyUnavailable('The client is gone; the refresh token it has is still good.');
  }
  const renewed = await finish(sign_in, session, { ...presented, person, sealed_grant });
  if (renewed === undefined) throw signInAgain('The session was ended; sign in again.');
  log.debug({ email: person.email, session: session.id }, 'a session was renewed');
  return renewed;
}

type Refreshed = Parameters<Sessions['finishRefresh']>[1];

async function finish({ identity }: SignIn, { id }: Begun, refreshed: Refreshed) {
  try {
    return await identity.sessions.finishRefresh(id, refreshed);
  } catch (error) {
    // The provider may have replaced what was kept; its new one is tried to be kept with the claim given back.
    await identity.sessions.abandonRefresh(id, refreshed.sealed_grant).catch(() => {});
    throw error;
  }
}

async function recheck(sign_in: SignIn, session: Begun, grant: ProviderGrant): Promise<Identified> {
  const { identity, log } = sign_in;
  try {
    return await identity.provider.recheck(grant);
  } catch (error) {
    if (!(error instanceof ProviderError) || (error.problem !== 'refused' && error.problem !== 'unaskable'))
      throw error;
    await identity.sessions.end(session.id, 'the identity provider refused to renew it');
    const fields = { email: session.person.email, session: session.id, reason: error.message };
    log.info(fields, 'the identity provider refused to renew a session, so it was ended');
    if (error.problem === 'refused') await suspendUnlessVerified(sign_in, session);
    throw signInAgain('The identity provider did not renew your sign-in; sign in again.', error);
  }
}

/** Suspends what somebody made when the provider refused one of their sessions, unless it verifies them by another. */
async function suspendUnlessVerified(sign_in: SignIn, { person: { email } }: Begun): Promise<void> {
  const answer = await askAbout(sign_in, email);
  if (answer === 'verified' || answer === 'not_admitted') return;
  await suspendPerson(sign_in, email, 'the identity provider refused to renew the sign-in');
}

/**
 * The person as the identity provider now describes them. Who is not admitted any more loses all sessions at once, and
 * the use of self-made access tokens until admitted again: a slip in gateway.yaml must be mendable.
 */
async function admitAgain(
  sign_in: SignIn,
  session: Begun,
  identified: Identified,
  request: { readonly client_address: string; readonly request_id: string },
): Promise<Person> {
  const { identity, log } = sign_in;
  const { email, subject, issuer } = session.person;
  const admission = identity.admit(identified.claims);
  if ('refused' in admission) {
    const { refused, detail, message } = admission;
    await keepForReturn(sign_in, session, identified);
    const when = 'when a session was to be renewed';
    const ended = await deprovisionAsRefused(sign_in, { session, admission, when, request });
    const groups = admission.misses?.came;
    log.info(
      { email, session: session.id, refused, detail, groups, ...ended },
      'somebody may not use the gateway any more',
    );
    throw signInAgain(message);
  }
  const { person } = admission;
  if (person.subject !== subject || person.issuer !== issuer || person.email !== email) {
    await keepForReturn(sign_in, session, identified);
    await identity.sessions.end(session.id, 'it belongs to another identity now');
    throw signInAgain('Your identity provider describes you differently than when you signed in; sign in again.');
  }
  return person;
}

/** A session that is about to end holds what the provider gave last, so that this is given back and not what it replaced. */
async function keepForReturn({ identity }: SignIn, { id }: Begun, { grant }: Identified): Promise<void> {
  await identity.sessions.abandonRefresh(id, await identity.tokens.seal(grant, 'provider-grant'));
}
