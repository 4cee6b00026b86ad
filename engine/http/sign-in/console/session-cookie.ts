import type { IncomingHttpHeaders } from 'node:http';
import { pairsOf } from '../cookie.ts';

const MAX_CHARS = 200;

/** The cookie that a browser's session of the console has. */
export interface SessionCookie {
  /** Its value; `undefined` when it is missing, oversized or there twice. */
  read(headers: IncomingHttpHeaders): string | undefined;
  /** `set-cookie` that gives it a value. */
  keep(value: string): string;
  /** `set-cookie` that removes it. */
  readonly cleared: string;
}

/**
 * Makes the cookie of a gateway. The prefix keeps neighbours on other hosts of its domain from setting it. Without TLS, which
 * is for this machine only, the name tells the port: cookies of one host heed none.
 * @param issuer the public URL.
 */
export function sessionCookie(issuer: string): SessionCookie {
  const { protocol, port } = new URL(issuer);
  const secure = protocol === 'https:';
  const name = secure ? '__Host-gw_session' : `gw_session${port === '' ? '' : `_${port}`}`;
  // Lax: who follows a link to the console is signed in there. What changes something takes more than the cookie.
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
  return {
    read(headers) {
      const [found, ...others] = pairsOf(headers).filter((pair) => pair.startsWith(`${name}=`));
      if (found === undefined || others.length > 0 || found.length > MAX_CHARS) return undefined;
      return found.slice(name.length + 1) || undefined;
    },
    keep: (value) => `${name}=${value}; ${attributes}`,
    cleared: `${name}=; ${attributes}; Max-Age=0`,
  };
}
