/** The catalogue entry of one error code. */
export interface ErrorSpec {
  /** HTTP status. */
  readonly status: number;
  /** `error.type` in the Messages envelope. */
  readonly type: string;
  /** `error.type` and `error.code` in the chat-completions and Responses envelope. */
  readonly compat: { readonly type: string; readonly code: string | null };
  /** When it is raised; for reference pages. */
  readonly meaning: string;
  /** Whether a client may send the same request again; sent as `x-should-retry` when the code decides it. */
  readonly retry?: boolean;
}

const invalid = { type: 'invalid_request_error', code: null } as const;
const credential = { type: 'invalid_request_error', code: 'invalid_api_key' } as const;
const server = { type: 'server_error', code: null } as const;

/** The error catalogue: every error the gateway itself can answer with, by code. */
export const ERRORS = {
  invalid_json: {
    status: 400,
    type: 'invalid_request_error',
    compat: invalid,
    meaning: 'The body is not JSON',
    retry: false,
  },
  invalid_encoding: {
    status: 400,
    type: 'invalid_request_error',
    compat: invalid,
    meaning: 'The body is not UTF-8, its content-encoding is not supported (status 415), or it is not encoded that way',
    retry: false,
  },
  invalid_request: {
    status: 400,
    type: 'invalid_request_error',
    compat: invalid,
    meaning: 'A field is missing or of the wrong type',
    retry: false,
  },
  not_translatable: {
    status: 400,
    type: 'invalid_request_error',
    compat: { type: 'invalid_request_error', code: 'not_translatable' },
    meaning: 'The request uses a feature that the protocol of its upstream cannot express',
    retry: false,
  },
  bad_http: {
    status: 400,
    type: 'invalid_request_error',
    compat: invalid,
    meaning: 'The request is not well-formed HTTP',
    retry: false,
  },
  credential_missing: {
    status: 401,
    type: 'authentication_error',
    compat: credential,
    meaning: 'The request has no credential',
    retry: false,
  },
  credential_invalid: {
    status: 401,
    type: 'authentication_error',
    compat: credential,
    meaning: 'The credential is malformed or unknown',
    retry: false,
  },
  credential_expired: {
    status: 401,
    type: 'authentication_error',
    compat: credential,
    meaning: 'The credential has expired',
    retry: false,
  },
  credential_revoked: {
    status: 401,
    type: 'authentication_error',
    compat: credential,
    meaning: 'The credential was revoked',
    retry: false,
  },
  forbidden: {
    status: 403,
    type: 'permission_error',
    compat: { type: 'invalid_request_error', code: 'forbidden' },
    meaning: 'The caller lacks the permission',
    retry: false,
  },
  path_not_found: {
    status: 404,
    type: 'not_found_error',
    compat: { type: 'invalid_request_error', code: 'unknown_url' },
    meaning: 'No pipeline serves this path',
    retry: false,
  },
  model_not_found: {
    status: 404,
    type: 'not_found_error',
    compat: { type: 'invalid_request_error', code: 'model_not_found' },
    meaning: 'The model does not exist for this caller',
    retry: false,
  },
  policy_not_found: {
    status: 404,
    type: 'not_found_error',
    compat: { type: 'invalid_request_error', code: 'policy_not_found' },
    meaning: 'No managed policy applies to the caller',
    retry: false,
  },
  not_found: {
    status: 404,
    type: 'not_found_error',
    compat: { type: 'invalid_request_error', code: 'not_found' },
    meaning: 'The resource does not exist for this caller',
    retry: false,
  },
  method_not_allowed: {
    status: 405,
    type: 'invalid_request_error',
    compat: { type: 'invalid_request_error', code: 'method_not_allowed' },
    meaning: 'The path does not support this method',
    retry: false,
  },
  request_timeout: {
    status: 408,
    type: 'timeout_error',
    compat: invalid,
    meaning: 'The client took too long to send the request',
    retry: true,
  },
  conflict: {
    status: 409,
    type: 'conflict_error',
    compat: { type: 'invalid_request_error', code: 'conflict' },
    meaning: 'The state of the resource does not allow the change',
    retry: false,
  },
  body_too_large: {
    status: 413,
    type: 'request_too_large',
    compat: { type: 'invalid_request_error', code: 'request_too_large' },
    meaning: 'The body is larger than the limit',
    retry: false,
  },
  expectation_failed: {
    status: 417,
    type: 'invalid_request_error',
    compat: invalid,
    meaning: 'The Expect header is not 100-continue',
    retry: false,
  },
  upgrade_required: {
    status: 426,
    type: 'invalid_request_error',
    compat: { type: 'invalid_request_error', code: 'upgrade_required' },
    meaning: 'The client asked for a WebSocket; model requests are plain HTTP',
    retry: false,
  },
  headers_too_large: {
    status: 431,
    type: 'invalid_request_error',
    compat: invalid,
    meaning: 'The request headers are larger than the limit',
    retry: false,
  },
  spend_limit_exceeded: {
    status: 429,
    type: 'billing_error',
    // The coding CLI ends its turn on this type; users of the SDKs look for the code.
    compat: { type: 'usage_limit_reached', code: 'insufficient_quota' },
    meaning: 'The request would exceed a spend limit',
    retry: false,
  },
  rate_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    compat: { type: 'requests', code: 'rate_limit_exceeded' },
    meaning: 'The request would exceed a limit on concurrent requests, or on requests or tokens per minute',
    retry: true,
  },
  internal_error: {
    status: 500,
    type: 'api_error',
    compat: server,
    meaning: 'An internal error of the gateway',
    retry: true,
  },
  stage_failed: {
    status: 500,
    type: 'api_error',
    compat: server,
    meaning: 'A stage failed with an error that it does not declare',
    retry: true,
  },
  not_supported: {
    status: 501,
    type: 'not_supported',
    compat: { type: 'invalid_request_error', code: 'not_supported' },
    meaning: 'The route does not support this operation',
    retry: false,
  },
  upstream_unreachable: {
    status: 502,
    type: 'api_error',
    compat: server,
    meaning: 'The gateway cannot connect to the upstream',
    retry: true,
  },
  upstream_failed: {
    status: 502,
    type: 'api_error',
    compat: server,
    meaning: 'The upstream closed the connection before its response was complete',
    retry: true,
  },
  upstream_invalid: {
    status: 502,
    type: 'api_error',
    compat: server,
    meaning: 'The response of the upstream does not follow its protocol',
    retry: true,
  },
  store_unavailable: {
    status: 503,
    type: 'api_error',
    compat: server,
    meaning: 'The gateway cannot reach its database',
    retry: true,
  },
  temporarily_unavailable: {
    status: 503,
    type: 'api_error',
    compat: server,
    meaning: 'The gateway cannot verify the credential at the moment',
    retry: true,
  },
  overloaded: {
    status: 503,
    type: 'overloaded_error',
    compat: { type: 'server_error', code: 'server_is_overloaded' },
    meaning: 'The gateway has reached a limit on its memory or connections',
    retry: true,
  },
  upstream_unavailable: {
    status: 503,
    type: 'overloaded_error',
    compat: { type: 'server_error', code: 'server_is_overloaded' },
    meaning: 'No upstream of the route takes requests: its circuit breaker is open, or it is drained',
    retry: true,
  },
  draining: { status: 503, type: 'api_error', compat: server, meaning: 'The gateway is shutting down', retry: true },
  upstream_timeout: {
    status: 504,
    type: 'timeout_error',
    compat: server,
    meaning: 'The upstream took too long; not retryable once the upstream has the request',
    retry: true,
  },
} as const satisfies Record<string, ErrorSpec>;

/** A code of the error catalogue. */
export type ErrorCode = keyof typeof ERRORS;

type ErrorDetail = string | number | boolean | null;

/** Typed fields beside `type` and `message` in the error envelope. They never contain prompt text or secrets. */
export type ErrorDetails = Readonly<
  Record<string, ErrorDetail | Readonly<Record<string, ErrorDetail>> | readonly Readonly<Record<string, ErrorDetail>>[]>
>;

/** Thrown by a stage to reject or fail a request: a catalogue code, a message for people, typed details. */
export class StageError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  /** HTTP status: the one of the catalogue, unless the operator chose another. */
  readonly status: number;
  /** Extra response headers, such as `retry-after`. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ErrorCode,
    message: string,
    more: { details?: ErrorDetails; status?: number; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.name = 'StageError';
    this.code = code;
    this.details = more.details ?? {};
    this.status = more.status ?? ERRORS[code].status;
    this.headers = more.headers ?? {};
  }
}
