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
import { rolesOf } from '../../domain/identity/deprovisioning/deprovision.ts';
import {
  createServiceTokenVerifier,
  type ServiceToken,
  type VerifyServiceToken,
} from '../../domain/identity/tokens/service-tokens.ts';
import { isServiceToken } from '../../domain/identity/tokens/token-format.ts';
import { BufferedBody } from '../../pipeline/run/body.ts';
import { type AdminOptions, asStageError, type Caller, programCaller } from '../admin/calls.ts';
import { ADMIN_API, ADMIN_OPERATIONS, type DescribedOperation, type Sent, showName } from '../admin/description.ts';
import type { Download, FeedEvent, LiveFeed } from '../admin/lists.ts';
import { createRunOperation, requireAdminRole } from '../admin/operations.ts';
import { createBodyReceiver } from './body-receiver.ts';
import { identityOf, notePerson, type RequestIdentity } from './request-identity.ts';
import { answerHeaders, answerOrPass, methodNotAllowed, sendJson, unsupportedMediaType } from './send-error.ts';
import type { ConsoleCallers } from './sign-in/console.ts';

const MAX_BODY_BYTES = 65_536;

type AdminRequest = IncomingMessage & { originalUrl: string; params: Record<string, unknown> };

function createReadCall(config: GatewayConfig, clock: Clock) {
  const receiveBody = createBodyReceiver(config, MAX_BODY_BYTES, clock);
  const readBody = async (req: IncomingMessage, schema: object, caller_id: string): Promise<unknown> => {
    const { 'content-length': length, 'transfer-encoding': coding, 'content-type': type = '' } = req.headers;
    if (coding === undefined && (length === undefined || length === '0')) return {};
    if (jsonTypeProblem(type) !== undefined) {
      throw unsupportedMediaType('The body must be JSON, sent with "content-type: application/json".');
    }
    const { properties = {} } = schema as { readonly properties?: object };
    const keys = new KeyTable(Object.keys(properties).map((name) => ({ name, decides: 'top' })));
    return receiveBody(req, caller_id, (bytes) => new BufferedBody(bytes, () => {}).json(keys));
  };
  return async (req: AdminRequest, { path_names, body }: DescribedOperation, caller_id: string): Promise<Sent> => ({
    path: Object.fromEntries(path_names.map((name) => [name, String(req.params[name] ?? '')])),
    query: { ...resumption(req), ...readQuery(req.originalUrl) },
    body: body === undefined ? undefined : await readBody(req, body, caller_id),
  });
}

function resumption({ headers }: IncomingMessage): Record<string, string> {
  const id = headers['last-event-id'];
  return typeof id === 'string' && /^\d{1,15}$/.test(id) ? { after: id } : {};
}

function readQuery(url: string): Record<string, string> {
  const at = url.indexOf('?');
  const values: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(at < 0 ? '' : url.slice(at + 1))) {
    if (Object.hasOwn(values, name)) {
      const message = `Duplicate parameter ${showName(name)}; send it once.`;
      throw new StageError('invalid_request', message);
    }
    values[name] = value;
  }
  return values;
}

const whatToSend = (token_command: string) =>
  `send a session token as "Authorization: Bearer <token>"; "${token_command}" prints yours`;

type Identifying = Pick<AdminRoutesOptions, 'config' | 'verify' | 'console'> & {
  readonly verifyService: VerifyServiceToken;
};

