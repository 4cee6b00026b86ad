import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { HEADER_FACTS } from '../../base/contract/own-facts.ts';
import { compileRanges } from '../../base/kit/net/address-range.ts';
import { sendWhole } from '../../pipeline/run/answer.ts';
import type { RequestContext } from '../../pipeline/run/context.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { identityOf, type RequestIdentity } from './request-identity.ts';

/** Longest chain of proxies; X-Forwarded-For entries beyond it are ignored. */
const HOPS_MAX = 32;

const REGION = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** Reads the client's address and region from the peer address and headers. Only `server.trusted_proxies` may forward another address. */
export function createOriginReader(server: Pick<GatewayConfig['server'], 'trusted_proxies' | 'region_header'>) {
  const { trusted_proxies, region_header } = server;
  const isTrusted = compileRanges(trusted_proxies);
  return {
    address(peer = '', headers: IncomingHttpHeaders): string {
      const forwarded = trusted_proxies.length === 0 ? undefined : headers['x-forwarded-for'];
      let address = plain(peer);
      if (typeof forwarded !== 'string') return address;
      // Each proxy appends its peer, so the list is read from its end, as far as the proxies are trusted.
      for (const entry of forwarded.split(',').slice(-HOPS_MAX).reverse()) {
        const named = isTrusted(address) ? addressIn(entry) : undefined;
        if (named === undefined) break;
        address = named;
      }
      return address;
    },
    region(peer = '', headers: IncomingHttpHeaders): string | undefined {
      const value = region_header === undefined ? undefined : headers[region_header];
      if (typeof value !== 'string' || !isTrusted(peer)) return undefined;
      const region = value.toLowerCase();
      return REGION.test(region) ? region : undefined;
    },
  };
}

/** Unwraps IPv4-mapped IPv6 addresses, and drops the zone, which is meaningless on other machines. */
function plain(address: string): string {
  if (address.startsWith('::ffff:') && address.includes('.')) return address.slice(7);
  return address.split('%', 1)[0]!;
}

