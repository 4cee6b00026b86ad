import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { SignInAttempt } from '../../../domain/identity/provider/provider.ts';
import type { PendingGrant } from '../../../domain/identity/sessions/device-grants.ts';
import type { SessionTokens } from '../../../domain/identity/sessions/session-tokens.ts';

/**
 * Whether a browser proves that a form was sent from a page of this origin. Browsers write both headers themselves, no
 * page can: a form of another site is told apart without a token in each page. `null` is what a page without an origin
 * of its own sends, and proves nothing. Without either header nothing is proven.
 * @param origin the gateway's own, from its public URL; the Host header has no say.
 */
export function isSameOrigin(headers: IncomingHttpHeaders, origin: string): boolean {
  const { 'sec-fetch-site': site } = headers;
  const claimed = headers.origin === 'null' ? undefined : headers.origin;
  if (site !== undefined && site !== 'same-origin') return false;
  if (claimed !== undefined && claimed !== origin) return false;
  return site !== undefined || claimed !== undefined;
}

/**
 * Whether a page makes the browser of somebody who looks at it ask, unseen: as an image, a frame, a script or a form sent
 * in the background. Programs and people who open a page don't. Where requests are counted per address, those would let
 * any page use up what its readers may do.
 */
export function isUnseen({ 'sec-fetch-dest': destination, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  const from_elsewhere = site === 'cross-site' || site === 'same-site';
  return from_elsewhere && destination !== 'document';
}

const SECONDS = 600;
const MAX_CHARS = 4096;
/** How many sign-ins a browser can have under way: enough for a person, and few beside the limit for all headers. */
const MAX_KEPT = 5;
const MARK_CHARS = 8;

/**
 * Makes the cookies that tie sign-ins to the browser they began in: each has its own, which its state finds. The prefix keeps neighbours on other hosts of its domain from setting them.
 */
export function signInCookies(issuer: string) {
  const secure = issuer.startsWith('https:');
  const prefix = `${secure ? '__Host-' : ''}appscli-sign-in-`;
  const known = new RegExp(`^${prefix}[\\w-]{${MARK_CHARS}}$`);
  // Lax: the identity provider's redirect back is a navigation from another site, which Strict would leave it out of.
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
  const nameOf = (state: string) => `${prefix}${hash('sha256', state, 'base64url').slice(0, MARK_CHARS)}`;
  const kept = (name: string, value: string) => `${name}=${value}; ${attributes}; Max-Age=${SECONDS}`;
  const cleared = (name: string) => `${name}=; ${attributes}; Max-Age=0`;
  return {
    /** The value kept for a state; `undefined` when it is missing, oversized or there twice. */
    read: (headers: IncomingHttpHeaders, state: string) => onlyValue(headers, nameOf(state), MAX_CHARS),
    /**
     * `set-cookie` lines that keep a value for as long as a sign-in may take.
     * @param headers of the request, by which the oldest make room when there are many.
     */
    keep(headers: IncomingHttpHeaders, state: string, value: string): string[] {
      const name = nameOf(state);
      // Browsers send those they have had longest first (RFC 6265 section 5.4).
      const names = pairsOf(headers).map((pair) => pair.slice(0, pair.indexOf('=')));
      const others = [...new Set(names)].filter((other) => known.test(other) && other !== name);
      const too_many = others.slice(0, Math.max(0, others.length + 1 - MAX_KEPT));
      return [...too_many.map(cleared), kept(name, value)];
    },
    /** `set-cookie` that removes the one of a state. */
    clear: (state: string) => cleared(nameOf(state)),
  };
}

function pairsOf({ cookie = '' }: IncomingHttpHeaders): string[] {
  return cookie.split(';').map((pair) => pair.trim());
}

/** The value of a cookie; `undefined` when it is missing, empty, oversized or there twice. */
function onlyValue(headers: IncomingHttpHeaders, name: string, max_chars: number): string | undefined {
  const [found, ...others] = pairsOf(headers).filter((pair) => pair.startsWith(`${name}=`));
  if (found === undefined || others.length > 0 || found.length > max_chars) return undefined;
  return found.slice(name.length + 1) || undefined;
}

const SESSION_MAX_CHARS = 200;

/**
 * Makes the cookie of a gateway. The prefix keeps neighbours on other hosts of its domain from setting it. Without TLS, which
 * is for this machine only, the name tells the port: cookies of one host heed none.
 * @param issuer the public URL.
 */
export function sessionCookie(issuer: string) {
  const { protocol, port } = new URL(issuer);
  const secure = protocol === 'https:';
  const name = secure ? '__Host-gw_session' : `gw_session${port === '' ? '' : `_${port}`}`;
  // Lax: who follows a link to the console is signed in there. What changes something takes more than the cookie.
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
  return {
    /** Its value; `undefined` when it is missing, oversized or there twice. */
    read: (headers: IncomingHttpHeaders): string | undefined => onlyValue(headers, name, SESSION_MAX_CHARS),
    keep: (value: string): string => `${name}=${value}; ${attributes}`,
    /** `set-cookie` that removes it. */
    cleared: `${name}=; ${attributes}; Max-Age=0`,
  };
}

/** The cookie that a browser's session of the console has. */
export type SessionCookie = ReturnType<typeof sessionCookie>;

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
