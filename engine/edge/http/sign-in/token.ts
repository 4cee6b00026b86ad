import { endUnrenewed, recheckSession } from '../../../domain/identity/deprovisioning/recheck-session.ts';
import type { ProviderError } from '../../../domain/identity/provider/provider.ts';
import type { PollResult } from '../../../domain/identity/sessions/device-grants.ts';
import { isRefreshToken, isSecret } from '../../../domain/identity/sessions/secrets.ts';
import type {
  OpenSession,
  PresentedToken,
  RefreshBegun,
  RefreshedSession,
  TakenSession,
} from '../../../domain/identity/sessions/sessions.ts';
import { endTokensTheyLost } from '../../../domain/identity/tokens/tokens.ts';
import { notePerson } from '../request-identity.ts';
import { OAuthError, type OAuthErrorCode, readForm, temporarilyUnavailable, tooManyRequests } from './forms.ts';
import { DEVICE_GRANT, PATHS, REFRESH_GRANT } from './paths.ts';
import { type Answer, logged, type Route, type SignIn, type Visit } from './routes.ts';

interface Opened {
  readonly session: OpenSession;
  readonly outcome: 'began' | 'repeated' | 'renewed';
}

/**
 * Invalid refresh token: the program must discard its credentials and sign in again. The 401 has no WWW-Authenticate challenge:
 * OAuth clients would stop at the challenge and never see `invalid_grant`.
 */
function notRenewable(message: string, reason: string, cause?: unknown): OAuthError {
  return new OAuthError('invalid_grant', message, { status: 401, cause, reason });
}

/** Looks up a credential in the database, rate-limited by failed attempts per address. Raises OAuthError. */
async function lookUp<Found>(
  { identity: { attempts, tokens }, addressOf }: SignIn,
  { req }: Visit,
  text: string,
  options: {
    find(): Promise<Found>;
    isGood(found: Found): boolean;
    readonly is_ours?: boolean;
    readonly advice: string;
    readonly error?: 'slow_down';
  },
): Promise<Found> {
  const credential = { text, address: addressOf(req), is_ours: options.is_ours || tokens.tags.fit(text) };
  const result = await attempts.lookUp(credential, options.find, options.isGood);
  if ('found' in result) return result.found;
  const { advice, error = 'temporarily_unavailable' } = options;
  throw tooManyRequests(`Too many failed requests; ${advice}`, result.retry_after_seconds, error);
}

/**
 * Renews a session after the identity provider confirmed the person. Raises OAuthError: invalid_grant for a session that is over,
 * temporarily_unavailable if nothing is decided and the refresh token is still valid. Raises store_unavailable, likewise.
 */
async function refresh(sign_in: SignIn, refresh_token: string, visit: Visit): Promise<Opened> {
  const { sessions } = sign_in.identity;
  if (!isRefreshToken(refresh_token)) throw notRenewable(USELESS.unknown, 'unknown');
  const presented = { refresh_token, client_address: sign_in.addressOf(visit.req) };
  const begun = await lookUp(sign_in, visit, refresh_token, {
    find: () => sessions.beginRefresh(presented),
    isGood: ({ outcome }) => outcome === 'ready' || outcome === 'repeated',
    advice: 'the refresh token may be valid, try it again later.',
  });
  switch (begun.outcome) {
    case 'ready':
      return { session: await renew(sign_in, begun.session, presented, visit), outcome: 'renewed' };
    case 'repeated':
      return { session: begun.session, outcome: 'repeated' };
    case 'busy':
      throw temporarilyUnavailable('Another request is renewing this session; read the stored credentials again.', {
        reason: 'busy',
      });
    case 'replaced':
      throw rejectReplaced(sign_in, begun, presented, visit);
    default:
      throw notRenewable(USELESS[begun.outcome], begun.outcome);
  }
}

const USELESS = {
  expired: 'The session is over; sign in again.',
  revoked: 'The session was ended; sign in again.',
  unknown: 'The refresh token is unknown; sign in again.',
} as const;

