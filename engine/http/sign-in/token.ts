import type { PollResult } from '../../identity/sessions/device-grants.ts';
import { isSecret } from '../../identity/sessions/opaque.ts';
import { endTokensTheyLost } from '../../identity/tokens/self-made-tokens.ts';
import { notePerson } from '../request-identity.ts';
import { readForm } from './form.ts';
import { OAuthError, type OAuthErrorCode, tooManyRequests } from './oauth-error.ts';
import { DEVICE_GRANT, REFRESH_GRANT, TOKEN_PATH } from './paths.ts';
import { type Opened, refresh } from './refresh.ts';
import { type Answer, logged, type Route, type SignIn, type Visit } from './routes.ts';

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

async function redeem({ identity, log, addressOf }: SignIn, text: string, visit: Visit): Promise<Opened> {
  const { req } = visit;
  if (!isSecret(text)) throw unfinished('unknown');
  const asked = await identity.attempts.ask(
    { text, address: addressOf(req), is_ours: identity.tokens.marks.fit(text) },
    () => identity.device_grants.poll(text),
    ({ outcome }) => outcome === 'signed_in' || outcome === 'repeated' || outcome === 'pending',
  );
  if ('retry_after_seconds' in asked) {
    throw tooManyRequests('Too many requests came to nothing; ask less often.', asked.retry_after_seconds);
  }
  const { answer: result } = asked;
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
