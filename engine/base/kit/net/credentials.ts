import { StageError } from '../../contract/errors.ts';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

type MaybePromise<T> = T | Promise<T>;

const BEARER = /^bearer(?: +(\S+))? *$/i;

/** Tells clients not to try the same credential again (RFC 6750 section 3). */
const CHALLENGE = { 'www-authenticate': 'Bearer', 'x-should-retry': 'false' };

const WHAT_TO_SEND =
  'send an access token or session token as "Authorization: Bearer <token>" or as "x-api-key: <token>"';

/**
 * Finds out who sent a request: by `Authorization: Bearer`, else by `x-api-key`. Clients send both, such as the output of a
 * key helper, or a key left over from another login: the second is tried where the first is not good, or nobody can tell, and
 * where neither is good the error says of each why. At most two checks; one where both are the same.
 * Raises credential_missing, credential_invalid and what `verify` raises, with the headers of a refusal; no error repeats a
 * credential.
 */
export function verifyCaller<Found>(
  { authorization = '', 'x-api-key': api_key }: Headers,
  verify: (token: string) => MaybePromise<Found>,
  what_to_send = WHAT_TO_SEND,
): MaybePromise<Found> {
  const bearer = BEARER.exec(String(authorization));
  const token = bearer?.[1];
  const key = keyOf(api_key);
  if (token !== undefined && (key === '' || key === token)) return attempt(() => verify(token), refuse);
  const is_absent = authorization === '' || bearer !== null;
  if (token === undefined && is_absent) {
    if (key !== '') return attempt(() => verify(key), refuse);
    throw refusal(new StageError('credential_missing', `This request has no credential: ${what_to_send}.`));
  }
  const first = () => (token === undefined ? raiseMalformed() : verify(token));
  if (key === '') return attempt(first, refuse);
  return attempt(first, (error) => {
    if (!isTold(error)) throw error;
    return attempt(
      () => verify(key),
      (other) => refuse(isTold(other) ? ofBoth(error, other) : other),
    );
  });
}

/** Node.js joins headers of one name with commas, which no credential has; a key that is sent twice is one key. */
function keyOf(api_key: string | string[] | undefined): string {
  if (typeof api_key !== 'string') return '';
  if (!api_key.includes(',')) return api_key.trim();
  return [...new Set(api_key.split(',').map((key) => key.trim()))].join(', ');
}

function attempt<Found>(
  verify: () => MaybePromise<Found>,
  otherwise: (error: unknown) => MaybePromise<Found>,
): MaybePromise<Found> {
  try {
    // Almost always cached: then nothing is awaited.
    const found = verify();
    return found instanceof Promise ? found.catch(otherwise) : found;
  } catch (error) {
    return otherwise(error);
  }
}

/** Errors for the caller. Anything else is a failure of the gateway, which no other credential mends. */
function isTold(error: unknown): error is StageError {
  return error instanceof StageError && error.code !== 'internal_error';
}

/** The error for two credentials. Where one of them could not be checked, it may have been good: nothing is refused. */
function ofBoth(first: StageError, second: StageError): StageError {
  const unsure = [first, second].find(({ status }) => status >= 500);
  if (unsure !== undefined) return unsure;
  const { code, details, status, headers } = first;
  const message = `This request has two credentials, and neither is good. Authorization: ${first.message} x-api-key: ${second.message}`;
  return new StageError(code, message, { details, status, headers, cause: first });
}

function refuse(error: unknown): never {
  throw error instanceof StageError ? refusal(error) : error;
}

/** Trouble of the gateway's own passes unchanged. */
function refusal(error: StageError): StageError {
  if (error.status !== 401) return error;
  const { code, message, details, status, headers } = error;
  return new StageError(code, message, { details, status, headers: { ...headers, ...CHALLENGE }, cause: error });
}

function raiseMalformed(): never {
  throw new StageError(
    'credential_invalid',
    'The Authorization header is malformed: it must be the word "Bearer" followed by one token.',
  );
}