/**
 * Authenticates the caller of the admin API. Access tokens are for models only: a leaked one must not create more tokens. Raises
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

async function requireStillValid(
  req: IncomingMessage,
  res: ServerResponse,
  identifying: Identifying,
  { is_admin }: Pick<Caller, 'is_admin'>,
): Promise<void> {
  const cookie = identifying.console?.cookie.read(req.headers);
  if (cookie === undefined || req.headers.authorization !== undefined || req.headers['x-api-key'] !== undefined) {
    const now = await identifyCaller(req, res, identifying);
    if (now.is_admin !== is_admin) throw new StageError('forbidden', 'Your role has changed. Sign in again.');
    return;
  }
  const session = await identifying.console!.sessions.find(cookie);
  if (session !== undefined && (session.person?.revoked_at ?? null) === null) return;
  throw new StageError('credential_expired', 'The session is over. Sign in again.');
}

/**
 * The caller without groups lost since the session token was issued: tokens made in this request outlive the session token.
 * Raises store_unavailable.
 */
async function withCurrentGroups(
  caller: Caller,
  { database, config }: Pick<AdminRoutesOptions, 'database' | 'config'>,
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

function requireScope({ scope }: DescribedOperation, { scopes, principal }: Caller): void {
  if (scopes === undefined || (scope !== undefined && scopes.includes(scope))) return;
  const why =
    scope === undefined
      ? 'this operation is for signed-in people'
      : `the operation needs ${scope}; the token has ${scopes.join(', ')}`;
  throw new StageError('forbidden', `The service token "${principal.token.name}" lacks permission: ${why}.`);
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
    `Access tokens are for models only. Sign in with "${command('login')}" and send the session token that "${command('token')}" prints.`,
  );
}

async function sendDownload(
  res: Response,
  { file_name, chunks }: Download,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  res.writeHead(200, { ...headers, 'content-disposition': `attachment; filename="${file_name}"` });
  if (res.req.method === 'HEAD') res.end();
  else await pipeline(Readable.from(chunks), res);
}

/** Heartbeat interval, so that proxies do not close an idle connection. */
const HEARTBEAT_MS = 3000;
/** A slower reader is disconnected; it reconnects and resumes. */
const WAITING_BYTES_MAX = 1_048_576;

/**
 * Sends events as they occur (`text/event-stream`), until the reader disconnects, the gateway stops, or `mayGoOn`, called at each
 * heartbeat, raises. Raises the errors of opening the feed.
 */
