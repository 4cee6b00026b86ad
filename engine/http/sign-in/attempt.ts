import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { SignInAttempt } from '../../identity/provider/provider.ts';
import type { PendingGrant } from '../../identity/sessions/device-grants.ts';
import type { SessionTokens } from '../../identity/sessions/session-tokens.ts';

/** A browser's way to the identity provider and back, for one sign-in; kept sealed in that browser's cookie. */
export interface BrowserAttempt extends SignInAttempt {
  readonly grant_id: string;
  /** Milliseconds since the epoch. */
  readonly expires_at: number;
}

/** A browser's way to the identity provider and back, for the console. */
export interface ConsoleAttempt extends SignInAttempt {
  /** The page that was wanted: path and query below the public URL. */
  readonly to: string;
  /** Milliseconds since the epoch. */
  readonly expires_at: number;
}

/** What that cookie holds once the sign-in has worked: what it takes to show the last page again, and nothing else. */
export interface FinishedAttempt extends Pick<BrowserAttempt, 'state' | 'expires_at'> {
  readonly signed_in: { readonly email: string; readonly client: string };
}

const RANDOM_BYTES = 32;
const LIFETIME_MS = 600_000;

/** Makes an attempt for a grant, from fresh randomness. */
export function newAttempt(grant: PendingGrant): BrowserAttempt {
  return { ...freshAttempt(), grant_id: grant.id, expires_at: grant.expires_at.getTime() };
}

/** Makes an attempt for a page of the console, from fresh randomness. */
export function newConsoleAttempt(to: string, now: number): ConsoleAttempt {
  return { ...freshAttempt(), to, expires_at: now + LIFETIME_MS };
}

function freshAttempt(): SignInAttempt {
  const random = () => randomBytes(RANDOM_BYTES).toString('base64url');
  return { state: random(), nonce: random(), code_verifier: random() };
}

/** What a cookie holds for a state; `undefined` when it was not made here for that state, or is over. */
export async function openAttempt(
  sealed: string,
  state: string,
  tokens: Pick<SessionTokens, 'open'>,
  now: number,
): Promise<BrowserAttempt | ConsoleAttempt | FinishedAttempt | undefined> {
  type Kept = BrowserAttempt | ConsoleAttempt | FinishedAttempt | undefined;
  // Nobody but the gateway can seal one, so its shape needs no proof.
  const attempt = (await tokens.open(sealed, 'sign-in-attempt')) as Kept;
  if (attempt === undefined || !sameSecret(state, attempt.state)) return undefined;
  return attempt.expires_at > now ? attempt : undefined;
}

/** Compares secrets in a time that tells nothing about either. */
function sameSecret(one: string, other: string): boolean {
  return timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'));
}
