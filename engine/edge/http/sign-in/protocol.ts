import type { Router } from 'express';
import { EXPORT_BYTES_MAX, SIGNALS } from '../../../base/contract/client-telemetry.ts';
import type { AuthConfig, GatewayConfig } from '../../../base/contract/config.ts';
import { ERRORS, type ErrorSpec } from '../../../base/contract/errors.ts';
import { CONTENT_ENCODINGS } from '../../../base/kit/decompressor.ts';
import type { PipelineSpec } from '../../../base/source/spec.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { REQUEST_ID_HEADER } from '../../../pipeline/run/headers.ts';
import {
  CALLBACK_PATH,
  DEVICE_AUTHORIZATION_PATH,
  DEVICE_GRANT,
  DEVICE_PATH,
  DISCOVERY_PATH,
  PROTOCOL_PATH,
  REFRESH_GRANT,
  REVOCATION_PATH,
  TOKEN_PATH,
} from './paths.ts';
import { mountRoutes, type SignInOptions } from './routes.ts';

/** What the contract is written from. */
export interface ProtocolOptions extends Pick<SignInOptions, 'config' | 'clock' | 'log'> {
  /** Of the program. */
  readonly version: string;
  readonly pipelines: readonly Pick<PipelineSpec, 'match' | 'summary'>[];
}

const CACHE_SECONDS = 60;

/** Serves `/protocol`: what this gateway speaks, for authors of clients, as the configuration in force has it. */
export function protocolRoute(options: ProtocolOptions): Router {
  const markdown = protocolText(options);
  const headers = { 'cache-control': `public, max-age=${CACHE_SECONDS}` };
  const get = () => ({ status: 200, headers, markdown });
  return mountRoutes([{ path: PROTOCOL_PATH, speaks: 'json', get }], options);
}

