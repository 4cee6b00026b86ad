import { type Request, Router } from 'express';
import type { BrandingConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import type { Log } from '../../../base/contract/services.ts';
import type { OperationName } from '../../../base/contract/telemetry.ts';
import type { OwnTrace } from '../../../base/kit/net/trace-context.ts';
import type { AccountCheckContext } from '../../../domain/identity/deprovisioning/recheck-session.ts';
import { REQUEST_ID_HEADER } from '../../../pipeline/run/headers.ts';
import { identityOf } from '../request-identity.ts';
import { type FormLimits, OAuthError, temporarilyUnavailable } from './forms.ts';
import { type ErrorTexts, errorPage, layout, type Page, pageHeaders, type Reference } from './pages.ts';

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

function resultOfError({ error, status, reason }: OAuthError): VisitResult | undefined {
  if (error === 'authorization_pending' || (error === 'slow_down' && status === 400)) return undefined;
  return { outcome: status < 500 ? 'refused' : 'failed', error_type: reason ?? error };
}

export type SignInOptions = AccountCheckContext;

/** Shared context of the sign-in routes. */
export interface SignIn extends SignInOptions {
  /** The public URL without a trailing slash; every absolute URL begins with it. */
  readonly issuer: string;
  readonly origin: string;
  readonly form: FormLimits;
  addressOf(req: Request): string;
}

/** One request to a sign-in route, with its id and trace. */
export interface Visit {
  readonly req: Request;
  readonly reference: Reference;
  /** Trace context, also logged. */
  readonly trace: OwnTrace;
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

/** An error page as a response. @param result for telemetry; absent: not recorded */
export function errorAnswer({ reference }: Visit, status: number, texts: ErrorTexts, result?: VisitResult): Answer {
  return { status, page: errorPage(texts, reference), ...(result && { result }) };
}

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
  options: Pick<SignInOptions, 'clock' | 'log'> & {
    readonly telemetry?: SignInOptions['telemetry'];
    readonly provider_url?: string | undefined;
    readonly branding?: BrandingConfig | undefined;
  },
): Router {
  const { branding, clock, log, telemetry } = options;
  const page_headers = pageHeaders(options.provider_url);
  const router = Router({ caseSensitive: true, strict: true });
  for (const route of routes) {
    router.all(route.path, async (req, res) => {
      const { request_id, trace } = identityOf(res);
      const [began_at, began] = [clock.now(), clock.monotonic()];
      const visit = { req, reference: { request_id, at: new Date(began_at) }, trace };
      const answer = await answerOf(route, visit, log);
      const { error_type, outcome } = answer.result ?? {};
      identityOf(res).error = error_type;
      const { operation: name } = route;
      if (name !== undefined && outcome !== undefined) {
        const attributes = { [`${name}.outcome`]: outcome, 'gateway.request_id': request_id };
        const duration_ms = clock.monotonic() - began;
        telemetry?.operation({ name, attributes, began_at, duration_ms, error_type, trace });
      }
      const { body, headers } = written(answer, page_headers, branding);
      res.writeHead(answer.status, {
        ...headers,
        [REQUEST_ID_HEADER]: request_id,
        'content-length': Buffer.byteLength(body),
        ...answer.headers,
      });
      res.end(body);
    });
  }
  return router;
}

function written(answer: Answer, page_headers: Readonly<Record<string, string>>, branding: BrandingConfig | undefined) {
  if ('page' in answer) return { body: layout(answer.page, branding), headers: page_headers };
  if ('location' in answer) return { body: '', headers: { ...DATA_HEADERS, location: answer.location } };
  if ('json' in answer) {
    return { body: JSON.stringify(answer.json), headers: { ...DATA_HEADERS, 'content-type': 'application/json' } };
  }
  return { body: answer.markdown, headers: { ...DATA_HEADERS, 'content-type': 'text/markdown; charset=utf-8' } };
}

async function answerOf(route: Route, visit: Visit, log: Log): Promise<Answer> {
  try {
    const handler = handlerOf(route, visit.req.method);
    if (handler === undefined) throw wrongMethod(route, visit.req.method);
    return await handler(visit);
  } catch (error) {
    return refusal(route, visit, asOAuthError(error, visit, log));
  }
}

function handlerOf(route: Route, method: string): Handler | undefined {
  if (route.any) return route.any;
  if (method === 'GET' || (method === 'HEAD' && route.head !== false)) return route.get;
  return method === 'POST' ? route.post : undefined;
}

function wrongMethod(route: Route, method: string): OAuthError {
  const allow = ['GET', 'HEAD', 'POST'].filter((each) => handlerOf(route, each) !== undefined).join(', ');
  const problem = `This path supports ${allow}, not ${method}.`;
  return new OAuthError('invalid_request', problem, { status: 405, headers: { allow } });
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
