/** Error codes of RFC 6749 section 5.2, RFC 8628 section 3.5 and RFC 7009 section 2.2.1 that sign-in answers with. */
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

/** Why a sign-in request is refused; the message is for whoever reads the client's error, and holds no secret. */
export class OAuthError extends Error {
  readonly error: OAuthErrorCode;
  /** HTTP status. */
  readonly status: number;
  /** Extra response headers, such as `retry-after`. */
  readonly headers: Readonly<Record<string, string>>;
  /** One word for telemetry that says more than the code does. */
  readonly reason: string | undefined;

  constructor(
    error: OAuthErrorCode,
    message: string,
    more: { status?: number; headers?: Record<string, string>; cause?: unknown; reason?: string } = {},
  ) {
    super(message, { cause: more.cause });
    this.name = 'OAuthError';
    this.error = error;
    this.status = more.status ?? 400;
    this.headers = more.headers ?? {};
    this.reason = more.reason;
  }
}

/** What is not at hand for a moment: the client is to send the same request again. */
export function temporarilyUnavailable(
  message: string,
  { cause, retry_after_seconds = 1, reason }: { cause?: unknown; retry_after_seconds?: number; reason?: string } = {},
): OAuthError {
  const headers = { 'retry-after': String(retry_after_seconds) };
  const more = { status: 503, headers, cause, ...(reason !== undefined && { reason }) };
  return new OAuthError('temporarily_unavailable', message, more);
}

/** How long to wait, for people. */
function formatWait(seconds: number): string {
  if (seconds < 90) return `${seconds} ${seconds === 1 ? 'second' : 'seconds'}`;
  return `${Math.ceil(seconds / 60)} minutes`;
}

/** One request too many; the message is completed by when to try again. `slow_down` where a device is waiting, which then asks less often. */
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
