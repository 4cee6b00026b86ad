/** The catalogue entry of one error code. */
export interface ErrorSpec {
  readonly status: number;
  /** `error.type` in the Messages envelope. */
  readonly type: string;
  /** `error.type` and `error.code` in the chat-completions and Responses envelope. */
  readonly compat: { readonly type: string; readonly code: string | null };
  /** When it is raised; for reference pages. */
  readonly meaning: string;
  /** Whether a client may send the same request again; sent as `x-should-retry` when the code decides it. */
  readonly retry: boolean;
}

/** Rejects a request that is wrong. @param code in the compat envelope */
const refused = (status: number, type: string, meaning: string, code: string | null = null): ErrorSpec => ({
  status,
  type,
  compat: { type: 'invalid_request_error', code },
  meaning,
  retry: false,
});
const invalid = (status: number, meaning: string, code?: string) =>
  refused(status, 'invalid_request_error', meaning, code);
/** A failure that may pass. */
const failed = (status: number, meaning: string, type = 'api_error', code: string | null = null): ErrorSpec => ({
  status,
  type,
  compat: { type: 'server_error', code },
  meaning,
  retry: true,
});

/** The error catalogue: every error that the gateway itself can return, by code. */
export const ERRORS = {
  invalid_json: invalid(400, 'The body is not JSON'),
  invalid_encoding: invalid(
    400,
    'The body is not UTF-8, cannot be decompressed, or has an unsupported content-encoding (status 415)',
  ),
  invalid_request: invalid(400, 'A field is missing or of the wrong type'),
  not_translatable: invalid(
    400,
    'The request uses a feature that the protocol of its upstream cannot express',
    'not_translatable',
  ),
  bad_http: invalid(400, 'The request is not well-formed HTTP'),
  credential_missing: refused(401, 'authentication_error', 'The request has no credential', 'invalid_api_key'),
  credential_invalid: refused(401, 'authentication_error', 'The credential is malformed or unknown', 'invalid_api_key'),
  credential_expired: refused(401, 'authentication_error', 'The credential has expired', 'invalid_api_key'),
  credential_revoked: refused(
    401,
    'authentication_error',
    'The credential was revoked or suspended',
    'invalid_api_key',
  ),
  forbidden: refused(403, 'permission_error', 'The caller lacks the permission', 'forbidden'),
  path_not_found: refused(404, 'not_found_error', 'No pipeline serves this path', 'unknown_url'),
  model_not_found: refused(404, 'not_found_error', 'The model does not exist for this caller', 'model_not_found'),
  policy_not_found: refused(404, 'not_found_error', 'No managed policy applies to the caller', 'policy_not_found'),
  not_found: refused(404, 'not_found_error', 'The resource does not exist for this caller', 'not_found'),
  method_not_allowed: invalid(405, 'The path does not support this method', 'method_not_allowed'),
  request_timeout: { ...refused(408, 'timeout_error', 'The client took too long to send the request'), retry: true },
  conflict: refused(409, 'conflict_error', 'The state of the resource does not allow the change', 'conflict'),
  body_too_large: refused(413, 'request_too_large', 'The body is larger than the limit', 'request_too_large'),
  expectation_failed: invalid(417, 'The Expect header is not 100-continue'),
  upgrade_required: invalid(426, 'The client requested a WebSocket; model requests are plain HTTP', 'upgrade_required'),
  headers_too_large: invalid(431, 'The request headers are larger than the limit'),
  // The coding CLI ends its turn on this type; users of the SDKs look for the code.
  spend_limit_exceeded: {
    ...refused(429, 'billing_error', 'The request would exceed a spend limit'),
    compat: { type: 'usage_limit_reached', code: 'insufficient_quota' },
  },
  rate_limit_exceeded: {
    ...refused(
      429,
      'rate_limit_error',
      'The request would exceed a limit on concurrent or failed requests, or on requests or tokens per minute',
    ),
    compat: { type: 'requests', code: 'rate_limit_exceeded' },
    retry: true,
  },
  internal_error: failed(500, 'An internal error of the gateway'),
  stage_failed: failed(500, 'A stage failed with an error that it does not declare'),
  not_supported: refused(501, 'not_supported', 'The route does not support this operation', 'not_supported'),
  upstream_unreachable: failed(502, 'The gateway cannot connect to the upstream'),
  upstream_failed: failed(502, 'No upstream returned a complete response'),
  upstream_invalid: failed(502, 'The response of the upstream does not follow its protocol'),
  store_unavailable: failed(503, 'The gateway cannot reach its database'),
  temporarily_unavailable: failed(503, 'The gateway cannot verify the credential at the moment'),
  overloaded: failed(
    503,
    'The gateway has reached a limit on its memory or connections',
    'overloaded_error',
    'server_is_overloaded',
  ),
  upstream_unavailable: failed(
    503,
    'No upstream of the route takes requests: its circuit breaker is open, or it is drained',
    'overloaded_error',
    'server_is_overloaded',
  ),
  draining: failed(503, 'This process of the gateway is shutting down; a retry reaches another process'),
  upstream_timeout: failed(
    504,
    'The upstream took too long; x-should-retry is false when the upstream may already process and bill the request',
    'timeout_error',
  ),
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
