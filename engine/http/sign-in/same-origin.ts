import type { IncomingHttpHeaders } from 'node:http';

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
