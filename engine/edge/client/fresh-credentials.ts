import type { Clock } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { oauthError, readTokens, unexpected } from './answers.ts';
import { type Credentials, type CredentialsFile, credentialsFrom } from './credentials.ts';
import { discover, pause } from './device-sign-in.ts';
import { type Ask, type HttpAnswer, notSignedIn, SignInOver, signInOver, Unreachable } from './http.ts';

/**
 * Tokens are renewed in the last tenth of their lifetime, ten minutes at most. For the usual hour this is six minutes, longer
 * than clients cache the output of a key helper.
 */
const RENEWED_PART = 0.1;
const RENEWED_SECONDS_MAX = 600;
/** With more time left, do not wait for another process's refresh. */
const AMPLE_SECONDS = 30;
/** Largest clock correction after which a token's expiry still counts. */
const CLOCK_SECONDS_MAX = 60;
/** Longest retry-after of a gateway that is busy with another refresh of the same sign-in. */
const BUSY_SECONDS_MAX = 2;
const TRIES = 3;

interface Renewal {
  readonly credentials: CredentialsFile;
  readonly ask: Ask;
  readonly clock: Clock;
  readonly base_url: string;
  /** An access token that the gateway has just rejected, whatever its expiry. */
  readonly rejected?: string | undefined;
}

/**
 * Credentials with a valid access token, renewed if it expires soon. Of several concurrent processes only one renews. If the
 * renewal fails, returns a token that is still valid. Raises SignInOver if a new sign-in is required, StartError (exit code 69)
 * if the token has expired and the gateway is unreachable.
 */
export async function freshCredentials(renewal: Renewal): Promise<Credentials> {
  const { credentials, clock, base_url, rejected } = renewal;
  const stored = credentials.read().get(base_url);
  if (stored === undefined) throw notSignedIn(base_url);
  if (isFresh(stored, clock, rejected)) return stored;
  const left_seconds = stored.access_token === rejected ? 0 : secondsLeft(stored, clock);
  const lock_timeout_seconds = left_seconds > AMPLE_SECONDS ? 0 : undefined;
  try {
    return await credentials.locked(() => renewOnce(renewal), lock_timeout_seconds);
  } catch (error) {
    if (error instanceof SignInOver || !(error instanceof StartError)) throw error;
    if (left_seconds > 0) return stored;
    throw error instanceof Unreachable ? staysSignedIn(error) : error;
  }
}

/** Adds to the error of an outage that the sign-in is intact. Some clients otherwise advise to sign in again. */
function staysSignedIn(error: Unreachable): Unreachable {
  const end = /[.!?]$/.test(error.message) ? '' : '.';
  return new Unreachable(`${error.message}${end} You are still signed in: try again when the gateway is reachable.`, {
    cause: error,
  });
}

function secondsLeft({ expires_at }: Credentials, clock: Clock): number {
  return (Date.parse(expires_at) - clock.now()) / 1000;
}

function isFresh(stored: Credentials, clock: Clock, rejected: string | undefined): boolean {
  const wanted_seconds = Math.min(stored.lifetime_seconds * RENEWED_PART, RENEWED_SECONDS_MAX);
  const left_seconds = secondsLeft(stored, clock);
  // More than its full lifetime: it was issued while the clock was wrong.
  if (left_seconds > stored.lifetime_seconds + CLOCK_SECONDS_MAX) return false;
  return stored.access_token !== rejected && left_seconds > wanted_seconds;
}

/** Renews, unless another process has done so while this one waited for the lock. */
async function renewOnce(renewal: Renewal): Promise<Credentials> {
  const { credentials, clock, base_url, rejected } = renewal;
  const stored = credentials.read().get(base_url);
  if (stored === undefined) throw notSignedIn(base_url);
  if (isFresh(stored, clock, rejected)) return stored;
  const { refresh_token } = stored;
  if (refresh_token === undefined) {
    if (stored.access_token !== rejected && secondsLeft(stored, clock) > 0) return stored;
    return forget(renewal, 'it has no refresh token');
  }
  // Refresh tokens rotate on use: make sure that the file is writable before using this one.
  credentials.write(base_url, stored);
  const answer = await refresh(
    renewal,
    refresh_token,
    stored.access_token === rejected || secondsLeft(stored, clock) <= 0,
  );
  if (answer.status === 200) {
    const renewed = credentialsFrom(readTokens('renewing the sign-in', answer), clock.now(), stored);
    credentials.write(base_url, renewed);
    return renewed;
  }
  const { code, text } = oauthError(answer);
  if (code === 'invalid_grant') return forget(renewal, text ?? 'the gateway has ended it');
  const failure = unexpected(`renewing the sign-in at ${base_url}`, answer);
  throw answer.status >= 500 || answer.status === 429 ? new Unreachable(failure.message) : failure;
}

async function refresh({ ask, clock, base_url }: Renewal, refresh_token: string, urgent: boolean): Promise<HttpAnswer> {
  const { token } = await discover(ask, base_url);
  const form = { grant_type: 'refresh_token', refresh_token };
  for (let tries = 1; ; tries++) {
    const answer = await ask('POST', token, { form });
    const { status, retry_after_seconds = Number.POSITIVE_INFINITY } = answer;
    if (status !== 503 || !urgent || tries === TRIES || retry_after_seconds > BUSY_SECONDS_MAX) return answer;
    await pause(clock, retry_after_seconds * 1000);
  }
}

function forget({ credentials, base_url }: Renewal, because: string): never {
  credentials.write(base_url, undefined);
  throw signInOver(base_url, because);
}

/**
 * Revokes a sign-in at the gateway (RFC 7009): the refresh token, which ends the session, then the access token. Raises
 * StartError if the gateway is unreachable or does not support it.
 */
export async function revokeCredentials(ask: Ask, base_url: string, stored: Credentials): Promise<void> {
  const { revocation } = await discover(ask, base_url);
  if (revocation === undefined) {
    throw new StartError(`${base_url} does not support revocation`);
  }
  const tokens: [string, string][] = [['access_token', stored.access_token]];
  if (stored.refresh_token !== undefined) tokens.unshift(['refresh_token', stored.refresh_token]);
  for (const [token_type_hint, token] of tokens) {
    const answer = await ask('POST', revocation, { form: { token, token_type_hint } });
    if (answer.status !== 200) throw unexpected(`ending the sign-in at ${base_url}`, answer);
  }
}
