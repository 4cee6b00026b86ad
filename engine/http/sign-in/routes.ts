import { type Request, type Response, Router } from 'express';
import type { BrandingConfig, GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { Clock, Log } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';
import type { Identity } from '../../identity/index.ts';
import type { OwnTrace } from '../../kit/net/trace-context.ts';
import { REQUEST_ID_HEADER } from '../../run/headers.ts';
import type { Database } from '../../store/database.ts';
import { identityOf } from '../request-identity.ts';
import type { FormLimits } from './form.ts';
import { OAuthError, temporarilyUnavailable } from './oauth-error.ts';
import { branded } from './pages/page-layout.ts';
import { errorPage, pageHeaders, type Reference } from './pages/pages.ts';
import { type Told, type ToldAs, tellVisit, toldOfError } from './tell.ts';

/** What sign-in over HTTP is made of. */
export interface SignInOptions {
  readonly config: GatewayConfig;
  readonly identity: Identity;
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'operation'>;
}

/** What every route of sign-in works with. */
export interface SignIn extends SignInOptions {
  /** The public URL without a trailing slash; every absolute URL begins with it. */
  readonly issuer: string;
  readonly origin: string;
  readonly form: FormLimits;
  /** IP address of the client. */
  addressOf(req: Request): string;
}

/** One request, and what an administrator finds it by. */
export interface Visit {
  readonly req: Request;
  readonly reference: Reference;
  /** Where it belongs in a trace, which its lines in the log name, too. */
  readonly trace: OwnTrace;
  /** On the monotonic clock. */
  readonly began: number;
}

/** What a route answers: an object as JSON, a page, a text in Markdown, or a redirect. */
export type Answer = {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Absent where nothing came of the visit yet. */
  readonly told?: Told;
} & (
  | { readonly json: object }
  | { readonly page: string }
  | { readonly markdown: string }
  | { readonly location: string }
);

/** What every line in the log about a visit names. */
export function logged({ reference, trace }: Visit): { readonly request_id: string; readonly trace_id: string } {
  return { request_id: reference.request_id, trace_id: trace.trace_id };
}

type Handler = (visit: Visit) => Answer | Promise<Answer>;

/** One path: the kind of answer whoever comes here understands, and what is done for each method. GET also answers HEAD, unless it does something. */
export interface Route {
  readonly path: string;
  readonly speaks: 'json' | 'page';
  /** What telemetry is told its visits are about; nothing without it. */
  readonly told_as?: ToldAs;
  readonly get?: Handler;
  readonly post?: Handler;
  readonly head?: false;
  /** What is done whatever the method, instead of the others. */
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

/** Serves routes; whatever happens behind one, it answers in the way the route speaks. */
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
      identityOf(res).error = answer.told?.error_type;
      const { told_as } = route;
      if (told_as !== undefined && answer.told !== undefined && telemetry !== undefined) {
        tellVisit(told_as, visit, answer.told, { telemetry, clock });
      }
      send(res, visit, answer, { page_headers, branding });
    });
  }
  return router;
}

/** How pages go out. */
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
  if ('page' in answer) return { body: branded(answer.page, branding), headers: page_headers };
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
    const problem = `This path takes ${allow}, not ${req.method}.`;
    throw new OAuthError('invalid_request', problem, { status: 405, headers: { allow } });
  };
}

function asOAuthError(error: unknown, visit: Visit, log: Log): OAuthError {
  if (error instanceof OAuthError) return error;
  if (error instanceof StageError && error.status === 503) {
    return temporarilyUnavailable(error.message, { cause: error, reason: error.code });
  }
  log.error({ err: error, ...logged(visit), path: visit.req.path }, 'a sign-in request failed');
  return new OAuthError('server_error', 'Something went wrong inside the gateway; its log says what.', { status: 500 });
}

function refusal(route: Route, { reference }: Visit, error: OAuthError): Answer {
  const { status, headers } = error;
  const told = toldOfError(error);
  const common = { status, headers, ...(told !== undefined && { told }) };
  if (route.speaks === 'json') {
    return { ...common, json: { error: error.error, error_description: describe(error.message) } };
  }
  const texts = PAGE_TEXTS[error.error] ?? {
    title: 'That did not work',
    advice: 'Start signing in again in your terminal.',
  };
  return { ...common, page: errorPage({ ...texts, sentence: error.message, reference }) };
}

/** RFC 6749 section 5.2 allows no other characters in a description. */
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
      'Then open this page again. If it was not you, others at your address entered wrong codes: tell your administrator.',
  },
  server_error: {
    title: 'Something went wrong',
    advice: 'Try again. If it happens again, tell your administrator.',
  },
};
