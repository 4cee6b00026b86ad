import { StageError } from '../../contract/errors.ts';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

type MaybePromise<T> = T | Promise<T>;

const BEARER = /^bearer(?: +(\S+))? *$/i;

/** Headers of a 401 response: do not retry with the same credential (RFC 6750 section 3). */
const CHALLENGE = { 'www-authenticate': 'Bearer', 'x-should-retry': 'false' };

const WHAT_TO_SEND =
  'send an access token or session token as "Authorization: Bearer <token>" or as "x-api-key: <token>"';

/**
 * Authenticates a request by `Authorization: Bearer`, otherwise by `x-api-key`; some clients send both, one of them outdated. The
 * second is tried if the first fails or cannot be checked; if both fail, the error has both reasons, and no credential.
 * Raises credential_missing, credential_invalid and the errors of `verify`, with challenge headers.
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
    if (!isCallerError(error)) throw error;
    return attempt(
      () => verify(key),
      (other) => refuse(isCallerError(other) ? ofBoth(error, other) : other),
    );
  });
}

/** Node.js joins repeated headers with commas, which no credential contains; a repeated key counts once. */
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
    // Synchronous for a cached token, which is the usual case.
    const found = verify();
    return found instanceof Promise ? found.catch(otherwise) : found;
  } catch (error) {
    return otherwise(error);
  }
}

/** Whether the error concerns the caller. After an internal error, another credential would not help. */
function isCallerError(error: unknown): error is StageError {
  return error instanceof StageError && error.code !== 'internal_error';
}

/** The error for two credentials. If one could not be checked, that error wins, because the credential may be valid. */
function ofBoth(first: StageError, second: StageError): StageError {
  const unsure = [first, second].find(({ status }) => status >= 500);
  if (unsure !== undefined) return unsure;
  const { code, details, status, headers } = first;
  const message = `This request has two credentials, and neither is valid. Authorization: ${first.message} x-api-key: ${second.message}`;
  return new StageError(code, message, { details, status, headers, cause: first });
}

function refuse(error: unknown): never {
  throw error instanceof StageError ? refusal(error) : error;
}

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
