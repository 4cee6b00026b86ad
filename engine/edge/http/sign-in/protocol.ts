import type { Router } from 'express';
import { EXPORT_BYTES_MAX, SIGNALS } from '../../../base/contract/client-telemetry.ts';
import type { AuthConfig, GatewayConfig } from '../../../base/contract/config.ts';
import { ERRORS, type ErrorSpec } from '../../../base/contract/errors.ts';
import { PROTOCOLS } from '../../../base/contract/protocol.ts';
import { CONTENT_ENCODINGS } from '../../../base/kit/decompressor.ts';
import type { PipelineSpec } from '../../../base/source/spec.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { definitionOf } from '../../../domain/protocols/index.ts';
import { REQUEST_ID_HEADER } from '../../../pipeline/run/headers.ts';
import { DEVICE_GRANT, PATHS, REFRESH_GRANT } from './paths.ts';
import { mountRoutes, type SignInOptions } from './routes.ts';

/** Input of the protocol reference. */
export interface ProtocolOptions extends Pick<SignInOptions, 'config' | 'clock' | 'log'> {
  readonly version: string;
  readonly pipelines: readonly Pick<PipelineSpec, 'match' | 'summary'>[];
}

const CACHE_SECONDS = 60;

/** Serves `/protocol`: the protocol reference for client authors, generated from the active configuration. */
export function protocolRoute(options: ProtocolOptions): Router {
  const markdown = protocolText(options);
  const headers = { 'cache-control': `public, max-age=${CACHE_SECONDS}` };
  const get = () => ({ status: 200, headers, markdown });
  return mountRoutes([{ path: PATHS.protocol, speaks: 'json', get }], options);
}

