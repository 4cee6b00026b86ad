import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { SignInAttempt } from '../../../domain/identity/provider/provider.ts';
import type { SessionTokens } from '../../../domain/identity/sessions/session-tokens.ts';

/**
 * CSRF check: whether a page of this origin (of the public URL, never of the Host header) sent the request. Only browsers can write
 * these two headers. The origin `null` (a page without an origin) proves nothing, and neither do missing headers.
 */
export function isSameOrigin(headers: IncomingHttpHeaders, origin: string): boolean {
  const { 'sec-fetch-site': site } = headers;
  const claimed = headers.origin === 'null' ? undefined : headers.origin;
  if (site !== undefined && site !== 'same-origin') return false;
  if (claimed !== undefined && claimed !== origin) return false;
  return site !== undefined || claimed !== undefined;
}

/**
 * Whether a page of another site makes the browser send this request in the background: an image, frame, script or hidden form.
 * Such requests could use up the rate limit of the reader's address.
 */
export function isCrossSiteEmbed({
  'sec-fetch-dest': destination,
  'sec-fetch-site': site,
}: IncomingHttpHeaders): boolean {
  const from_elsewhere = site === 'cross-site' || site === 'same-site';
  return from_elsewhere && destination !== 'document';
}

/** Longest duration of a sign-in in a browser. */
export const SIGN_IN_SECONDS = 600;
const MAX_CHARS = 4096;
/** Concurrent sign-ins of a browser: enough for a person, and small beside the limit for all headers. */
const MAX_KEPT = 5;
const NAME_HASH_CHARS = 8;

/**
 * Cookies that bind each sign-in to the browser that began it, one per OAuth state. The `__Host-` prefix keeps other hosts of the
 * domain from setting them.
 */
export function signInCookies(issuer: string) {
  const secure = issuer.startsWith('https:');
  const prefix = `${secure ? '__Host-' : ''}appscli-sign-in-`;
  const known = new RegExp(`^${prefix}[\\w-]{${NAME_HASH_CHARS}}$`);
  // Lax: the identity provider's redirect back is a cross-site navigation, on which browsers omit Strict cookies.
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
  const nameOf = (state: string) => `${prefix}${hash('sha256', state, 'base64url').slice(0, NAME_HASH_CHARS)}`;
  const kept = (name: string, value: string) => `${name}=${value}; ${attributes}; Max-Age=${SIGN_IN_SECONDS}`;
  const cleared = (name: string) => `${name}=; ${attributes}; Max-Age=0`;
  return {
    /** The value for a state; `undefined` if it is missing, oversized or duplicated. */
    read: (headers: IncomingHttpHeaders, state: string) => onlyValue(headers, nameOf(state), MAX_CHARS),
    /** `set-cookie` lines that store a value for the longest duration of a sign-in, and remove the oldest of too many. */
    keep(headers: IncomingHttpHeaders, state: string, value: string): string[] {
      const name = nameOf(state);
      // Browsers send the oldest cookies first (RFC 6265 section 5.4).
      const names = pairsOf(headers).map((pair) => pair.slice(0, pair.indexOf('=')));
      const others = [...new Set(names)].filter((other) => known.test(other) && other !== name);
      const too_many = others.slice(0, Math.max(0, others.length + 1 - MAX_KEPT));
      return [...too_many.map(cleared), kept(name, value)];
    },
    clear: (state: string) => cleared(nameOf(state)),
  };
}

function pairsOf({ cookie = '' }: IncomingHttpHeaders): string[] {
  return cookie.split(';').map((pair) => pair.trim());
}

function onlyValue(headers: IncomingHttpHeaders, name: string, max_chars: number): string | undefined {
  const [found, ...others] = pairsOf(headers).filter((pair) => pair.startsWith(`${name}=`));
  if (found === undefined || others.length > 0 || found.length > max_chars) return undefined;
  return found.slice(name.length + 1) || undefined;
}

const SESSION_MAX_CHARS = 200;

/**
 * Session cookie of the console. The `__Host-` prefix keeps other hosts of the domain from setting it. Without TLS, on a loopback
 * address, the name contains the port, as cookies of one host are shared by all ports.
 */
export function sessionCookie(issuer: string) {
  const { protocol, port } = new URL(issuer);
  const secure = protocol === 'https:';
  const name = secure ? '__Host-gw_session' : `gw_session${port === '' ? '' : `_${port}`}`;
  // Lax: a link to the console opens it signed in. Changes need more than the cookie (CSRF check).
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
  return {
    read: (headers: IncomingHttpHeaders): string | undefined => onlyValue(headers, name, SESSION_MAX_CHARS),
    keep: (value: string): string => `${name}=${value}; ${attributes}`,
    cleared: `${name}=; ${attributes}; Max-Age=0`,
  };
}

export type SessionCookie = ReturnType<typeof sessionCookie>;

/** An authorization request for a device sign-in, stored encrypted in the browser's cookie. */
export interface BrowserAttempt extends SignInAttempt {
  readonly grant_id: string;
  readonly expires_at: number;
}

export interface ConsoleAttempt extends SignInAttempt {
  /** The requested page: path and query below the public URL. */
  readonly to: string;
  readonly expires_at: number;
}

/** Content of the cookie after a successful sign-in: only the data of its last page, to show it again on reload. */
export interface FinishedAttempt extends Pick<BrowserAttempt, 'state' | 'expires_at'> {
  readonly signed_in: { readonly email: string; readonly client: string };
}

/** Decrypts the attempt of a state; `undefined` if the cookie is forged, of another state, or expired. */
export async function openAttempt(
  sealed: string,
  state: string,
  tokens: Pick<SessionTokens, 'open'>,
  now: number,
): Promise<BrowserAttempt | ConsoleAttempt | FinishedAttempt | undefined> {
  // Only the gateway can encrypt one, so its shape is not validated.
  const attempt = (await tokens.open(sealed, 'sign-in-attempt')) as Awaited<ReturnType<typeof openAttempt>>;
  if (attempt === undefined || !sameSecret(state, attempt.state)) return undefined;
  return attempt.expires_at > now ? attempt : undefined;
}

function sameSecret(one: string, other: string): boolean {
  return timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'));
}