/**
 * Reuse of a rotated refresh token: another process of the same installation has stored the newer one, or the token was copied.
 * The session stays, as ending it would sign out the rightful owner, too. The first rejection is temporary: then a Messages client
 * re-reads its stored credentials, while after a final rejection it gives up.
 */
function rejectReplaced(
  { log }: SignIn,
  { is_first, session: { id, person } }: Extract<RefreshBegun, { outcome: 'replaced' }>,
  { client_address }: PresentedToken,
  visit: Visit,
): OAuthError {
  const fields = { email: person.email, session: id, client_address, ...logged(visit) };
  log.info(fields, 'a refresh token was rejected: its replacement is in use');
  const problem =
    'This refresh token was replaced, and its replacement is in use. Read the stored credentials again: another process may have renewed them.';
  if (is_first) return temporarilyUnavailable(problem, { reason: 'replaced' });
  return notRenewable(`${problem} If none did, the token may have been copied: sign in again.`, 'replaced');
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
  if (rechecked.outcome === 'unavailable') throw providerUnavailable(sign_in, session, rechecked.error, visit);
  if (rechecked.outcome !== 'stays') {
    const message = await endUnrenewed(sign_in, session, rechecked);
    const { outcome } = rechecked;
    if ('error' in rechecked) throw notRenewable(message, `provider_${outcome}`, rechecked.error);
    throw notRenewable(message, outcome);
  }
  const { person, sealed_grant } = rechecked;
  if (!req.socket.writable) {
    // The client disconnected and would not receive a new refresh token.
    await identity.sessions.abandonRefresh(session.id, sealed_grant);
    throw temporarilyUnavailable('The client disconnected; its refresh token is still valid.', { reason: 'gone' });
  }
  const renewed = await finish(sign_in, session, { ...presented, person, sealed_grant });
  if (renewed === undefined) throw notRenewable(USELESS.revoked, 'revoked');
  log.debug({ email: person.email, session: session.id, ...logged(visit) }, 'a session was renewed');
  return renewed;
}

function providerUnavailable({ log }: SignIn, { id }: TakenSession, error: ProviderError, visit: Visit): OAuthError {
  const level = error.problem === 'unavailable' ? 'warn' : 'error';
  const fields = { reason: error.message, session: id, ...logged(visit) };
  log[level](fields, 'a session was not renewed: no usable response from the identity provider');
  const more = { cause: error, retry_after_seconds: 5, reason: `provider_${error.problem}` };
  return temporarilyUnavailable('The identity provider is not available at the moment; try again.', more);
}

async function finish({ identity }: SignIn, { id }: TakenSession, refreshed: RefreshedSession) {
  try {
    return await identity.sessions.finishRefresh(id, refreshed);
  } catch (error) {
    // The provider may have rotated its grant: try to store the new one while the session is released.
    await identity.sessions.abandonRefresh(id, refreshed.sealed_grant).catch(() => {});
    throw error;
  }
}

/** Token endpoint: issues session tokens to approved devices, and renews them (RFC 8628 section 3.4, RFC 6749 section 6). */
export function token(sign_in: SignIn): Route {
  const { form } = sign_in;
  return {
    path: PATHS.token,
    speaks: 'json',
    operation: 'gateway.session',
    async post(visit) {
      const parameters = await readForm(visit.req, form);
      const grant_type = parameters.require('grant_type');
      if (grant_type === DEVICE_GRANT) {
        return answer(sign_in, await redeem(sign_in, parameters.require('device_code'), visit), visit);
      }
      if (grant_type === REFRESH_GRANT) {
        return answer(sign_in, await refresh(sign_in, parameters.require('refresh_token'), visit), visit);
      }
      const problem = `The parameter "grant_type" must be "${DEVICE_GRANT}" or "${REFRESH_GRANT}".`;
      throw new OAuthError('unsupported_grant_type', problem);
    },
  };
}

type Unfinished = Exclude<PollResult['outcome'], 'signed_in' | 'repeated' | 'denied'>;