/** The protocol reference in Markdown. Public: names no upstream and no identity provider. */
export function protocolText({
  config,
  version,
  pipelines,
}: Pick<ProtocolOptions, 'config' | 'version' | 'pipelines'>): string {
  const { auth } = config;
  const parts = [
    `# Model gateway: protocol`,
    // `appscli doctor` parses this line.
    `Spoken by appscli ${version} at ${issuerOf(config)}, written from its active configuration. All paths are relative to that URL.`,
    endpoints(pipelines, auth?.oidc !== undefined),
    modelRequests(pipelines),
    credentials(auth),
    auth?.oidc === undefined ? undefined : signIn(auth),
    errors(config),
    headers(),
    spending(config),
    limits(config),
    telemetry(config),
  ];
  return `${parts.filter((part) => part !== undefined).join('\n\n')}\n`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const ENVELOPES: Readonly<Record<PipelineSpec['match']['protocol'], string>> = {
  messages: 'Messages',
  count_tokens: 'Messages',
  models: 'Messages',
  chat: 'chat completions',
  responses: 'Responses',
  none: 'Messages',
};

const SIGN_IN_ENDPOINTS: readonly (readonly string[])[] = [
  ['GET', `\`${PATHS.discovery}\``, 'OAuth server metadata.', 'OAuth'],
  ['POST', `\`${PATHS.device_authorization}\``, 'Begins a sign-in.', 'OAuth'],
  ['GET, POST', `\`${PATHS.device}\``, 'Confirms a code, in a browser.', 'a page'],
  ['GET', `\`${PATHS.callback}\``, 'Redirect URI of the identity provider, in a browser.', 'a page'],
  ['POST', `\`${PATHS.token}\``, 'Issues and renews session tokens.', 'OAuth'],
  ['POST', `\`${PATHS.revocation}\``, 'Signs out.', 'OAuth'],
];

function endpoints(pipelines: ProtocolOptions['pipelines'], has_sign_in: boolean): string {
  const rows = pipelines.flatMap(({ match, summary }) =>
    match.paths.map((path) => [match.methods.join(', '), `\`${path}\``, summary, ENVELOPES[match.protocol]]),
  );
  const fixed = [
    ['GET', '`/`', 'Front page: HTML for browsers, JSON for programs.', ''],
    ['GET', `\`${PATHS.protocol}\``, 'This document.', ''],
    ['GET', '`/admin/api/openapi.json`', 'The administration API, as OpenAPI.', 'Messages'],
  ];
  return `## Endpoints

${table(['method', 'path', 'what it does', 'error envelope'], [...rows, ...(has_sign_in ? SIGN_IN_ENDPOINTS : []), ...fixed])}

Paths match exactly, without the query, which is passed on; a trailing \`/*\` matches everything below. Endpoints never redirect.`;
}

function modelRequests(pipelines: ProtocolOptions['pipelines']): string | undefined {
  const rows = PROTOCOLS.flatMap((protocol) =>
    pipelines
      .filter(({ match }) => match.protocol === protocol)
      .flatMap(({ match }) => match.paths)
      .map((path) => [
        ENVELOPES[protocol],
        `\`<root>${definitionOf(protocol).clients.base_path}\``,
        `\`POST ${path}\``,
      ]),
  );
  if (rows.length === 0) return undefined;
  return `## Model requests

${table(['protocol', 'base URL of clients', 'request'], rows)}

\`<root>\` is the URL of this gateway. If the model's provider speaks the client's protocol, bodies and streams pass through unchanged,
with fields and headers unknown to the gateway. Otherwise they are translated: what the other protocol cannot express is omitted,
rephrased, or rejected with \`not_translatable\` and the name of the \`rule\`. Token counting works for models whose provider
supports it; for others the response is 501 \`not_supported\`, never an estimate. Requests are plain HTTP: a WebSocket handshake gets
426. A \`ping\` event in a Messages stream, or a comment line in other streams, is a keep-alive while the provider is silent.

\`GET /v1/models\` is one list for all clients: \`data\` with \`id\`, \`display_name\`, \`context_window\`, \`max_tokens\` and \`capabilities\` of
every model the caller may use. \`limit\` (at most 1000), \`after_id\` and \`before_id\` select a page; without them the list is complete.`;
}

function credentials(auth: AuthConfig | undefined): string {
  const session = auth?.oidc === undefined ? '' : ', or a session token (see Sign-in)';
  return `## Credentials

Send \`authorization: Bearer <token>\` or \`x-api-key: <token>\`. With both, the authorization header is checked first, then the
other. The token is an access token, which begins with \`gw_\`${session}. A missing, unknown, expired or revoked credential
gets 401, JSON and \`x-should-retry: false\`.`;
}

function signIn({ session, limits, login_notice }: AuthConfig): string {
  const notice = login_notice === undefined ? '' : ' `login_notice` is a text to show to the person.';
  return `## Sign-in

OAuth 2.0 device authorization (RFC 8628), without client identifier and client secret; other parameters are ignored. Bodies are
forms (\`application/x-www-form-urlencoded\`), responses are JSON.

1. \`GET ${PATHS.discovery}\` returns the endpoints (RFC 8414), all on this origin.
2. \`POST ${PATHS.device_authorization}\` returns \`device_code\`, \`user_code\`, \`verification_uri\`, \`verification_uri_complete\`,
   \`expires_in\` and \`interval\` (both in seconds).${notice} The optional \`surface\` is the program's name, shown to the person.
3. The person opens \`verification_uri_complete\` (or \`${PATHS.device}\`, and types the code), confirms it and signs in at the
   identity provider, which redirects the browser to \`${PATHS.callback}\`.
4. Meanwhile poll \`POST ${PATHS.token}\` with \`grant_type=${DEVICE_GRANT}\` and \`device_code\`, once per interval.
   Success is 200 with \`access_token\`, \`token_type\` (\`Bearer\`), \`expires_in\`, \`refresh_token\` and \`email\`. Until then it is 400 with
   \`authorization_pending\`, or \`slow_down\`: add five seconds to the interval. \`access_denied\`, \`expired_token\` and
   \`invalid_grant\` end the attempt; \`error_description\` is a sentence for the person with the reason. A device code is valid for one
   session: after a lost response, poll again within half a minute. Later, or once the session was renewed, a second use ends the session.
5. A session token is valid for ${session.ttl_minutes} minutes. Renew it with \`POST ${PATHS.token}\`, \`grant_type=${REFRESH_GRANT}\` and \`refresh_token\`: the response is
   that of step 4, with a new refresh token in place of the old one. A session lasts ${session.refresh_days} days. After a lost response, send
   the same refresh token again; processes that share one get the same successor within half a minute.
   503 with \`temporarily_unavailable\` once, then 401 with \`invalid_grant\`: read the stored credentials again, as another process may have renewed them; if none did, sign in again.
   Any 503 with \`temporarily_unavailable\`: nothing is decided; retry after \`retry-after\`.
6. \`POST ${PATHS.revocation}\` with \`token\`, a session or refresh token, ends the session (RFC 7009). Its tokens are rejected
   everywhere within a second.

Errors have the form of RFC 6749: \`{"error": "...", "error_description": "..."}\`. Limits per address and ${limits.window_seconds} seconds:
${limits.device_authorizations} unfinished sign-ins and ${limits.code_submissions} wrong codes; beyond that the response is 429 with \`slow_down\` and \`retry-after\`.
After ${limits.refused_credentials} invalid codes and tokens it is 429 with \`slow_down\` for device codes, else \`temporarily_unavailable\`: nothing is
decided about the credential that was sent.`;
}

function errors({ spend_limits }: GatewayConfig): string {
  const rows = Object.entries(ERRORS).map(([code, spec]: [string, ErrorSpec]) => {
    const retry = spec.retry === undefined ? '' : String(spec.retry);
    const status = (code === 'spend_limit_exceeded' ? spend_limits?.status : undefined) ?? spec.status;
    return [`\`${code}\``, String(status), `\`${spec.type}\``, `\`${spec.compat.type}\``, retry, spec.meaning];
  });
  return `## Errors

Messages envelope: \`{"type": "error", "error": {"type", "message", "code", ...}, "request_id"}\`. Envelope of chat completions and
Responses: \`{"error": {"message", "type", "code", "param", ..., "request_id"}}\`. An error of a model's provider is passed on unchanged.
After the first byte of a stream, an error is one more event. The column "retry" is the value of \`x-should-retry\`.

${table(['code', 'status', 'type (Messages)', 'type (chat completions, Responses)', 'retry', 'meaning'], rows)}`;
}

function headers(): string {
  const rows = [
    [`\`${REQUEST_ID_HEADER}\``, 'Identifier of the request, for problem reports.'],
    ['`x-should-retry`', '`false`: the same request would fail again. `true`: retry it.'],
    [
      '`retry-after`',
      'Whole seconds to wait before a retry; on chat completions and Responses at most 60, and 0 if no wait helps.',
    ],
  ];
  return `## Response headers

${table(['header', 'meaning'], rows)}`;
}

function spending({ server }: GatewayConfig): string {
  const name = (rest: string) => `\`${server.profile.header_prefix}-ratelimit-unified-${rest}\``;
  const rows = [
    [name('status'), '`allowed`; `allowed_warning` from three quarters on; `rejected`'],
    [`${name('reset')}, ${name('overage-reset')}`, 'when the limit resets, in seconds since the epoch'],
    [name('representative-claim'), '`overage`; only on success'],
    [name('overage-status'), 'the same as the status; only on success'],
    [name('overage-utilization'), 'share spent or reserved, two decimals below 1; `1` on a rejection'],
    [name('overage-surpassed-threshold'), '`0.75` or `0.95` once exceeded; `1` on a rejection'],
    [name('overage-period'), '`daily`, `weekly` or `monthly`; only on a rejection'],
    [name('overage-disabled-reason'), '`org_spend_cap_reached`; `fetch_error` if the limits cannot be read'],
    [name('overage-scope'), '`group_pool`: the limit is shared with others; only on a rejection'],
  ];
  return `## Spending

For callers with a spend limit, responses and rejections report the limit with the highest utilization or the latest reset.
Rate limit headers of a model's provider are removed, except from its errors.

${table(['header', 'meaning'], rows)}

\`spend_limit_exceeded\` has \`limit_usd\`, \`spent_usd\`, \`reserved_usd\`, \`reserved_by_requests\`, \`needed_usd\`, \`window\`, \`scope\`, \`key\`,
\`resets_at\` and \`rule\`; \`rate_limit_exceeded\` has \`limit\`, \`unit\`, \`used\`, \`reserved\`, \`in_flight\`, \`needed\`, \`window\`, \`scope\`, \`key\`,
\`resets_at\` (null for a limit on concurrent requests) and \`rule\`. Both list all exceeded limits in \`exceeded\`.
For a limit that an administrator set at run time, \`rule\` is \`set at run time\` and \`set_at\` is the time. With grants,
\`granted_usd\` (or \`granted\`) is their part of the limit, and \`granted_until\` the end of the first.
In the Messages envelope \`resets_at\` is a time such as \`2026-03-11T00:00:00.000Z\`; in that of chat completions and Responses it
is seconds since the epoch, and \`reset_time\` is the text. There the type of a rejection that lasts longer than a minute is
\`usage_limit_reached\`, for every limit${refusalHeader(server)}.`;
}

function refusalHeader({ profile: { refusal_header } }: GatewayConfig['server']): string {
  return refusal_header === undefined ? '' : `, and the header \`${refusal_header}\` has its sentence in ASCII`;
}

function limits({ server }: GatewayConfig): string {
  const { limits, timeouts } = server;
  const rows = [
    ['request body, decompressed', `${limits.body_bytes} bytes`],
    ['request line and headers', `${limits.header_bytes} bytes`],
    ['time to receive a body', `${timeouts.request_body_seconds} seconds`],
    ['pause while receiving a body', `${timeouts.request_silence_seconds} seconds`],
    ['concurrent requests of one caller', `${limits.requests_per_principal}`],
    ['wait for the first byte of a stream', `${timeouts.first_byte_seconds} seconds`],
    ['wait for a non-streaming response', `${timeouts.non_streaming_first_byte_seconds} seconds`],
    ['pause in a response', `${timeouts.idle_seconds} seconds`],
  ];
  return `## Limits

${table(['what', 'at most'], rows)}

Bodies may be compressed: \`content-encoding\` ${CONTENT_ENCODINGS.map((name) => `\`${name}\``).join(', ')}. Any other coding gets 415 with
\`accept-encoding\`, a corrupt body 400.`;
}

function telemetry({ telemetry: { forward_to } }: GatewayConfig): string {
  const passed = SIGNALS.filter((signal) => forward_to.some((destination) => destination[signal]));
  const paths = SIGNALS.map((signal) => `\`POST /v1/${signal}\``).join(', ');
  const forwards = passed.length === 0 ? 'no signal' : passed.join(', ');
  return `## Telemetry of clients

${paths} accept OTLP/HTTP exports (OTLP 1.x): protobuf (\`application/x-protobuf\`) or JSON
(\`application/json\`), optionally compressed, at most ${EXPORT_BYTES_MAX} bytes after decompression, with the same credentials as model
requests. The response is 200 with an empty export response, even if no destination receives the signal. Exports are forwarded unchanged,
with headers that identify the sender; this gateway forwards: ${forwards}. Errors are \`google.rpc.Status\` in the encoding of the
request; 429 and 503 have \`retry-after\`.`;
}
