import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type NextFunction, type Request, type Response, Router } from 'express';
import { clientCommand } from '../../base/contract/client-package.ts';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { BearerTokens, Clock, Log, Principal } from '../../base/contract/services.ts';
import type { Telemetry } from '../../base/contract/telemetry.ts';
import { KeyTable } from '../../base/kit/json/key-names.ts';
import { jsonTypeProblem } from '../../base/kit/media-type.ts';
import { verifyCaller } from '../../base/kit/net/credentials.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { listed } from '../../base/kit/text/suggest.ts';
import type { Changing } from '../../domain/audit/admin-changes.ts';
import { rolesOf } from '../../domain/identity/deprovisioning/deprovision.ts';
import {
  createServiceTokenVerifier,
  type ServiceToken,
  type VerifyServiceToken,
} from '../../domain/identity/tokens/service-tokens.ts';
import { isServiceToken } from '../../domain/identity/tokens/token-format.ts';
import { HeldBody } from '../../pipeline/run/body.ts';
import { BodyBudget, HeldBytes } from '../../pipeline/run/holdings.ts';
import { receiveContent } from '../../pipeline/run/receive-body.ts';
import {
  type AdminOptions,
  asStageError,
  type Caller,
  type Download,
  type FeedEvent,
  type LiveFeed,
  programCaller,
} from '../admin/calls.ts';
import {
  ADMIN_ACTIONS,
  ADMIN_API_DESCRIPTION,
  ADMIN_API_DOCUMENT,
  ADMIN_API_PATH,
  ADMIN_OPERATIONS,
  type DescribedOperation,
  type Sent,
  showName,
} from '../admin/description.ts';
import { createRunOperation, demandRole } from '../admin/operations.ts';

import { identityOf, notePerson, type RequestIdentity } from './request-identity.ts';
import { answerHeaders, answerOrPass, methodNotAllowed, sendJson, typeNotTaken } from './send-error.ts';
import type { ConsoleCallers } from './sign-in/console.ts';

const MAX_BODY_BYTES = 65_536;
/** For all requests of one configuration at once. */
const MAX_BUFFERED_BYTES = 16 * MAX_BODY_BYTES;
const MAX_BUFFERED_BYTES_PER_CALLER = 4 * MAX_BODY_BYTES;

type AdminRequest = IncomingMessage & { originalUrl: string; params: Record<string, unknown> };

/** Reads what a request says. Raises invalid_request, invalid_json, body_too_large, request_timeout. */
type ReadCall = (req: AdminRequest, operation: DescribedOperation, caller_id: string) => Promise<Sent>;

/** Makes the function that reads requests; their bodies share one budget. */
function createReadCall({ server }: GatewayConfig, clock: Clock): ReadCall {
  const budget = new BodyBudget(MAX_BUFFERED_BYTES, MAX_BUFFERED_BYTES_PER_CALLER);
  const { request_body_seconds: total_seconds, request_silence_seconds: silence_seconds } = server.timeouts;
  const limits = { max_bytes: MAX_BODY_BYTES, total_seconds, silence_seconds };
  const readBody = async (req: IncomingMessage, schema: object, caller_id: string): Promise<unknown> => {
    const { 'content-length': length, 'transfer-encoding': coding } = req.headers;
    if (coding === undefined && (length === undefined || length === '0')) return {};
    demandJson(req);
    const room = new HeldBytes(budget, caller_id);
    try {
      const { bytes } = await receiveContent(req, limits, room, clock);
      const held = new HeldBody(bytes, () => {});
      const { properties = {} } = schema as { readonly properties?: object };
      return await held.json(new KeyTable(Object.keys(properties).map((name) => ({ name, decides: 'top' }))));
    } finally {
      room.release();
    }
  };
  return async (req, { path_names, body }, caller_id) => ({
    path: Object.fromEntries(path_names.map((name) => [name, String(req.params[name] ?? '')])),
    query: { ...resumption(req), ...readQuery(req.originalUrl) },
    body: body === undefined ? undefined : await readBody(req, body, caller_id),
  });
}

/** Where a feed goes on that was cut off, as readers of feeds say it by themselves. */
function resumption({ headers }: IncomingMessage): Record<string, string> {
  const id = headers['last-event-id'];
  return typeof id === 'string' && /^\d{1,15}$/.test(id) ? { after: id } : {};
}

