import type { IncomingHttpHeaders } from 'node:http';
import { StageError } from '../contract/errors.ts';

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

/** The credential of a request for what is named, such as `Telemetry`. Raises credential_missing and credential_invalid. */
export function demandBearer(headers: IncomingHttpHeaders, what: string): string {
  const found = readBearer(headers);
  if (typeof found === 'string') return found;
  throw new StageError(
    found.problem === 'missing' ? 'credential_missing' : 'credential_invalid',
    `${what} needs a credential: send an access token or session token as "Authorization: Bearer <token>" or as "x-api-key: <token>".`,
  );
}
