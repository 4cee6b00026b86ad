import type { Clock } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { oauthError, readTokens, unexpected } from './answers.ts';
import { type Credentials, type CredentialsFile, credentialsFrom } from './credentials.ts';
import { discover, pause } from './device-sign-in.ts';
import { type Ask, type HttpAnswer, notSignedIn, SignInOver, signInOver, Unreachable } from './http.ts';

/**
 * A token is renewed in the last tenth of its life: for the usual hour the last six minutes, which is longer than clients
 * keep what a key helper printed. Of longer lives the last ten minutes are enough.
 */
const RENEWED_PART = 0.1;
const RENEWED_SECONDS_MAX = 600;
/** With so much left nobody waits for the refresh of another process. */
const AMPLE_SECONDS = 30;
/** How far the clock may have been set since a token was given before its end counts for nothing. */
const CLOCK_SECONDS_MAX = 60;
/** A gateway that is busy with another refresh of the same sign-in says to come back in a second. */
const BUSY_SECONDS_MAX = 2;
const TRIES = 3;

/** What renewing credentials takes. */
export interface Renewal {
  readonly credentials: CredentialsFile;
  readonly ask: Ask;
  readonly clock: Clock;
  readonly base_url: string;
  /** An access token that the gateway has just refused: it is not good, however long it has to live. */
  readonly rejected?: string | undefined;
}

/**
 * Credentials with an access token that is good for a while, renewed when need be; of any number of processes that ask at
 * once, one renews. When that fails, a token that still lives is returned. Raises SignInOver when the gateway
 * wants another sign-in, StartError (exit code 69) when the token is not good and there is no other at the moment.
 */
export async function freshCredentials(renewal: Renewal): Promise<Credentials> {
  const { credentials, clock, base_url, rejected } = renewal;
  const held = credentials.read().get(base_url);
  if (held === undefined) throw notSignedIn(base_url);
  if (isFresh(held, clock, rejected)) return held;
  const left_seconds = held.access_token === rejected ? 0 : secondsLeft(held, clock);
  const patience_seconds = left_seconds > AMPLE_SECONDS ? 0 : undefined;
  try {
    return await credentials.locked(() => renewOnce(renewal), patience_seconds);
  } catch (error) {
    if (error instanceof SignInOver || !(error instanceof StartError)) throw error;
    if (left_seconds > 0) return held;
    throw error instanceof Unreachable ? staysSignedIn(error) : error;
  }
}

/** Clients show what their key helper says, some with the advice to sign in again, which helps nobody in an outage. */
function staysSignedIn(error: Unreachable): Unreachable {
  const end = /[.!?]$/.test(error.message) ? '' : '.';
  return new Unreachable(`${error.message}${end} You are still signed in; this works again when that is over.`, {
    cause: error,
  });
}

function secondsLeft({ expires_at }: Credentials, clock: Clock): number {
  return (Date.parse(expires_at) - clock.now()) / 1000;
}

function isFresh(held: Credentials, clock: Clock, rejected: string | undefined): boolean {
  const wanted_seconds = Math.min(held.lifetime_seconds * RENEWED_PART, RENEWED_SECONDS_MAX);
  const left_seconds = secondsLeft(held, clock);
  // More than it ever had: it was given while the clock was wrong.
  if (left_seconds > held.lifetime_seconds + CLOCK_SECONDS_MAX) return false;
  return held.access_token !== rejected && left_seconds > wanted_seconds;
}

/** Renews, unless another process did while this one waited for the lock. */
async function renewOnce(renewal: Renewal): Promise<Credentials> {
  const { credentials, clock, base_url, rejected } = renewal;
  const held = credentials.read().get(base_url);
  if (held === undefined) throw notSignedIn(base_url);
  if (isFresh(held, clock, rejected)) return held;
  const { refresh_token } = held;
  if (refresh_token === undefined) {
    if (held.access_token !== rejected && secondsLeft(held, clock) > 0) return held;
    return forget(renewal, 'it could not be renewed');
  }
  // A refresh token is replaced by its use: who can't write down the next one had better not use this one.
  credentials.write(base_url, held);
  const answer = await refresh(renewal, refresh_token, held.access_token === rejected || secondsLeft(held, clock) <= 0);
  if (answer.status === 200) {
    const renewed = credentialsFrom(readTokens('renewing the sign-in', answer), clock.now(), held);
    credentials.write(base_url, renewed);
    return renewed;
  }
  const { code, text } = oauthError(answer);
  if (code === 'invalid_grant') return forget(renewal, text ?? 'the gateway says so');
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
 * Ends a sign-in at the gateway (RFC 7009): the refresh token, and with it the session, then the access token. Raises
 * StartError when the gateway can't be reached, or can't do it.
 */
export async function revokeCredentials(ask: Ask, base_url: string, held: Credentials): Promise<void> {
  const { revocation } = await discover(ask, base_url);
  if (revocation === undefined) {
    throw new StartError(`${base_url} has no way to end a sign-in from here`);
  }
  const tokens: [string, string][] = [['access_token', held.access_token]];
  if (held.refresh_token !== undefined) tokens.unshift(['refresh_token', held.refresh_token]);
  for (const [token_type_hint, token] of tokens) {
    const answer = await ask('POST', revocation, { form: { token, token_type_hint } });
    if (answer.status !== 200) throw unexpected(`ending the sign-in at ${base_url}`, answer);
  }
}