function readQuery(url: string): Record<string, string> {
  const at = url.indexOf('?');
  const values: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(at < 0 ? '' : url.slice(at + 1))) {
    if (Object.hasOwn(values, name)) {
      const message = `The parameter ${showName(name)} is there more than once; send it once.`;
      throw new StageError('invalid_request', message);
    }
    values[name] = value;
  }
  return values;
}

function demandJson({ headers }: IncomingMessage): void {
  if (jsonTypeProblem(headers['content-type'] ?? '') !== undefined) {
    throw typeNotTaken('The body must be JSON, sent with "content-type: application/json".');
  }
}

const whatToSend = (token_command: string) =>
  `send a session token as "Authorization: Bearer <token>"; "${token_command}" prints yours`;

interface Identifying {
  readonly config: Pick<GatewayConfig, 'server'>;
  readonly verify: BearerTokens['verify'];
  readonly verifyService: VerifyServiceToken;
  readonly console?: Pick<ConsoleCallers, 'concerns' | 'identify' | 'cookie' | 'sessions'>;
}

/**
 * Finds out who asks. Access tokens are for models: whoever holds one of somebody's many can't make more of them. Raises
 * the credential errors, forbidden, store_unavailable.
 */
async function identifyCaller(
  req: IncomingMessage,
  res: ServerResponse,
  { config, verify, verifyService, console: console_callers }: Identifying,
): Promise<Caller> {
  const { headers } = req;
  const command = (words: string) => clientCommand(config.server.public_url, words);
  const { authorization, 'x-api-key': api_key } = headers;
  if (authorization === undefined && api_key === undefined && console_callers?.concerns(req)) {
    return (await console_callers.identify(req, res)).caller;
  }
  const found = await verifyCaller(
    headers,
    (text): Principal | ServiceToken | Promise<Principal | ServiceToken> =>
      isServiceToken(text) ? verifyService(text) : verifySession(text, verify, command),
    whatToSend(command('token')),
  );
  if ('scopes' in found) {
    const { id, name, owner, scopes } = found;
    const actor = { kind: 'service', name: `${name} (${id}${owner === null ? '' : `, of ${owner}`})` } as const;
    return programCaller(`service:${id}`, name, actor, scopes);
  }
  const { email, roles } = found;
  return { principal: found, email, is_admin: roles.includes('admin'), actor: { kind: 'person', name: email } };
}

/**
 * Raises an error where whoever began something that goes on may no longer. A session of the console is only looked at: a new
 * cookie would reach nobody.
 */
async function demandStillThere(
  req: IncomingMessage,
  res: ServerResponse,
  identifying: Identifying,
  { is_admin }: Pick<Caller, 'is_admin'>,
): Promise<void> {
  const cookie = identifying.console?.cookie.read(req.headers);
  if (cookie === undefined || req.headers.authorization !== undefined || req.headers['x-api-key'] !== undefined) {
    const now = await identifyCaller(req, res, identifying);
    if (now.is_admin !== is_admin) throw new StageError('forbidden', 'The rights of the caller changed.');
    return;
  }
  const session = await identifying.console!.sessions.find(cookie);
  if (session !== undefined && (session.person?.revoked_at ?? null) === null) return;
  throw new StageError('credential_expired', 'The session is over.');
}

/**
 * The caller without groups that the gateway has since learned they are not in: a session token tells those of when it was
 * issued, and what is made with it outlives it. Raises store_unavailable.
 */
async function withoutLostGroups(
  caller: Caller,
  { database, config }: { readonly database: Changing['database']; readonly config: Pick<GatewayConfig, 'auth'> },
): Promise<Caller> {
  if (caller.actor.kind !== 'person') return caller;
  const { principal } = caller;
  const [now] = await database.query<{ groups: readonly string[] }>(
    'principal_groups',
    'select groups from principals where id = $1',
    [principal.id],
  );
  const groups = principal.groups.filter((group) => now?.groups.includes(group));
  const is_admin = caller.is_admin && rolesOf(config.auth ?? {}, groups).includes('admin');
  return { ...caller, principal: { ...principal, groups }, is_admin };
}

/** Refuses a service token what its scopes do not hold. Raises forbidden. */
function demandScope({ scope }: DescribedOperation, { scopes, principal }: Caller): void {
  if (scopes === undefined || (scope !== undefined && scopes.includes(scope))) return;
  const why =
    scope === undefined ? 'this is for people who signed in' : `this needs ${scope}, and it has ${listed(scopes)}`;
  throw new StageError('forbidden', `The service token "${principal.token.name}" is not enough: ${why}.`);
}

