import type { IncomingMessage } from 'node:http';
import { type Request, type Response, Router } from 'express';
import type { BrandingConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import type { OperationName, Telemetry } from '../../../base/contract/telemetry.ts';
import { isPlain, mediaType } from '../../../base/kit/media-type.ts';
import type { OwnTrace } from '../../../base/kit/net/trace-context.ts';
import { readAll } from '../../../base/kit/read-all.ts';
import type { AccountCheckContext } from '../../../domain/identity/deprovisioning/recheck-session.ts';
import { REQUEST_ID_HEADER } from '../../../pipeline/run/headers.ts';
import { identityOf } from '../request-identity.ts';
import { isCrossSiteEmbed } from './cookies.ts';
import { type ErrorTexts, errorPage, layout, type Page, pageHeaders, type Reference } from './pages.ts';

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

/** A refused sign-in request. Clients show the message to people; it holds no secret. */
export class OAuthError extends Error {
  readonly error: OAuthErrorCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** `error_type` in telemetry, more specific than the code. */
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

/** A temporary failure: the client should send the same request again. */
export function temporarilyUnavailable(
  message: string,
  { cause, retry_after_seconds = 1, reason }: { cause?: unknown; retry_after_seconds?: number; reason?: string } = {},
): OAuthError {
  const headers = { 'retry-after': String(retry_after_seconds) };
  const more = { status: 503, headers, cause, ...(reason !== undefined && { reason }) };
  return new OAuthError('temporarily_unavailable', message, more);
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

interface FormLimits {
  readonly clock: Clock;
  readonly seconds: number;
  readonly max_bytes?: number;
}

/** Parameters of a form or query. Raises OAuthError for duplicates (RFC 6749 section 3.2). */
class Parameters {
  readonly #parameters: URLSearchParams;

  constructor(text: string) {
    this.#parameters = new URLSearchParams(text);
    const names = new Set<string>();
    for (const name of this.#parameters.keys()) {
      if (names.has(name)) {
        const shown = /^\w{1,40}$/.test(name) ? `"${name}"` : 'one of the parameters';
        throw new OAuthError('invalid_request', `Duplicate parameter: the request has ${shown} more than once.`);
      }
      names.add(name);
    }
  }

  /** An optional parameter; empty counts as missing (RFC 6749 section 3.2). */
  get(name: string): string | undefined {
    return this.#parameters.get(name) || undefined;
  }

  /** A required parameter. Raises OAuthError. */
  require(name: string): string {
    const value = this.get(name);
    if (value === undefined) throw new OAuthError('invalid_request', `Missing parameter "${name}".`);
    return value;
  }
}

const MAX_BYTES = 16_384;

/** Parses the query of a request target. Raises OAuthError for duplicates and for a query that is too long. */
export function readQuery(url: string): Parameters {
  const at = url.indexOf('?');
  const query = at < 0 ? '' : url.slice(at + 1);
  if (query.length > MAX_BYTES) {
    throw new OAuthError('invalid_request', `The query of the URL is longer than ${MAX_BYTES} bytes.`, { status: 414 });
  }
  return new Parameters(query);
}

/**
 * Reads a form-encoded body; a missing body is an empty form. Raises OAuthError for another media type, for a body that is too
 * large or too slow, and for duplicates.
 */
export async function readForm(req: IncomingMessage, limits: FormLimits): Promise<Parameters> {
  const { max_bytes = MAX_BYTES } = limits;
  const length = req.headers['content-length'];
  if (Number(length ?? 0) > max_bytes) throw tooLarge(max_bytes);
  const bytes = await readBytes(req, { ...limits, max_bytes });
  if (bytes.length > 0) checkType(req.headers['content-type'], req.headers['content-encoding']);
  return new Parameters(bytes.toString('utf8'));
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

interface VisitResult {
  readonly outcome:
    | 'begun'
    | 'approved'
    | 'declined'
    | 'began'
    | 'repeated'
    | 'renewed'
    | 'ended'
    | 'refused'
    | 'failed';
  readonly error_type?: string;
}

type VisitOperation = Extract<OperationName, 'gateway.sign_in' | 'gateway.session'>;

function recordVisit(
  name: VisitOperation,
  { reference, trace, began }: Visit,
  { outcome, error_type }: VisitResult,
  { telemetry, clock }: { readonly telemetry: Pick<Telemetry, 'operation'>; readonly clock: Clock },
): void {
  telemetry.operation({
    name,
    attributes: { [`${name}.outcome`]: outcome, 'gateway.request_id': reference.request_id },
    began_at: reference.at.getTime(),
    duration_ms: clock.monotonic() - began,
    error_type,
    trace,
  });
}

/** The result for an error; `undefined` for a device that polls, as it does every few seconds. */
function resultOfError({ error, status, reason }: OAuthError): VisitResult | undefined {
  if (error === 'authorization_pending' || (error === 'slow_down' && status === 400)) return undefined;
  return { outcome: status < 500 ? 'refused' : 'failed', error_type: reason ?? error };
}

/** Dependencies of the sign-in routes. */
export type SignInOptions = AccountCheckContext;

/** Shared context of the sign-in routes. */
export interface SignIn extends SignInOptions {
  /** The public URL without a trailing slash; every absolute URL begins with it. */
  readonly issuer: string;
  readonly origin: string;
  readonly form: FormLimits;
  addressOf(req: Request): string;
}

/** Refuses background requests from pages of other sites. Raises OAuthError. */
export function refuseCrossSiteEmbed({ headers }: Request, message = 'This page cannot be embedded.'): void {
  if (isCrossSiteEmbed(headers)) throw new OAuthError('invalid_request', message, { status: 403 });
}

/** Enforces the request rate limit per address. Raises OAuthError. */
export function requireRequestRate({ identity, addressOf }: SignIn, req: Request): void {
  const limit = identity.attempts.request(addressOf(req));
  if (limit === undefined) return;
  throw tooManyRequests('Too many requests from your address.', limit.retry_after_seconds);
}

/** One request to a sign-in route, with its id and trace. */
export interface Visit {
  readonly req: Request;
  readonly reference: Reference;
  /** Trace context, also logged. */
  readonly trace: OwnTrace;
  /** On the monotonic clock. */
  readonly began: number;
}

/** Response of a route: JSON, an HTML page, Markdown or a redirect. */
export type Answer = {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Absent while the sign-in is pending. */
  readonly result?: VisitResult;
} & (
  | { readonly json: object }
  | { readonly page: Page }
  | { readonly markdown: string }
  | { readonly location: string }
);

/** An error page as an answer. @param result for telemetry; absent: not recorded */
export function errorAnswer({ reference }: Visit, status: number, texts: ErrorTexts, result?: VisitResult): Answer {
  return { status, page: errorPage(texts, reference), ...(result && { result }) };
}

/** Log fields of a visit. */
export function logged({ reference, trace }: Visit): { readonly request_id: string; readonly trace_id: string } {
  return { request_id: reference.request_id, trace_id: trace.trace_id };
}

type Handler = (visit: Visit) => Answer | Promise<Answer>;

/** One path, or several, with its handlers and the format of its errors. GET also serves HEAD, unless it has side effects. */
export interface Route {
  readonly path: string | string[];
  readonly speaks: 'json' | 'page';
  /** Operation name in telemetry; absent: not recorded. */
  readonly operation?: VisitOperation;
  readonly get?: Handler;
  readonly post?: Handler;
  readonly head?: false;
  /** Handles every method, instead of the others. */
  readonly any?: Handler;
}

const DATA_HEADERS = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
};

/** Mounts routes; errors are sent in the format of the route. */
export function mountRoutes(
  routes: readonly Route[],
  {
    provider_url,
    branding,
    clock,
    log,
    telemetry,
  }: Pick<SignInOptions, 'clock' | 'log'> & {
    readonly telemetry?: SignInOptions['telemetry'];
    readonly provider_url?: string | undefined;
    readonly branding?: BrandingConfig | undefined;
  },
): Router {
  const page_headers = pageHeaders(provider_url);
  const router = Router({ caseSensitive: true, strict: true });
  for (const route of routes) {
    router.all(route.path, async (req, res) => {
      const { request_id, trace } = identityOf(res);
      const visit = { req, reference: { request_id, at: new Date(clock.now()) }, trace, began: clock.monotonic() };
      const answer = await answerOf(route, visit, log);
      identityOf(res).error = answer.result?.error_type;
      const { operation } = route;
      if (operation !== undefined && answer.result !== undefined && telemetry !== undefined) {
        recordVisit(operation, visit, answer.result, { telemetry, clock });
      }
      send(res, visit, answer, { page_headers, branding });
    });
  }
  return router;
}

interface Look {
  readonly page_headers: Readonly<Record<string, string>>;
  readonly branding: BrandingConfig | undefined;
}

function send(res: Response, { reference }: Visit, answer: Answer, look: Look) {
  const { body, headers } = written(answer, look);
  res.writeHead(answer.status, {
    ...headers,
    [REQUEST_ID_HEADER]: reference.request_id,
    'content-length': Buffer.byteLength(body),
    ...answer.headers,
  });
  res.end(body);
}

function written(answer: Answer, { page_headers, branding }: Look) {
  if ('page' in answer) return { body: layout(answer.page, branding), headers: page_headers };
  if ('location' in answer) return { body: '', headers: { ...DATA_HEADERS, location: answer.location } };
  if ('json' in answer) {
    return { body: JSON.stringify(answer.json), headers: { ...DATA_HEADERS, 'content-type': 'application/json' } };
  }
  return { body: answer.markdown, headers: { ...DATA_HEADERS, 'content-type': 'text/markdown; charset=utf-8' } };
}

async function answerOf(route: Route, visit: Visit, log: Log): Promise<Answer> {
  try {
    return await (handlerOf(route, visit.req.method) ?? wrongMethod(route))(visit);
  } catch (error) {
    return refusal(route, visit, asOAuthError(error, visit, log));
  }
}

function handlerOf(route: Route, method: string): Handler | undefined {
  if (route.any) return route.any;
  if (method === 'GET' || (method === 'HEAD' && route.head !== false)) return route.get;
  return method === 'POST' ? route.post : undefined;
}

function wrongMethod(route: Route): Handler {
  const allowed = [
    ...(route.get ? ['GET', ...(route.head === false ? [] : ['HEAD'])] : []),
    ...(route.post ? ['POST'] : []),
  ];
  const allow = allowed.join(', ');
  return ({ req }) => {
    const problem = `This path supports ${allow}, not ${req.method}.`;
    throw new OAuthError('invalid_request', problem, { status: 405, headers: { allow } });
  };
}

function asOAuthError(error: unknown, visit: Visit, log: Log): OAuthError {
  if (error instanceof OAuthError) return error;
  if (error instanceof StageError && error.status === 503) {
    return temporarilyUnavailable(error.message, { cause: error, reason: error.code });
  }
  log.error({ err: error, ...logged(visit), path: visit.req.path }, 'a sign-in request failed');
  return new OAuthError('server_error', 'Internal error; see the log of the gateway.', { status: 500 });
}

function refusal(route: Route, { reference }: Visit, error: OAuthError): Answer {
  const { status, headers } = error;
  const result = resultOfError(error);
  const common = { status, headers, ...(result !== undefined && { result }) };
  if (route.speaks === 'json') {
    return { ...common, json: { error: error.error, error_description: describe(error.message) } };
  }
  const texts = PAGE_TEXTS[error.error] ?? {
    title: 'Sign-in failed',
    advice: 'Start signing in again in your terminal.',
  };
  return { ...common, page: errorPage({ ...texts, sentence: error.message }, reference) };
}

/** Replaces characters that RFC 6749 section 5.2 forbids in `error_description`. */
function describe(message: string): string {
  return message.replace(/["\\]/g, "'").replace(/[^\x20-\x7e]/g, '?');
}

const PAGE_TEXTS: { readonly [error: string]: { readonly title: string; readonly advice: string } } = {
  temporarily_unavailable: {
    title: 'Not available at the moment',
    advice: 'Wait a moment, then load this page again.',
  },
  slow_down: {
    title: 'Too many attempts',
    advice:
      'Then open this page again. If you did not enter wrong codes, others at your address did: tell your administrator.',
  },
  server_error: {
    title: 'Something went wrong',
    advice: 'Try again. If it fails again, tell your administrator.',
  },
};
