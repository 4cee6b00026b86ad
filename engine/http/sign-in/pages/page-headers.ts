import { PAGE_STYLE_SOURCE } from './page-style.ts';

/**
 * Headers of every page of sign-in, content type included.
 * @param provider_origin origin of the identity provider's issuer; left out when sign-in is off. Raises TypeError when
 * it is no URL.
 */
export function pageHeaders(provider_origin?: string): Readonly<Record<string, string>> {
  // Browsers hold the redirects after a sent form against form-action too. The identity provider may send the browser
  // on to a company's own sign-in, whose hosts nobody can list here: hence every https one. The form itself only ever
  // goes to this origin.
  const targets = ["'self'", 'https:'];
  if (provider_origin !== undefined) targets.push(new URL(provider_origin).origin);
  const policy = [
    "default-src 'none'",
    `style-src ${PAGE_STYLE_SOURCE}`,
    'img-src data:',
    `form-action ${targets.join(' ')}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy.join('; '),
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    // Not no-referrer: it makes browsers send `Origin: null` with the form, which proves nothing.
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  };
}