async function verifySession(
  token: string,
  verify: BearerTokens['verify'],
  command: (words: string) => string,
): Promise<Principal> {
  const principal = await verify(token);
  if (principal.kind === 'session') return principal;
  throw new StageError(
    'forbidden',
    `An access token is for models only. Sign in with "${command('login')}", and send the session token that "${command('token')}" prints.`,
  );
}

/** Sends a file as it is made, to be kept and not shown. Ends the connection, and raises the error, where making it fails. */
async function sendDownload(
  res: Response,
  { file_name, chunks }: Download,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  res.writeHead(200, { ...headers, 'content-disposition': `attachment; filename="${file_name}"` });
  // Nobody reads what would be made.
  if (res.req.method === 'HEAD') res.end();
  else await pipeline(Readable.from(chunks), res);
}

/** A sign of life at least as often, so that nothing on the way takes the connection for dead. */
const HEARTBEAT_MS = 3000;
/** A reader that takes so little that more than this waits for it is cut off; it comes back and goes on where it was. */
const WAITING_BYTES_MAX = 1_048_576;

/**
 * Sends events as they come (`text/event-stream`), until the reader leaves, the gateway stops, or whoever reads may no longer.
 * @param mayGoOn asked at each sign of life; raises where the credential is worth nothing any more.
 * Raises what keeps it from beginning.
 */
export async function sendFeed(
  res: Response,
  feed: LiveFeed,
  { headers, mayGoOn }: { readonly headers: Readonly<Record<string, string>>; mayGoOn(): Promise<unknown> },
): Promise<void> {
  if (res.req.method === 'HEAD') return void res.writeHead(200, headers).end();
  const early: FeedEvent[] = [];
  let is_open = false;
  // What is written to an answer that has ended is an error nobody catches: a reader may take long for the end.
  const write = (text: string) => {
    if (res.writableLength > WAITING_BYTES_MAX) res.destroy();
    else if (!res.writableEnded && !res.destroyed) res.write(text);
  };
  const tell = ({ id, event, data }: FeedEvent) => write(`id: ${id}\nevent: ${event}\ndata: ${jsonText(data)}\n\n`);
  const end = () => void res.end();
  const stop = await feed.open({ send: (event) => (is_open ? tell(event) : early.push(event)), end });
  if (res.destroyed) return stop();
  // Proxies that keep answers back to compress or collect them would keep this one for ever.
  res.writeHead(200, { ...headers, 'x-accel-buffering': 'no' });
  write(': begins\n\n');
  is_open = true;
  for (const event of early) tell(event);
  const timer = setInterval(() => {
    // Whoever has not taken the end by now never will.
    if (res.writableEnded) return void res.destroy();
    write(':\n\n');
    mayGoOn().catch(() => {
      write('event: ended\ndata: {}\n\n');
      end();
    });
  }, HEARTBEAT_MS);
  timer.unref();
  await new Promise<void>((resolve) => res.once('close', resolve));
  clearInterval(timer);
  stop();
}

/** Tells telemetry of a change, or that it was refused: once, whatever comes after. */
function beginChange(
  operation: DescribedOperation,
  { request_id, trace }: RequestIdentity,
  { telemetry, clock }: { readonly telemetry: Pick<Telemetry, 'operation'>; readonly clock: Clock },
) {
  const began_at = clock.now();
  const began = clock.monotonic();
  let actor_kind = 'none';
  let is_told = false;
  return {
    isBy({ actor }: Caller) {
      actor_kind = actor.kind;
    },
    tell({ subject, error }: { readonly subject?: string | undefined; readonly error?: unknown }) {
      if (is_told) return;
      is_told = true;
      const problem = error === undefined ? undefined : asStageError(error);
      const error_type = problem instanceof StageError ? problem.code : 'internal_error';
      telemetry.operation({
        name: 'gateway.admin_change',
        attributes: {
          'gateway.admin.action': ADMIN_ACTIONS[operation.name],
          'gateway.admin.actor_kind': actor_kind,
          'gateway.admin.subject': subject,
          'gateway.request_id': request_id,
        },
        began_at,
        duration_ms: clock.monotonic() - began,
        ...(problem !== undefined && { error_type }),
        trace,
      });
    },
  };
}

const FEED = 'text/event-stream';

