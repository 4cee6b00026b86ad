import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Request, type Response, Router } from 'express';
import { LRUCache } from 'lru-cache';
import { clientPackageUrl } from '../../../base/contract/client-package.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import type { Log } from '../../../base/contract/services.ts';
import { jsonTypeProblem } from '../../../base/kit/media-type.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { isLoopbackUrl } from '../../../base/kit/net/addresses.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import {
  type AccountCheckContext,
  endUnrenewed,
  noteVerified,
  recheckSession,
  takeSession,
} from '../../../domain/identity/deprovisioning/recheck-session.ts';
import type { Identity } from '../../../domain/identity/identity.ts';
import type { Person } from '../../../domain/identity/provider/admit.ts';
import { issuerOf, newSignInAttempt, ProviderError } from '../../../domain/identity/provider/provider.ts';
import {
  type ConsoleSession,
  type ConsoleSessions,
  createConsoleSessions,
} from '../../../domain/identity/sessions/console-sessions.ts';
import { endTokensTheyLost } from '../../../domain/identity/tokens/tokens.ts';
import { type Caller, programCaller } from '../../admin/calls.ts';
import { createOriginReader } from '../client.ts';
import { clientPackage } from '../client-package.ts';
import { CONSOLE_HEADERS } from '../console-files.ts';
import { prefixOf } from '../request-identity.ts';
import { answerOrPass, methodNotAllowed, sendJson } from '../send-error.ts';
import {
  type ConsoleAttempt,
  isCrossSiteEmbed,
  isSameOrigin,
  type SessionCookie,
  SIGN_IN_SECONDS,
  sessionCookie,
  signInCookies,
} from './cookies.ts';
import { readQuery, rejectCrossSiteEmbed, requireRequestRate } from './forms.ts';
import { html, outcome } from './pages.ts';
import { PATHS } from './paths.ts';
import {
  identifyPerson,
  providerFailure,
  type RetryLink,
  rejectAddress,
  type SignInFlow,
  storeFailure,
} from './refusals.ts';
import { type Answer, errorAnswer, logged, mountRoutes, type Route, type SignIn, type Visit } from './routes.ts';

const PAGE_MAX_CHARS = 1000;
const NO_PAGES: readonly string[] = Object.values(PATHS).filter((path) => path.startsWith('/console/'));
const ANY_BASE = 'http://gateway.invalid';

/**
 * The return path of a sign-in: path and query of a console page, below the path `prefix` of the public URL. Anything else, such
 * as an address of another site, becomes the first page (no open redirect).
 */
export function returnPath(requested_path: string | undefined, prefix: string): string {
  const text =
    prefix !== '' && requested_path?.startsWith(`${prefix}/`) ? requested_path.slice(prefix.length) : requested_path;
  if (text === undefined || text.length > PAGE_MAX_CHARS || !/^\/console(?:[/?]|$)/.test(text)) return PATHS.console;
  if (/[\\\s\p{Cc}]|\/\//u.test(text.split('?', 1)[0]!) || !URL.canParse(text, ANY_BASE)) return PATHS.console;
  const { origin, pathname, search } = new URL(text, ANY_BASE);
  const is_page = origin === ANY_BASE && (pathname === PATHS.console || pathname.startsWith(`${PATHS.console}/`));
  const page = `${pathname}${search}`;
  // The path is stored in a cookie, and percent-encoding can make it nine times as long.
  return is_page && !NO_PAGES.includes(pathname.replace(/\/+$/, '')) && page.length <= PAGE_MAX_CHARS
    ? page
    : PATHS.console;
}

const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg\w*\/(\d{1,4})/, 'Edge'],
  [/\bOPR\/(\d{1,4})/, 'Opera'],
  [/\bFirefox\/(\d{1,4})/, 'Firefox'],
  [/\b(?:Headless)?Chrome\/(\d{1,4})/, 'Chrome'],
  [/\bVersion\/(\d{1,4})[\d.]* (?:Mobile\/\w+ )?Safari\//, 'Safari'],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bWindows\b/, 'Windows'],
  [/\b(?:iPhone|iPad)\b/, 'iOS'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
];

/** Display name of a browser: `Firefox 140 on Linux`. Copies nothing from the user-agent header but the version number. */
export function browserName(user_agent = ''): string {
  const agent = user_agent.slice(0, 500);
  const browsers = BROWSERS.map(([pattern, name]) => [pattern.exec(agent)?.[1], name] as const);
  const [version, name] = browsers.find(([found]) => found !== undefined) ?? [];
  const system = SYSTEMS.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = name === undefined ? 'a browser' : `${name} ${version}`;
  return system === undefined ? browser : `${browser} on ${system}`;
}

const FORWARDING = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];
const LOOPBACK = /^(?:::ffff:)?127(?:\.\d{1,3}){3}$|^::1$/;