/** The address in an entry such as `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]:4711`. */
function addressIn(entry: string): string | undefined {
  const text = entry.trim().toLowerCase();
  const inner = /^\[([0-9a-f:.]+)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  return isIP(inner) === 0 || inner.includes('%') ? undefined : plain(inner);
}

const MAX_AGE_SECONDS = '7200';

/** Response headers that pages may read. The star means all; the names are for browsers that do not support it. */
const EXPOSED = ['*', REQUEST_ID_HEADER, 'request-id', 'x-request-id', 'retry-after', 'x-should-retry'].join(', ');

/** Header names in a preflight request; no client of a model API sends longer or more names. */
const NAME = /^[!#$%&'*+.^_`|~\w-]{1,128}$/;
const NAMES_MAX = 128;

/** CORS applies to paths of pipelines, and to other model API paths, so that pages can read their errors. */
const MODEL_PATHS = '/v1/';

/**
 * CORS (Fetch standard, section 3.3): whether the request was a preflight that is now finished. Credentials mode is never allowed: a
 * page sends its own token.
 */
export type HandleCors = (
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  pipelines: ReadonlyMap<string, unknown> | undefined,
) => boolean;

/** Lets pages of `server.cors.origins` read responses at the paths of pipelines; `undefined` if it lists no origins. */
export function createCors({ server }: Pick<GatewayConfig, 'server'>): HandleCors | undefined {
  if (server.cors === undefined) return undefined;
  const origins = new Set(server.cors.origins);
  return (req, res, path, pipelines) => {
    if (pipelines === undefined && !path.startsWith(MODEL_PATHS)) return false;
    const { origin, 'access-control-request-method': method } = req.headers;
    const is_listed = origin !== undefined && origins.has(origin);
    // Caches must not reuse the response for another origin.
    if (is_listed || req.method === 'GET' || req.method === 'HEAD') res.setHeader('vary', 'origin');
    if (!is_listed) return false;
    res.setHeader('access-control-allow-origin', origin);
    if (req.method === 'OPTIONS' && method !== undefined && pipelines?.has('OPTIONS') !== true) {
      answerPreflight(req, res, [...(pipelines?.keys() ?? ['GET', 'POST'])]);
      return true;
    }
    res.setHeader('access-control-expose-headers', EXPOSED);
    return false;
  };
}

function answerPreflight({ headers }: IncomingMessage, res: ServerResponse, methods: readonly string[]): void {
  const requested = String(headers['access-control-request-headers'] ?? '')
    .split(',', NAMES_MAX)
    .map((name) => name.trim())
    .filter((name) => NAME.test(name));
  // A public page that calls a gateway in a private network (Private Network Access).
  const is_private = headers['access-control-request-private-network'] === 'true';
  sendWhole(
    res,
    204,
    {
      vary: 'origin, access-control-request-method, access-control-request-headers',
      'access-control-allow-methods': methods.join(', '),
      ...(requested.length > 0 && { 'access-control-allow-headers': requested.join(', ') }),
      'access-control-max-age': MAX_AGE_SECONDS,
      ...(is_private && { 'access-control-allow-private-network': 'true' }),
      [REQUEST_ID_HEADER]: identityOf(res).request_id,
    },
    '',
  );
}

const SESSION_HEADERS = ['x-claude-code-session-id', 'session-id', 'x-session-id'];

/** Clients that mark their subagents send one of these with every request. */
const MAIN_HEADERS = ['x-claude-code-session-id', 'x-codex-window-id'];

/** Longest header value that becomes a fact; keeps facts and audit rows small. */
const FACT_LENGTH_MAX = 200;
const HEADER_LENGTH_MAX = 256;

/** Makes the function that sets the facts of connection and headers: address, region, product, session, agent. */
export function createClientNotes({ server, facts }: GatewayConfig): (ctx: RequestContext) => void {
  const origin = createOriginReader(server);
  const { headers } = facts;
  return (ctx) => {
    const { remoteAddress: peer } = ctx.call.req.socket;
    ctx.putFact('request.client.address', origin.address(peer, ctx.headers));
    const region = origin.region(peer, ctx.headers);
    if (region !== undefined) ctx.putFact('request.region', region);
    noteProduct(ctx);
    noteSession(ctx);
    noteAgent(ctx);
    for (const name of headers) noteHeader(ctx, name);
  };
}

function noteHeader(ctx: RequestContext, name: string): void {
  const value = ctx.headers[name];
  if (typeof value !== 'string' || value === '' || value.length > HEADER_LENGTH_MAX) return;
  ctx.setOwnFact(`${HEADER_FACTS}${name}`, value);
}

function noteAgent(ctx: RequestContext): void {
  const { headers } = ctx;
  if (headers['x-app'] === 'cli-bg') ctx.putFact('request.agent', 'background');
  else if (headers['x-claude-code-agent-id'] !== undefined || headers['x-openai-subagent'] !== undefined)
    ctx.putFact('request.agent', 'subagent');
  else if (MAIN_HEADERS.some((name) => headers[name] !== undefined)) ctx.putFact('request.agent', 'main');
}

function noteProduct(ctx: RequestContext): void {
  const agent = ctx.headers['user-agent'];
  if (agent === undefined) return;
  const product = agent.split(' ', 1)[0]!.slice(0, FACT_LENGTH_MAX);
  const slash = product.indexOf('/');
  ctx.putFact('request.client.name', slash < 0 ? product : product.slice(0, slash));
  if (slash > 0) ctx.putFact('request.client.version', product.slice(slash + 1));
}

function noteSession(ctx: RequestContext): void {
  for (const name of SESSION_HEADERS) {
    const value = ctx.headers[name];
    if (typeof value === 'string' && value !== '') {
      ctx.putFact('request.session_id', value.slice(0, FACT_LENGTH_MAX));
      return;
    }
  }
}

/** Sets the facts of a finished request outside the pipelines. */
export function noteAnswered(ctx: RequestContext, { error, person }: RequestIdentity): void {
  if (error !== undefined && !ctx.aborted) ctx.putFact('outcome.error', error);
  const { id = person?.email, email, groups } = person ?? {};
  if (id !== undefined) ctx.putFact('principal.id', id);
  if (email !== undefined) ctx.putFact('principal.email', email);
  if (groups !== undefined) ctx.putFact('principal.groups', groups);
}