interface AdminRoutesOptions extends AdminOptions {
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'operation'>;
  readonly verify: BearerTokens['verify'];
  /** Who asks by the cookie of a browser; absent: nobody does. */
  readonly console?: Pick<ConsoleCallers, 'concerns' | 'identify' | 'cookie' | 'sessions'>;
  /** Resolves when this process goes by what was changed. */
  catchUp(): Promise<void>;
}

/**
 * The admin API of one configuration: JSON for people who signed in, as `schemas/admin-api.openapi.json` describes it.
 * Bearer credentials open it, and the cookie of the console where the console itself sends it: no other site's page can use it.
 */
export function adminRoutes(options: AdminRoutesOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const methods = new Map<string, string[]>();
  const note = (path: string, method: string) => methods.set(path, [...(methods.get(path) ?? []), method]);

  const description = describe(options.config.server.public_url);
  note(ADMIN_API_DESCRIPTION, 'GET');
  router.get(ADMIN_API_DESCRIPTION, (_req, res) => sendJson(res, 200, description));
  const answer = createAnswer(options);
  for (const operation of ADMIN_OPERATIONS.values()) {
    const pattern = operation.path.replace(/\{(\w+)\}/g, ':$1');
    note(pattern, operation.method);
    const verb = operation.method.toLowerCase() as 'get' | 'post' | 'put' | 'delete';
    router[verb](pattern, (req, res) => answer(operation, req, res));
  }
  for (const [pattern, allowed] of methods) {
    router.all(pattern, (req) => {
      throw methodNotAllowed(req, allowed.map((method) => (method === 'GET' ? 'GET, HEAD' : method)).join(', '));
    });
  }
  router.use(ADMIN_API_PATH, () => {
    throw new StageError(
      'path_not_found',
      `There is nothing at this path; GET ${ADMIN_API_DESCRIPTION} describes what there is.`,
    );
  });
  router.use(ADMIN_API_PATH, (error: unknown, req: Request, res: Response, next: NextFunction) => {
    const problem = isMalformedPath(error)
      ? new StageError('bad_http', 'The path cannot be read: its percent-encoding is malformed.')
      : asStageError(error);
    answerOrPass(problem, req, res, next);
  });
  return router;
}

function createAnswer(options: AdminRoutesOptions) {
  const read = createReadCall(options.config, options.clock);
  const run = createRunOperation(options);
  const verifying = { ...options, verifyService: createServiceTokenVerifier(options) };
  return async (operation: DescribedOperation, req: Request, res: Response) => {
    const changes = operation.method !== 'GET';
    const change = changes ? beginChange(operation, identityOf(res), options) : undefined;
    try {
      const identified = await identifyCaller(req, res, verifying);
      change?.isBy(identified);
      notePerson(res, identified.principal);
      demandScope(operation, identified);
      const caller = changes ? await withoutLostGroups(identified, options) : identified;
      demandRole(operation, caller);
      const answered = await run(operation, caller, await read(req, operation, caller.principal.id));
      if (operation.file_type === FEED) {
        const mayGoOn = () => demandStillThere(req, res, verifying, caller);
        await sendFeed(res, answered as LiveFeed, { headers: answerHeaders(res, FEED), mayGoOn });
        return;
      }
      if (operation.file_type !== undefined) {
        await sendDownload(res, answered as Download, answerHeaders(res, `${operation.file_type}; charset=utf-8`));
        return;
      }
      const made = (answered as { readonly id?: string }).id;
      change?.tell({ subject: made });
      if (changes) await catchUp(options, identityOf(res));
      const collection = operation.path.replace(/\/\{id\}.*/, '');
      sendJson(res, operation.status, answered, operation.has_location ? { location: `${collection}/${made}` } : {});
    } catch (error) {
      change?.tell({ error });
      throw error;
    }
  };
}

/** What was changed is changed, and what was made is shown this once, whatever comes of this. */
async function catchUp({ catchUp, log }: AdminRoutesOptions, { request_id, trace }: RequestIdentity): Promise<void> {
  try {
    await catchUp();
  } catch (error) {
    const fields = { err: error, request_id, trace_id: trace.trace_id };
    log.warn(fields, 'a change was made, and takes a moment longer to be noticed here');
  }
}

function describe(public_url: string): object {
  const info = { ...ADMIN_API_DOCUMENT.info, version: programVersion() };
  return { ...ADMIN_API_DOCUMENT, info, servers: [{ url: public_url.replace(/\/+$/, '') }] };
}

function isMalformedPath(error: unknown): boolean {
  return !(error instanceof StageError) && (error as { readonly status?: unknown } | null)?.status === 400;
}