export async function sendFeed(
  res: Response,
  feed: LiveFeed,
  { headers, mayGoOn }: { readonly headers: Readonly<Record<string, string>>; mayGoOn(): Promise<unknown> },
): Promise<void> {
  if (res.req.method === 'HEAD') return void res.writeHead(200, headers).end();
  const early: FeedEvent[] = [];
  let is_open = false;
  // Node emits an uncaught error for a write after the end, and a slow reader may take long to receive the end.
  const write = (text: string) => {
    if (res.writableLength > WAITING_BYTES_MAX) res.destroy();
    else if (!res.writableEnded && !res.destroyed) res.write(text);
  };
  const send = ({ id, event, data }: FeedEvent) => write(`id: ${id}\nevent: ${event}\ndata: ${jsonText(data)}\n\n`);
  const end = () => void res.end();
  const stop = await feed.open({ send: (event) => (is_open ? send(event) : early.push(event)), end });
  if (res.destroyed) return stop();
  // Proxies that buffer responses would never deliver this one.
  res.writeHead(200, { ...headers, 'x-accel-buffering': 'no' });
  write(': begins\n\n');
  is_open = true;
  for (const event of early) send(event);
  const timer = setInterval(() => {
    // The reader did not receive the end within a heartbeat.
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

/** Begins a change; the returned function reports its end to telemetry. */
function beginChange(
  operation: DescribedOperation,
  { request_id, trace }: RequestIdentity,
  { telemetry, clock }: Pick<AdminRoutesOptions, 'telemetry' | 'clock'>,
) {
  const began_at = clock.now();
  const began = clock.monotonic();
  return (actor_kind: string, subject: string | undefined, error?: unknown) => {
    const problem = error === undefined ? undefined : asStageError(error);
    const error_type = problem instanceof StageError ? problem.code : 'internal_error';
    telemetry.operation({
      name: 'gateway.admin_change',
      attributes: {
        'gateway.admin.action': operation.action,
        'gateway.admin.actor_kind': actor_kind,
        'gateway.admin.subject': subject,
        'gateway.request_id': request_id,
      },
      began_at,
      duration_ms: clock.monotonic() - began,
      ...(problem !== undefined && { error_type }),
      trace,
    });
  };
}

const FEED = 'text/event-stream';

interface AdminRoutesOptions extends AdminOptions {
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'operation'>;
  readonly verify: BearerTokens['verify'];
  readonly console?: Pick<ConsoleCallers, 'concerns' | 'identify' | 'cookie' | 'sessions'>;
  catchUp(): Promise<void>;
}

/**
 * The admin API of one configuration, described by `schemas/admin-api.openapi.json`. Accepts bearer credentials, and the console's
 * cookie on requests of the console itself (CSRF protection).
 */
export function adminRoutes(options: AdminRoutesOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const methods = new Map<string, string[]>();
  const note = (path: string, method: string) => methods.set(path, [...(methods.get(path) ?? []), method]);

  const description = describe(options.config.server.public_url);
  note(ADMIN_API.description, 'GET');
  router.get(ADMIN_API.description, (_req, res) => sendJson(res, 200, description));
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
  router.use(ADMIN_API.path, () => {
    throw new StageError('path_not_found', `Path not found; GET ${ADMIN_API.description} describes the admin API.`);
  });
  router.use(ADMIN_API.path, (error: unknown, req: Request, res: Response, next: NextFunction) => {
    answerOrPass(asStageError(error), req, res, next);
  });
  return router;
}

function createAnswer(options: AdminRoutesOptions) {
  const read = createReadCall(options.config, options.clock);
  const run = createRunOperation(options);
  const verifying = { ...options, verifyService: createServiceTokenVerifier(options) };
  return async (operation: DescribedOperation, req: Request, res: Response) => {
    const changes = operation.method !== 'GET';
    const endChange = changes ? beginChange(operation, identityOf(res), options) : undefined;
    let actor_kind = 'none';
    try {
      const identified = await identifyCaller(req, res, verifying);
      actor_kind = identified.actor.kind;
      notePerson(res, identified.principal);
      requireScope(operation, identified);
      const caller = changes ? await withCurrentGroups(identified, options) : identified;
      requireAdminRole(operation, caller);
      const answered = await run(operation, caller, await read(req, operation, caller.principal.id));
      if (operation.file_type === FEED) {
        const mayGoOn = () => requireStillValid(req, res, verifying, caller);
        await sendFeed(res, answered as LiveFeed, { headers: answerHeaders(res, FEED), mayGoOn });
        return;
      }
      if (operation.file_type !== undefined) {
        await sendDownload(res, answered as Download, answerHeaders(res, `${operation.file_type}; charset=utf-8`));
        return;
      }
      const made = (answered as { readonly id?: string }).id;
      if (changes) await catchUp(options, identityOf(res));
      const collection = operation.path.replace(/\/\{id\}.*/, '');
      sendJson(res, operation.status, answered, operation.has_location ? { location: `${collection}/${made}` } : {});
      endChange?.(actor_kind, made);
    } catch (error) {
      endChange?.(actor_kind, undefined, error);
      throw error;
    }
  };
}

/** Applies a change to this process. Never fails the request: the change is committed, and a new token is shown only once. */
async function catchUp({ catchUp, log }: AdminRoutesOptions, { request_id, trace }: RequestIdentity): Promise<void> {
  try {
    await catchUp();
  } catch (error) {
    const fields = { err: error, request_id, trace_id: trace.trace_id };
    log.warn(fields, 'a change is saved, but this replica applies it with a delay');
  }
}

function describe(public_url: string): object {
  const info = { ...ADMIN_API.document.info, version: programVersion() };
  return { ...ADMIN_API.document, info, servers: [{ url: public_url.replace(/\/+$/, '') }] };
}
