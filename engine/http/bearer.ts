import type { IncomingHttpHeaders } from 'node:http';

const BEARER = /^bearer(?: +(\S+))? *$/i;

/** The credential of a request: `Authorization: Bearer`, else `x-api-key`; or why there is none. */
export function readBearer({
  authorization,
  'x-api-key': api_key,
}: IncomingHttpHeaders): string | { readonly problem: 'missing' | 'malformed' } {
  const bearer = BEARER.exec(authorization ?? '');
  if (bearer?.[1] !== undefined) return bearer[1];
  if (typeof api_key === 'string' && api_key.trim() !== '') return api_key.trim();
  return { problem: authorization === undefined || authorization === '' || bearer !== null ? 'missing' : 'malformed' };
}