/** The contract, in Markdown. Names nothing that only operators are to know: no upstream, no identity provider. */
export function protocolText({
  config,
  version,
  pipelines,
}: Pick<ProtocolOptions, 'config' | 'version' | 'pipelines'>): string {
  const { auth } = config;
  const parts = [
    `# Model gateway: protocol`,
    `Spoken by appscli ${version} at ${issuerOf(config)}, written from its configuration in force. All paths are relative to that URL.`,
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
  ['GET', `\`${DISCOVERY_PATH}\``, 'Says where to sign in.', 'OAuth'],
  ['POST', `\`${DEVICE_AUTHORIZATION_PATH}\``, 'Begins a sign-in.', 'OAuth'],
  ['GET, POST', `\`${DEVICE_PATH}\``, 'Confirms a code, in a browser.', 'a page'],
  ['GET', `\`${CALLBACK_PATH}\``, 'Ends the way through the identity provider, in a browser.', 'a page'],
  ['POST', `\`${TOKEN_PATH}\``, 'Gives and renews session tokens.', 'OAuth'],
  ['POST', `\`${REVOCATION_PATH}\``, 'Signs out.', 'OAuth'],
];

function endpoints(pipelines: ProtocolOptions['pipelines'], has_sign_in: boolean): string {
  const rows = pipelines.flatMap(({ match, summary }) =>
    match.paths.map((path) => [match.methods.join(', '), `\`${path}\``, summary, ENVELOPES[match.protocol]]),
  );
  const fixed = [
    ['GET', '`/`', 'What this is: a page in a browser, JSON for programs.', ''],
    ['GET', `\`${PROTOCOL_PATH}\``, 'This text.', ''],
    ['GET', '`/admin/api/openapi.json`', 'The administration API, as OpenAPI.', 'Messages'],
  ];
  return `## Endpoints

${table(['method', 'path', 'what it does', 'errors in the envelope of'], [...rows, ...(has_sign_in ? SIGN_IN_ENDPOINTS : []), ...fixed])}

A path is matched exactly as it is sent, without its query, which is passed on; \`/*\` at its end stands for everything below it.
Endpoints never redirect.`;
}

/** Where each protocol takes model requests, for whom, and what the gateway does with them. */
function modelRequests(pipelines: ProtocolOptions['pipelines']): string | undefined {
  const bases: readonly (readonly [PipelineSpec['match']['protocol'], string])[] = [
    ['messages', '`<root>`'],
    ['chat', '`<root>/v1`'],
    ['responses', '`<root>/v1`'],
  ];
  const rows = bases.flatMap(([protocol, base]) =>
    pipelines
      .filter(({ match }) => match.protocol === protocol)
      .flatMap(({ match }) => match.paths.map((path) => [ENVELOPES[protocol], base, `\`POST ${path}\``])),
  );
  if (rows.length === 0) return undefined;
  return `## Model requests

${table(['protocol', 'base URL of its clients', 'request'], rows)}

\`<root>\` is the address of this gateway. Where the provider of a model speaks the protocol of the client, bodies and streams pass as they are,
fields and headers unknown here included. Where it speaks another, they are translated: what that protocol cannot say is left out, put
in other words, or refused with \`not_translatable\` and the name of the \`rule\`. Tokens are counted for models whose provider can
count them; for others the answer is 501 \`not_supported\`, never a guess. Requests are plain HTTP: a WebSocket handshake is
answered 426. An event \`ping\` in a Messages stream, or a comment line in another, says that a silent provider is still at it.

\`GET /v1/models\` is one list for all clients: \`data\` with \`id\`, \`display_name\`, \`context_window\`, \`max_tokens\` and \`capabilities\` of
every model the caller may use. \`limit\` (at most 1000), \`after_id\` and \`before_id\` take a page of it; without them it is whole.`;
}

function credentials(auth: AuthConfig | undefined): string {
  const session = auth?.oidc === undefined ? '' : ', or the session token of somebody who signed in (see Sign-in)';
  return `## Credentials

Send one as \`authorization: Bearer <token>\` or as \`x-api-key: <token>\`. When both are there, the authorization header
decides; where that is not good, the other one. It is an access token, which begins with \`gw_\`${session}. A credential that is missing,
unknown, expired or revoked is answered with 401, JSON and \`x-should-retry: false\`.`;
}

function signIn({ session, limits, login_notice }: AuthConfig): string {
  const notice = login_notice === undefined ? '' : ' `login_notice` is a text to show to the person.';
  return `## Sign-in

OAuth 2.0 device authorization (RFC 8628). There is no client identifier and no client secret; parameters that are not
named here are ignored. Bodies are forms (\`application/x-www-form-urlencoded\`), answers are JSON.

1. \`GET ${DISCOVERY_PATH}\` names the endpoints (RFC 8414). All of them are on this origin.
2. \`POST ${DEVICE_AUTHORIZATION_PATH}\` answers \`device_code\`, \`user_code\`, \`verification_uri\`, \`verification_uri_complete\`,
   \`expires_in\` and \`interval\` (both in seconds).${notice} With \`surface\`, the name of the program, the person is shown that name.
3. The person opens \`verification_uri_complete\` (or \`${DEVICE_PATH}\`, and types the code), confirms it and signs in with the
   identity provider, which sends the browser back to \`${CALLBACK_PATH}\`.
4. Meanwhile \`POST ${TOKEN_PATH}\` with \`grant_type=${DEVICE_GRANT}\` and \`device_code\`, once per interval.
   It answers 200 with \`access_token\`, \`token_type\` (\`Bearer\`), \`expires_in\`, \`refresh_token\` and \`email\`; until then 400 with
   \`authorization_pending\`, or \`slow_down\`: add five seconds to the interval. \`access_denied\`, \`expired_token\` and
   \`invalid_grant\` end the attempt; \`error_description\` is a sentence for the person, which says why somebody was refused. A device code is good for one
   session: when the answer got lost, ask again within half a minute; after that, or once the session was renewed, a second use ends the session.
5. A session token lives for ${session.ttl_minutes} minutes. Renew it by \`POST ${TOKEN_PATH}\` with \`grant_type=${REFRESH_GRANT}\` and \`refresh_token\`: the answer is
   that of step 4, with a new refresh token, which replaces the old one. That can go on for ${session.refresh_days} days. An answer that got lost is asked
   for again with the same refresh token; processes that share one get the same successor when they ask within half a minute of each other.
   503 with \`temporarily_unavailable\` once, and then 401 with \`invalid_grant\`: read the stored credentials again, another process may have renewed them; if none did, sign in again.
   Any 503 with \`temporarily_unavailable\`: nothing is decided, try again after \`retry-after\`.
6. \`POST ${REVOCATION_PATH}\` with \`token\`, a session token or a refresh token, ends the session (RFC 7009). Its tokens are refused
   everywhere within a second.

Errors are those of RFC 6749: \`{"error": "...", "error_description": "..."}\`. Per address and ${limits.window_seconds} seconds,
${limits.device_authorizations} sign-ins that nobody finishes can be begun and ${limits.code_submissions} wrong codes entered; beyond that the answer is 429 with \`slow_down\` and \`retry-after\`.
So it is, with \`slow_down\` for device codes and else \`temporarily_unavailable\`, after ${limits.refused_credentials} codes and tokens that came to nothing: nothing
is decided about the one that was sent.`;
}

function errors({ spend_limits }: GatewayConfig): string {
  const rows = Object.entries(ERRORS).map(([code, spec]: [string, ErrorSpec]) => {
    const retry = spec.retry === undefined ? '' : String(spec.retry);
    const status = (code === 'spend_limit_exceeded' ? spend_limits?.status : undefined) ?? spec.status;
    return [`\`${code}\``, String(status), `\`${spec.type}\``, `\`${spec.compat.type}\``, retry, spec.meaning];
  });
  return `## Errors

In the Messages envelope: \`{"type": "error", "error": {"type", "message", "code", ...}, "request_id"}\`. In that of chat completions and
Responses: \`{"error": {"message", "type", "code", "param", ..., "request_id"}}\`. An error of a model's provider is passed on as it came.
After the first byte of a stream, an error is one more event. The last but one column is what \`x-should-retry\` says.

${table(['code', 'status', 'type (Messages)', 'type (chat completions, Responses)', 'retry', 'meaning'], rows)}`;
}

function headers(): string {
  const rows = [
    [`\`${REQUEST_ID_HEADER}\``, 'Identifier of the request; tell it to the administrator when you report a problem.'],
    ['`x-should-retry`', '`false`: the same request would fail again. `true`: try it again.'],
    [
      '`retry-after`',
      'Whole seconds to wait before the next try; on chat completions and Responses a minute at most, and 0 where no wait helps.',
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
    [name('representative-claim'), '`overage`; only on answers'],
    [name('overage-status'), 'the same as the status; only on answers'],
    [name('overage-utilization'), 'share that is spent or reserved, two decimals below 1; `1` on a refusal'],
    [name('overage-surpassed-threshold'), '`0.75` or `0.95` once it is passed; `1` on a refusal'],
    [name('overage-period'), '`daily`, `weekly` or `monthly`; only on a refusal'],
    [name('overage-disabled-reason'), '`org_spend_cap_reached`; `fetch_error` where the limits cannot be read'],
    [name('overage-scope'), '`group_pool`: the limit is shared with others; only on a refusal'],
  ];
  return `## Spending

Answers to callers with a limit in money, and refusals for one, say the status of the limit that is used up the furthest or
that resets last. What a model's provider says about its own limits is taken off, except from its errors.

${table(['header', 'meaning'], rows)}

\`spend_limit_exceeded\` has \`limit_usd\`, \`spent_usd\`, \`reserved_usd\`, \`reserved_by_requests\`, \`needed_usd\`, \`window\`, \`scope\`, \`key\`,
\`resets_at\` and \`rule\`; \`rate_limit_exceeded\` has \`limit\`, \`unit\`, \`used\`, \`reserved\`, \`in_flight\`, \`needed\`, \`window\`, \`scope\`, \`key\`,
\`resets_at\` (null where the limit is on requests at once) and \`rule\`. Both list all limits without room in \`exceeded\`.
For a limit that an administrator set at run time \`rule\` is \`set at run time\` and \`set_at\` says when; where room was granted on top,
\`granted_usd\` (or \`granted\`) says how much of the limit that is, and \`granted_until\` when the first of it ends.
In the Messages envelope \`resets_at\` is a time such as \`2026-03-11T00:00:00.000Z\`; in that of chat completions and Responses it
is whole seconds since the epoch, and \`reset_time\` is that text. There the type of a refusal that waiting a minute does not
mend is \`usage_limit_reached\`, whichever the limit${refusalHeader(server)}.`;
}

function refusalHeader({ profile: { refusal_header } }: GatewayConfig['server']): string {
  return refusal_header === undefined ? '' : `, and the header \`${refusal_header}\` has its sentence in ASCII`;
}

function limits({ server }: GatewayConfig): string {
  const { limits, timeouts } = server;
  const rows = [
    ['body of a request, without its compression', `${limits.body_bytes} bytes`],
    ['request line and headers', `${limits.header_bytes} bytes`],
    ['time for a body to arrive', `${timeouts.request_body_seconds} seconds`],
    ['pause while a body arrives', `${timeouts.request_silence_seconds} seconds`],
    ['requests of one caller at once', `${limits.requests_per_principal}`],
    ['wait for the first byte of a stream', `${timeouts.first_byte_seconds} seconds`],
    ['wait for an answer without a stream', `${timeouts.non_streaming_first_byte_seconds} seconds`],
    ['silence in a response', `${timeouts.idle_seconds} seconds`],
  ];
  return `## Limits

${table(['what', 'at most'], rows)}

Bodies may be compressed: \`content-encoding\` ${CONTENT_ENCODINGS.map((name) => `\`${name}\``).join(', ')}. Another one is answered 415 with
\`accept-encoding\`, a damaged one 400.`;
}

function telemetry({ telemetry: { forward_to } }: GatewayConfig): string {
  const passed = SIGNALS.filter((signal) => forward_to.some((destination) => destination[signal]));
  const paths = SIGNALS.map((signal) => `\`POST /v1/${signal}\``).join(', ');
  const kept = passed.length === 0 ? 'nothing, and drops it' : passed.join(', ');
  return `## Telemetry of clients

${paths} take what OTLP/HTTP exporters send (OTLP 1.x): protobuf (\`application/x-protobuf\`) or JSON
(\`application/json\`), compressed or not, ${EXPORT_BYTES_MAX} bytes at most after decompression, with the credential of any other
request. It is answered with 200 and an empty export response, wherever it goes, and passed on as it came, with headers that say who sent
it; this gateway passes on: ${kept}. Errors are \`google.rpc.Status\` in the encoding of the request; 429 and 503 have \`retry-after\`.`;
}
