import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

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
    read(headers: IncomingHttpHeaders, state: string): string | undefined {
      const name = nameOf(state);
      const [found, ...others] = pairsOf(headers).filter((pair) => pair.startsWith(`${name}=`));
      if (found === undefined || others.length > 0 || found.length > MAX_CHARS) return undefined;
      return found.slice(name.length + 1);
    },
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

/** What a request's cookies are, as `name=value`. */
export function pairsOf({ cookie = '' }: IncomingHttpHeaders): string[] {
  return cookie.split(';').map((pair) => pair.trim());
}