/** Requires a request from this machine, without a proxy, for access without sign-in. Raises forbidden. */
export function requireLocal(
  { headers, socket }: Pick<IncomingMessage, 'headers' | 'socket'>,
  { server }: Pick<GatewayConfig, 'server'>,
): void {
  const is_direct =
    LOOPBACK.test(socket.remoteAddress ?? '') && FORWARDING.every((name) => headers[name] === undefined);
  // A tunnel may add no header, but its requests have the public name of this machine as Host.
  if (is_direct && isLoopbackUrl(`http://${headers.host}`) && isLoopbackUrl(server.public_url)) return;
  throw new StageError(
    'forbidden',
    'Without an identity provider the console opens only on the gateway host, with a loopback server.public_url such as http://127.0.0.1:8080. Open it there (or through "ssh -L"), or set auth.oidc in gateway.yaml so that people can sign in.',
  );
}

/** Header of the console's own requests; a form, image or link of another site cannot send it. */
const CONSOLE_HEADER = 'x-console';

/**
 * CSRF protection for requests with the session cookie. A change requires a same-origin proof, the console's header and, with a
 * body, JSON. A read requires the same-origin proof, or the console's header if the browser sends no origin (downloads and event
 * streams have no such header). The origin is that of the public URL, never from the Host header. Raises forbidden.
 */