const UNFINISHED: Readonly<Record<Unfinished, readonly [OAuthErrorCode, string]>> = {
  pending: ['authorization_pending', 'The code is not confirmed yet; poll again after the interval.'],
  slow_down: ['slow_down', 'Polling too often; add five seconds to the interval.'],
  expired: ['expired_token', 'The code was not confirmed in time; begin the sign-in again.'],
  unknown: ['invalid_grant', 'The device code is unknown or already used; begin the sign-in again.'],
  used: ['invalid_grant', 'The device code was used again, which ended its session; begin the sign-in again.'],
};

async function redeem(sign_in: SignIn, text: string, visit: Visit): Promise<Opened> {
  const { identity, log, addressOf } = sign_in;
  const { req } = visit;
  if (!isSecret(text)) throw unfinished('unknown');
  const result = await lookUp(sign_in, visit, text, {
    find: () => identity.device_grants.poll(text),
    isGood: ({ outcome }) => outcome === 'signed_in' || outcome === 'repeated' || outcome === 'pending',
    advice: 'poll less often.',
    error: 'slow_down',
  });
  if (result.outcome === 'denied') throw denied(result);
  if (result.outcome === 'used' && result.ended) {
    const fields = { session: result.session_id, client_address: addressOf(req), ...logged(visit) };
    log.warn(fields, 'a device code was used again; its session was ended');
  }
  if (result.outcome !== 'signed_in' && result.outcome !== 'repeated') {
    throw unfinished(result.outcome);
  }
  const { outcome, session } = result;
  const fields = { email: session.person.email, session: session.id, ...logged(visit) };
  if (outcome === 'signed_in') log.info(fields, 'a session began');
  else log.info(fields, 'a device polled again and received its session again');
  return { session, outcome: outcome === 'signed_in' ? 'began' : 'repeated' };
}

function unfinished(outcome: Unfinished): OAuthError {
  return new OAuthError(...UNFINISHED[outcome], { reason: outcome });
}

/** Programs that replace the message of access_denied, but show that of other errors. */
const REPLACES_ACCESS_DENIED = /^claude_code/;

function denied({ because, surface }: Extract<PollResult, { outcome: 'denied' }>): OAuthError {
  if (because === undefined) return new OAuthError('access_denied', 'The sign-in was declined in the browser.');
  if (surface === undefined || !REPLACES_ACCESS_DENIED.test(surface)) return new OAuthError('access_denied', because);
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
  return { status: 200, json, result: { outcome } };
}

/** Session tokens contain all claims of a person and may be long. */
const MAX_BYTES = 65_536;

/** Revocation endpoint: ends the session of a session or refresh token; an unknown token counts as revoked (RFC 7009). */
export function revoke(sign_in: SignIn): Route {
  const { identity, form, log } = sign_in;
  const { tokens, sessions } = identity;
  /** Ends the session of a token. A session token with an invalid signature never reaches the database. */
  const end = async (text: string, visit: Visit) => {
    const signed = text.includes('.') ? await tokens.sessionOf(text) : undefined;
    if (signed === undefined && !isRefreshToken(text)) return undefined;
    return lookUp(sign_in, visit, text, {
      is_ours: signed !== undefined,
      find: async () => {
        const session = signed ?? (await sessions.sessionOf(text));
        return session !== undefined && (await sessions.end(session, 'signed out', 'person')) ? session : undefined;
      },
      isGood: (session) => session !== undefined,
      advice: 'sign out again later.',
    });
  };
  return {
    path: PATHS.revocation,
    speaks: 'json',
    operation: 'gateway.session',
    async post(visit) {
      const { req } = visit;
      const token = (await readForm(req, { ...form, max_bytes: MAX_BYTES })).require('token');
      if (token.startsWith('gw_')) {
        const problem =
          'Access tokens are not sessions: revoke one with "appscli tokens revoke" or ask your administrator.';
        throw new OAuthError('unsupported_token_type', problem);
      }
      const session = await end(token, visit);
      if (session === undefined) return { status: 200, json: {} };
      log.info({ session, ...logged(visit) }, 'a session was signed out');
      return { status: 200, json: {}, result: { outcome: 'ended' } };
    },
  };
}
