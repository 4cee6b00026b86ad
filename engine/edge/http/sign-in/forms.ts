import type { IncomingMessage } from 'node:http';
import type { Request } from 'express';
import type { Clock } from '../../../base/contract/services.ts';
import { isPlain, mediaType } from '../../../base/kit/media-type.ts';
import { readAll } from '../../../base/kit/read-all.ts';
import type { Identity } from '../../../domain/identity/identity.ts';
import { isCrossSiteEmbed } from './cookies.ts';

/** OAuth error codes of sign-in: RFC 6749 section 5.2, RFC 8628 section 3.5, RFC 7009 section 2.2.1. */
export type OAuthErrorCode =
  | 'invalid_request'
  | 'invalid_grant'
  | 'unsupported_grant_type'
  | 'unsupported_token_type'
  | 'authorization_pending'
  | 'slow_down'
  | 'access_denied'
  | 'expired_token'
  | 'temporarily_unavailable'
  | 'not_supported'
  | 'server_error';

/** A rejected sign-in request. Clients show the message to people; it contains no secret. */
export class OAuthError extends Error {
  readonly error: OAuthErrorCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** `error_type` in telemetry, more specific than the code. */
  readonly reason: string | undefined;

  constructor(
    error: OAuthErrorCode,
    message: string,
    more: { status?: number; headers?: Record<string, string>; cause?: unknown; reason?: string | undefined } = {},
  ) {
    super(message, { cause: more.cause });
    this.name = 'OAuthError';
    this.error = error;
    this.status = more.status ?? 400;
    this.headers = more.headers ?? {};
    this.reason = more.reason;
  }
}

/** A temporary failure: the client should send the same request again. */
export function temporarilyUnavailable(
  message: string,
  { cause, retry_after_seconds = 1, reason }: { cause?: unknown; retry_after_seconds?: number; reason?: string } = {},
): OAuthError {
  const headers = { 'retry-after': String(retry_after_seconds) };
  return new OAuthError('temporarily_unavailable', message, { status: 503, headers, cause, reason });
}

function formatWait(seconds: number): string {
  if (seconds < 90) return `${seconds} ${seconds === 1 ? 'second' : 'seconds'}`;
  return `${Math.ceil(seconds / 60)} minutes`;
}

/** Rate limit error; appends the time to wait to the message. With `slow_down`, a waiting device polls less often. */
export function tooManyRequests(
  message: string,
  retry_after_seconds: number,
  error: 'slow_down' | 'temporarily_unavailable' = 'slow_down',
): OAuthError {
  return new OAuthError(error, `${message} Try again in ${formatWait(retry_after_seconds)}.`, {
    status: 429,
    headers: { 'retry-after': String(retry_after_seconds) },
  });
}

const FORM = 'application/x-www-form-urlencoded';

/** How a form is read: by when, and how large it may be. */
export interface FormLimits {
  readonly clock: Clock;
  readonly seconds: number;
  readonly max_bytes?: number;
}

/** Parameters of a form or query; an empty one counts as missing. Raises OAuthError for duplicates (RFC 6749 section 3.2). */
function readParameters(text: string) {
  const parameters = new URLSearchParams(text);
  const names = new Set<string>();
  for (const name of parameters.keys()) {
    if (names.has(name)) {
      const shown = /^\w{1,40}$/.test(name) ? `"${name}"` : 'one of the parameters';
      throw new OAuthError('invalid_request', `Duplicate parameter: the request has ${shown} more than once.`);
    }
    names.add(name);
  }
  const get = (name: string): string | undefined => parameters.get(name) || undefined;
  return {
    get,
    require(name: string): string {
      const value = get(name);
      if (value === undefined) throw new OAuthError('invalid_request', `Missing parameter "${name}".`);
      return value;
    },
  };
}

const MAX_BYTES = 16_384;

/** Parses the query of a request target. Raises OAuthError for duplicates and for a query that is too long. */
export function readQuery(url: string) {
  const at = url.indexOf('?');
  const query = at < 0 ? '' : url.slice(at + 1);
  if (query.length > MAX_BYTES) {
    throw new OAuthError('invalid_request', `The query of the URL is longer than ${MAX_BYTES} bytes.`, { status: 414 });
  }
  return readParameters(query);
}

/**
 * Reads a form-encoded body; a missing body is an empty form. Raises OAuthError for another media type, for a body that is too
 * large or too slow, and for duplicates.
 */
export async function readForm(req: IncomingMessage, limits: FormLimits) {
  const { max_bytes = MAX_BYTES } = limits;
  const length = req.headers['content-length'];
  if (Number(length ?? 0) > max_bytes) throw tooLarge(max_bytes);
  const bytes = await readBytes(req, { ...limits, max_bytes });
  if (bytes.length > 0) checkType(req.headers['content-type'], req.headers['content-encoding']);
  return readParameters(bytes.toString('utf8'));
}

function checkType(type = '', encoding?: string): void {
  if (mediaType(type) !== FORM) {
    throw new OAuthError('invalid_request', `The body must be a form: send it with "content-type: ${FORM}".`);
  }
  const [, charset = 'utf-8'] = /;\s*charset="?([^;"\s]*)/i.exec(type) ?? [];
  if (charset.toLowerCase() !== 'utf-8') {
    throw new OAuthError('invalid_request', 'The form must be UTF-8.');
  }
  if (!isPlain(encoding)) {
    const problem = 'The form must not be compressed; send it without content-encoding.';
    throw new OAuthError('invalid_request', problem, { status: 415, headers: { 'accept-encoding': 'identity' } });
  }
}

function tooLarge(max_bytes: number): OAuthError {
  // The rest of the body is never read.
  const headers = { connection: 'close' };
  return new OAuthError('invalid_request', `The form is larger than ${max_bytes} bytes.`, { status: 413, headers });
}

async function readBytes(req: IncomingMessage, { clock, seconds, max_bytes }: Required<FormLimits>): Promise<Buffer> {
  const late = Promise.withResolvers<never>();
  const timer = clock.after(seconds * 1000, () => {
    const more = { status: 408, headers: { connection: 'close' } };
    late.reject(new OAuthError('invalid_request', 'The form took too long to arrive.', more));
  });
  // Keep the request open for its response.
  const body: AsyncIterable<Buffer> = req.iterator({ destroyOnReturn: false });
  try {
    return await Promise.race([readAll(body, max_bytes, () => tooLarge(max_bytes)), late.promise]);
  } catch (error) {
    if (error instanceof OAuthError) throw error;
    throw new OAuthError('invalid_request', 'The connection ended before the form did.', { cause: error });
  } finally {
    timer.close();
  }
}

/** Rejects background requests from pages of other sites. Raises OAuthError. */
export function rejectCrossSiteEmbed({ headers }: Request, message = 'This page cannot be embedded.'): void {
  if (isCrossSiteEmbed(headers)) throw new OAuthError('invalid_request', message, { status: 403 });
}

/** Enforces the request rate limit per address. Raises OAuthError. */
export function requireRequestRate(
  { identity, addressOf }: { readonly identity: Pick<Identity, 'attempts'>; addressOf(req: Request): string },
  req: Request,
): void {
  const limit = identity.attempts.request(addressOf(req));
  if (limit === undefined) return;
  throw tooManyRequests('Too many requests from your address.', limit.retry_after_seconds);
}