function requireSameOrigin({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>, origin: string): void {
  const is_marked = headers[CONSOLE_HEADER] !== undefined;
  const is_same = isSameOrigin(headers, origin);
  if (method === 'GET' || method === 'HEAD') {
    const has_origin = headers['sec-fetch-site'] !== undefined || headers.origin !== undefined;
    if (has_origin ? is_same : is_marked) return;
  } else if (is_marked && is_same) {
    const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = headers;
    const has_body = coding !== undefined || (length !== undefined && length !== '0') || type !== undefined;
    if (!has_body || jsonTypeProblem(type ?? '') === undefined) return;
  }
  throw new StageError('forbidden', CROSS_SITE);
}

const CROSS_SITE =
  'Cross-site request rejected: it has a console cookie, but did not come from the console. Use the console or a session token.';

const DUE_MS = 15 * 60_000;
/** Delay before the next check after a failed one. */
const RETRY_MS = 60_000;
const MAX_TRIED = 10_000;

/**
 * Makes the function that rechecks the person of a session at the identity provider every 15 minutes. During an outage of the
 * provider a session lasts as long as a session token would. Raises credential_revoked, temporarily_unavailable, store_unavailable.
 */
function createRecheck(context: AccountCheckContext) {
  const { clock, config, log } = context;
  const tried = new LRUCache<string, number>(atMost(MAX_TRIED));
  const longest_ms = (config.auth?.session.ttl_minutes ?? 0) * 60_000;

  return async (about: NonNullable<ConsoleSession['person']>): Promise<{ person: Person; is_anew: boolean }> => {
    const { session_id, person, groups, checked_at } = about;
    const known = {
      person: { ...person, groups: person.groups.filter((group) => groups.includes(group)) },
      is_anew: false,
    };
    const age_ms = clock.now() - checked_at.getTime();
    if (age_ms < DUE_MS) return known;
    const continueUnchecked = (wait_ms: number) => {
      if (age_ms <= Math.max(longest_ms, DUE_MS)) return known;
      const headers = { 'retry-after': String(Math.ceil(wait_ms / 1000)) };
      throw new StageError('temporarily_unavailable', UNVERIFIED, { headers });
    };
    const again_ms = (tried.get(session_id) ?? 0) - clock.monotonic();
    if (again_ms > 0) return continueUnchecked(again_ms);
    const taken = await takeSession(context, session_id);
    // Another request is rechecking it.
    if (taken === undefined) return continueUnchecked(1000);
    const rechecked = await recheckSession(context, taken, { when: 'during a recheck of a console session' });
    if (rechecked.outcome === 'unavailable') {
      tried.set(session_id, clock.monotonic() + RETRY_MS);
      const fields = { reason: rechecked.error.message, email: person.email, session: session_id };
      log.warn(fields, 'a console session could not be rechecked: the identity provider is unavailable');
      return continueUnchecked(RETRY_MS);
    }
    if (rechecked.outcome !== 'stays') {
      throw new StageError('credential_revoked', await endUnrenewed(context, taken, rechecked));
    }
    if ((await noteVerified(context, { id: session_id, ...rechecked })) !== 'verified') {
      throw new StageError('credential_revoked', OVER);
    }
    return { person: rechecked.person, is_anew: true };
  };
}

const UNVERIFIED =
  'The identity provider is not available, so the gateway cannot verify your access. Try again shortly.';

type ConsoleCallerOptions = Omit<AccountCheckContext, 'identity'> & { readonly identity: Identity | undefined };

/** Authentication by the console's cookie, for one configuration. */
export function createConsoleCallers(options: ConsoleCallerOptions) {
  const { config, identity, database, clock } = options;
  const issuer = issuerOf(config);
  const { origin } = new URL(issuer);
  const cookie = sessionCookie(issuer);
  const origin_reader = createOriginReader(config.server);
  const sessions = identity?.console_sessions ?? createConsoleSessions({ database, clock });
  const callerOf = createCallerOf(options, sessions, cookie);

  const lookUp = async (req: IncomingMessage, text: string): Promise<ConsoleSession | undefined> => {
    if (identity === undefined || identity.tokens.tags.fit(text)) return sessions.find(text);
    const address = origin_reader.address(req.socket.remoteAddress, req.headers);
    const credential = { text, address, is_ours: false };
    const isGood = (session: ConsoleSession | undefined) => session !== undefined;
    const result = await identity.attempts.lookUp(credential, () => sessions.find(text), isGood);
    if ('found' in result) return result.found;
    const problem = 'Too many failed requests came from your address. Try again later.';
    const headers = { 'retry-after': String(result.retry_after_seconds) };
    throw new StageError('rate_limit_exceeded', problem, { headers });
  };

  return {
    cookie,
    sessions,
    concerns: ({ headers }: Pick<IncomingMessage, 'headers'>): boolean =>
      cookie.read(headers) !== undefined || headers[CONSOLE_HEADER] !== undefined,
    /** The session of a console request, without a check of its person. Raises forbidden, rate_limit_exceeded. */
    async find(req: IncomingMessage): Promise<ConsoleSession | undefined> {
      const text = cookie.read(req.headers);
      if (text === undefined) return undefined;
      requireSameOrigin(req, origin);
      return lookUp(req, text);
    },
    /**
     * Authenticates a console request. Rotates the cookie if the person's groups changed. A background request without recent
     * user activity (`x-console: 0`) does not extend the session. Raises credential_missing, credential_expired, credential_revoked, forbidden, rate_limit_exceeded, temporarily_unavailable, store_unavailable.
     */
    async identify(req: IncomingMessage, res: ServerResponse) {
      const text = cookie.read(req.headers);
      if (text === undefined) throw new StageError('credential_missing', 'You are signed out. Sign in to the console.');
      requireSameOrigin(req, origin);
      const session = await lookUp(req, text);
      if (session === undefined) throw new StageError('credential_expired', OVER);
      const caller = await callerOf(session, req, res);
      if (req.headers[CONSOLE_HEADER] === '1') await sessions.keep(session);
      return { caller, session };
    },
  };
}

export type ConsoleCallers = ReturnType<typeof createConsoleCallers>;

const OVER = 'Your session has ended or was idle for 30 minutes. Sign in again.';

function createCallerOf(options: ConsoleCallerOptions, sessions: ConsoleSessions, cookie: SessionCookie) {
  const { identity, config } = options;
  const recheck = identity === undefined ? undefined : createRecheck({ ...options, identity });
  return async (session: ConsoleSession, req: IncomingMessage, res: ServerResponse): Promise<Caller> => {
    const { person: about, operator } = session;
    if (operator !== undefined) {
      // Sessions by link end once an identity provider is configured.
      if (identity !== undefined)
        throw new StageError('credential_revoked', 'This gateway now has an identity provider. Sign in.');
      requireLocal(req, config);
      return programCaller(`command:${operator}`, operator, { kind: 'command', name: operator });
    }
    if (identity === undefined || recheck === undefined || about === undefined || about.revoked_at !== null) {
      throw new StageError('credential_revoked', OVER);
    }
    const before = identity.tokens.principalOf(about.session_id, about.person);
    const { person, is_anew } = await recheck(about);
    const principal = is_anew ? identity.tokens.principalOf(about.session_id, person) : before;
    const current = { ...principal, groups: principal.groups.filter((group) => person.groups.includes(group)) };
    if (is_anew && String(principal.groups) !== String(before.groups)) {
      const next = await sessions.replace(session);
      if (next !== undefined) res.setHeader('set-cookie', cookie.keep(next));
    }
    const { email } = principal;
    return {
      principal: current,
      email,
      is_admin: current.roles.includes('admin'),
      actor: { kind: 'person', name: email },
    };
  };
}

function signInAgain({ issuer }: Pick<SignIn, 'issuer'>, to: string, other_account = false): RetryLink {
  const href = `${issuer}${PATHS.console_sign_in}?back_to=${encodeURIComponent(to)}`;
  return other_account ? { href: `${href}&other=1`, label: 'Use another account' } : { href, label: 'Try again' };
}

/** Redirects the browser to the identity provider; after sign-in it returns to the console page in `back_to`. */
export function beginConsole(sign_in: SignIn): Route {
  const { identity, clock, issuer } = sign_in;
  const cookies = signInCookies(issuer);
  const prefix = prefixOf(issuer);
  const is_exposed = !issuer.startsWith('https:') && !isLoopbackUrl(issuer);
  return {
    // Some proxies write a trailing slash.
    path: [PATHS.console_sign_in, `${PATHS.console_sign_in}/`],
    speaks: 'page',
    operation: 'gateway.sign_in',
    head: false,
    async get(visit) {
      const { req } = visit;
      rejectCrossSiteEmbed(req);
      requireRequestRate(sign_in, req);
      if (is_exposed) return errorAnswer(visit, 403, OVER_HTTP, { outcome: 'refused', error_type: 'http' });
      const query = readQuery(req.originalUrl);
      const to = returnPath(query.get('back_to'), prefix);
      const attempt = { ...newSignInAttempt(), to, expires_at: clock.now() + SIGN_IN_SECONDS * 1000 };
      try {
        const url = await identity.provider.authorizationUrl(attempt, { other_account: query.get('other') === '1' });
        const sealed = await identity.tokens.seal(attempt, 'sign-in-attempt');
        const headers = { 'set-cookie': cookies.keep(req.headers, attempt.state, sealed) };
        return { status: 303, location: url.href, headers, result: { outcome: 'begun' } };
      } catch (error) {
        if (error instanceof ProviderError) return providerFailure(sign_in, visit, signInAgain(sign_in, to), error);
        throw error;
      }
    },
  };
}

const OVER_HTTP = {
  title: 'The console needs HTTPS',
  sentence: 'This gateway uses plain HTTP, so others on the network could take over your session.',
  advice: 'Tell your administrator: server.public_url in gateway.yaml must be an https or loopback URL.',
};

/** Completes a sign-in to the console, in the browser that began it, with a new session (no session fixation). */
export async function finishConsoleSignIn(sign_in: SignIn, visit: Visit, attempt: ConsoleAttempt): Promise<Answer> {
  const { identity, issuer, log } = sign_in;
  const flow = consoleFlow(sign_in, visit, attempt.to);
  const { client, client_address } = flow;
  try {
    const identified = await identifyPerson(sign_in, visit, flow, attempt);
    if ('status' in identified) return identified;
    const { person, grant } = identified;
    const sealed_grant = await identity.tokens.seal(grant, 'provider-grant');
    const opened = await identity.console_sessions.open({ person, sealed_grant, client, client_address });
    if (opened === undefined) {
      const problem = (await identity.claimProblem(person)) ?? 'other_account';
      return await rejectAddress(sign_in, visit, flow, { person, problem });
    }
    await endTokensTheyLost(sign_in, person);
    await endFormer(sign_in, visit);
    const fields = { email: person.email, session: opened.id, client, client_address, ...logged(visit) };
    log.info(fields, 'a console session began');
    const cookies = [signInCookies(issuer).clear(attempt.state), sessionCookie(issuer).keep(opened.cookie)];
    const location = `${issuer}${attempt.to}`;
    return { status: 303, location, headers: { 'set-cookie': cookies }, result: { outcome: 'approved' } };
  } catch (error) {
    return storeFailure(visit, flow.again, error);
  }
}

async function endFormer({ identity, issuer }: SignIn, { req }: Visit): Promise<void> {
  const cookie = sessionCookie(issuer).read(req.headers);
  if (cookie === undefined || !identity.tokens.tags.fit(cookie)) return;
  const former = await identity.console_sessions.find(cookie);
  if (former?.person !== undefined) await identity.sessions.end(former.person.session_id, 'signed in anew', 'person');
}

function consoleFlow({ issuer, addressOf }: SignIn, visit: Visit, to: string): SignInFlow {
  return {
    client: browserName(visit.req.headers['user-agent']),
    client_address: addressOf(visit.req),
    again: signInAgain({ issuer }, to),
    async reject({ message, advice = 'To try again, sign in again.', reason }) {
      const texts = { title: 'Access denied', sentence: message, advice, again: signInAgain({ issuer }, to, true) };
      return errorAnswer(visit, 403, texts, { outcome: 'refused', error_type: reason });
    },
  };
}

const HOW = 'Run "appscli console" on the gateway host: it prints a link that opens the console.';

/** Opens the console with a one-time link of `appscli console`; only without an identity provider, on the gateway host. */
function consoleLink(
  config: GatewayConfig,
  { cookie, sessions }: Pick<ConsoleCallers, 'cookie' | 'sessions'>,
  log: Log,
): Route {
  const issuer = issuerOf(config);
  return {
    path: PATHS.console_link,
    speaks: 'page',
    head: false,
    async get(visit) {
      const { req } = visit;
      const no = (status: number, sentence: string, advice = HOW) =>
        errorAnswer(visit, status, { title: 'This link does not open the console', sentence, advice });
      if (isCrossSiteEmbed(req.headers)) return no(403, 'The page cannot be embedded.');
      try {
        requireLocal(req, config);
      } catch (error) {
        if (error instanceof StageError)
          return no(403, error.message, 'The link is still valid for the rest of its minute.');
        throw error;
      }
      const opened = await sessions.openLink(readQuery(req.originalUrl).get('once') ?? '');
      if (opened === undefined) return no(404, 'It was already used, or is older than a minute.');
      log.info({ operator: opened.operator, ...logged(visit) }, 'a console session began with a link');
      const headers = { 'set-cookie': cookie.keep(opened.cookie) };
      return { status: 303, location: `${issuer}${PATHS.console}`, headers };
    },
  };
}

const WITHOUT_PROVIDER: Route = {
  path: PATHS.console_sign_in,
  speaks: 'page',
  any: (visit) =>
    errorAnswer(visit, 404, {
      title: 'Open the console with a link',
      sentence: 'This gateway has no identity provider, so there is no sign-in.',
      advice: HOW,
    }),
};

function signedOut(issuer: string, atProvider: () => Promise<URL | undefined>): Route {
  return {
    path: PATHS.console_signed_out,
    speaks: 'page',
    async get() {
      // The page does not depend on the provider.
      const at_provider = await atProvider().catch(() => undefined);
      const content = outcome(
        'good',
        'You are signed out of the console',
        'The session in this browser has ended. Programs in your terminal stay signed in.',
        at_provider &&
          html`You may still be signed in at your identity provider, which then needs no password. On a shared computer, <a href="${at_provider.href}" rel="noreferrer">sign out there, too</a>.`,
      );
      const again = html`<p class="actions"><a class="button primary" href="${issuer}${PATHS.console}">Sign in again</a></p>`;
      return { status: 200, page: { title: 'Signed out', content: html`${content}\n${again}` } };
    },
  };
}

/** Makes the function that returns the `ConsoleSession` of engine/edge/console/api.ts. Raises forbidden, rate_limit_exceeded, temporarily_unavailable, store_unavailable. */
function createConsoleState(config: GatewayConfig, callers: ConsoleCallers) {
  const common = {
    sign_in: config.auth?.oidc === undefined ? 'link' : 'provider',
    name: config.branding?.name ?? 'Model gateway',
    version: programVersion(),
    time_zone: config.spend_limits?.time_zone ?? 'UTC',
    public_url: issuerOf(config),
    client_url: clientPackageUrl(issuerOf(config)),
    client_profile: (config.server.profile.clients && config.server.profile_name) ?? null,
    notice: config.branding?.notice ?? null,
  } as const;
  return async (req: Request, res: Response): Promise<object> => {
    const client_sha256 = (await clientPackage(config))?.sha256 ?? null;
    try {
      const { caller, session } = await callers.identify(req, res);
      const { principal, is_admin, email } = caller;
      const person = { email: session.operator ?? email, name: principal.name ?? null, is_admin };
      return { person, signed_out_because: null, client_sha256, ...common };
    } catch (error) {
      if (!(error instanceof StageError) || error.status !== 401) throw error;
      const signed_out_because = error.code === 'credential_missing' ? null : error.message;
      return { person: null, signed_out_because, client_sha256, ...common };
    }
  };
}

/** Routes of the console's session: who is signed in, sign-out and, without an identity provider, the one-time link. */
export function consoleSessionRoutes(options: ConsoleCallerOptions, callers: ConsoleCallers): Router {
  const { config, identity, log } = options;
  const issuer = issuerOf(config);
  const { origin } = new URL(issuer);
  const provider = async () => identity?.provider.signOutUrl();
  const without_provider = identity === undefined ? [WITHOUT_PROVIDER, consoleLink(config, callers, log)] : [];
  const pages = [signedOut(issuer, provider), ...without_provider];
  const router = Router({ caseSensitive: true, strict: true });
  router.use(PATHS.console, (_req, res, next) => {
    res.setHeaders(new Headers(CONSOLE_HEADERS));
    next();
  });
  router.use(
    mountRoutes(pages, { ...options, branding: config.branding, provider_url: config.auth?.oidc?.issuer_url }),
  );
  const readState = createConsoleState(config, callers);
  serve(router, PATHS.console_session, 'GET', readState);
  serve(router, PATHS.console_sign_out, 'POST', async (req, res) => {
    // A form of another site has no cookie, but the response would clear the cookie all the same.
    requireSameOrigin(req, origin);
    // Works without the provider, and for a session that is already over.
    const session = await callers.find(req);
    if (session !== undefined) await callers.sessions.forget(session);
    const person = session?.person;
    if (person !== undefined) await identity?.sessions.end(person.session_id, 'signed out', 'person');
    res.setHeader('set-cookie', callers.cookie.cleared);
    return { location: `${issuer}${PATHS.console_signed_out}` };
  });
  return router;
}

function serve(
  router: Router,
  path: string,
  method: 'GET' | 'POST',
  answer: (req: Request, res: Response) => Promise<object>,
) {
  router.all(path, async (req, res, next) => {
    try {
      if (req.method !== method) throw methodNotAllowed(req, method);
      sendJson(res, 200, await answer(req, res));
    } catch (error) {
      answerOrPass(error, req, res, next);
    }
  });
}
