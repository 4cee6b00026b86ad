import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { HEADER_FACTS } from '../../base/contract/own-facts.ts';
import { compileRanges } from '../../base/kit/net/address-range.ts';
import { sendWhole } from '../../pipeline/run/answer.ts';
import type { RequestContext } from '../../pipeline/run/context.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { identityOf, type RequestIdentity } from './request-identity.ts';

/** Most proxies a request can have come through; what X-Forwarded-For says beyond them is not looked at. */
const HOPS_MAX = 32;

const REGION = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** Makes what tells where requests come from, by the address of the peer and the headers it sent. Only `server.trusted_proxies` can say that a request comes from somebody else. */
export function createOriginReader(server: Pick<GatewayConfig['server'], 'trusted_proxies' | 'region_header'>) {
  const { trusted_proxies, region_header } = server;
  const isTrusted = compileRanges(trusted_proxies);
  return {
    /** IP address of the client; empty when the connection is gone already. */
    address(peer = '', headers: IncomingHttpHeaders): string {
      const forwarded = trusted_proxies.length === 0 ? undefined : headers['x-forwarded-for'];
      let address = plain(peer);
      if (typeof forwarded !== 'string') return address;
      // Each proxy appends whom it heard from, so the list is believed from its end and only as far as proxies are trusted.
      for (const entry of forwarded.split(',').slice(-HOPS_MAX).reverse()) {
        const named = isTrusted(address) ? addressIn(entry) : undefined;
        if (named === undefined) break;
        address = named;
      }
      return address;
    },
    /** Region of the client, in lower case. */
    region(peer = '', headers: IncomingHttpHeaders): string | undefined {
      const value = region_header === undefined ? undefined : headers[region_header];
      if (typeof value !== 'string' || !isTrusted(peer)) return undefined;
      const region = value.toLowerCase();
      return REGION.test(region) ? region : undefined;
    },
  };
}

/** An IPv4 client of a socket for both families is an IPv4 client; the zone of an address means nothing elsewhere. */
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

/** How long a browser may remember the answer to a preflight; Chromium takes no longer. */
const MAX_AGE_SECONDS = '7200';

/** What pages may read of an answer's head. The star means all of it, and browsers that do not know it get the names. */
const EXPOSED = ['*', REQUEST_ID_HEADER, 'request-id', 'x-request-id', 'retry-after', 'x-should-retry'].join(', ');

/** Names of headers that a preflight asks for; more or longer ones no client of a model API sends. */
const NAME = /^[!#$%&'*+.^_`|~\w-]{1,128}$/;
const NAMES_MAX = 128;

/** Where pages may call models: paths of pipelines, and the rest of the model APIs, whose errors are to be read as well. */
const MODEL_PATHS = '/v1/';

/**
 * Lets pages of `server.cors.origins` read answers at the paths of pipelines (Fetch standard, section 3.3). Browsers are
 * never told to send cookies along: a page sends a token of its own.
 * @returns whether the request was a preflight, and is answered
 */
export type AdmitPages = (
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  pipelines: ReadonlyMap<string, unknown> | undefined,
) => boolean;

/** Makes what admits the pages of a configuration; `undefined` where it names none. */
export function createCors({ server }: Pick<GatewayConfig, 'server'>): AdmitPages | undefined {
  if (server.cors === undefined) return undefined;
  const origins = new Set(server.cors.origins);
  return (req, res, path, pipelines) => {
    if (pipelines === undefined && !path.startsWith(MODEL_PATHS)) return false;
    const { origin, 'access-control-request-method': method } = req.headers;
    const is_listed = origin !== undefined && origins.has(origin);
    // What is kept of an answer for one origin, or for none, is not for another.
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
  const asked = String(headers['access-control-request-headers'] ?? '')
    .split(',', NAMES_MAX)
    .map((name) => name.trim())
    .filter((name) => NAME.test(name));
  // A page of the internet that calls a gateway in the network of the company (Private Network Access).
  const is_private = headers['access-control-request-private-network'] === 'true';
  sendWhole(
    res,
    204,
    {
      vary: 'origin, access-control-request-method, access-control-request-headers',
      'access-control-allow-methods': methods.join(', '),
      ...(asked.length > 0 && { 'access-control-allow-headers': asked.join(', ') }),
      'access-control-max-age': MAX_AGE_SECONDS,
      ...(is_private && { 'access-control-allow-private-network': 'true' }),
      [REQUEST_ID_HEADER]: identityOf(res).request_id,
    },
    '',
  );
}

const SESSION_HEADERS = ['x-claude-code-session-id', 'session-id', 'x-session-id'];

/** Sent with every request by clients that tell other agents by a header of theirs. */
const MAIN_HEADERS = ['x-claude-code-session-id', 'x-codex-window-id'];

/** Longest header value that becomes a fact, so that facts and audit rows stay small. */
const FACT_LENGTH_MAX = 200;
/** Longest value of a header that gateway.yaml makes a fact. */
const HEADER_LENGTH_MAX = 256;

/** Makes the function that notes who is calling as far as the connection and headers tell: address, region, product, session. */
export function createClientNotes({ server, facts }: GatewayConfig): (ctx: RequestContext) => void {
  const origin = createOriginReader(server);
  const { headers } = facts;
  return (ctx) => {
    const { remoteAddress: peer } = ctx.call.req.socket;
    ctx.note('request.client.address', origin.address(peer, ctx.headers));
    const region = origin.region(peer, ctx.headers);
    if (region !== undefined) ctx.note('request.region', region);
    noteProduct(ctx);
    noteSession(ctx);
    noteAgent(ctx);
    for (const name of headers) noteHeader(ctx, name);
  };
}

/** A header that gateway.yaml names; one that is longer than any such value is none. */
function noteHeader(ctx: RequestContext, name: string): void {
  const value = ctx.headers[name];
  if (typeof value !== 'string' || value === '' || value.length > HEADER_LENGTH_MAX) return;
  ctx.setOwnFact(`${HEADER_FACTS}${name}`, value);
}

/** Clients tell by headers whether an agent was started by another one, or works while nobody looks. */
function noteAgent(ctx: RequestContext): void {
  const { headers } = ctx;
  if (headers['x-app'] === 'cli-bg') ctx.note('request.agent', 'background');
  else if (headers['x-claude-code-agent-id'] !== undefined || headers['x-openai-subagent'] !== undefined)
    ctx.note('request.agent', 'subagent');
  else if (MAIN_HEADERS.some((name) => headers[name] !== undefined)) ctx.note('request.agent', 'main');
}

function noteProduct(ctx: RequestContext): void {
  const agent = ctx.headers['user-agent'];
  if (agent === undefined) return;
  const product = agent.split(' ', 1)[0]!.slice(0, FACT_LENGTH_MAX);
  const slash = product.indexOf('/');
  ctx.note('request.client.name', slash < 0 ? product : product.slice(0, slash));
  if (slash > 0) ctx.note('request.client.version', product.slice(slash + 1));
}

function noteSession(ctx: RequestContext): void {
  for (const name of SESSION_HEADERS) {
    const value = ctx.headers[name];
    if (typeof value === 'string' && value !== '') {
      ctx.note('request.session_id', value.slice(0, FACT_LENGTH_MAX));
      return;
    }
  }
}

/** Notes what is known of a request that no pipeline serves, once it is answered. */
export function noteAnswered(ctx: RequestContext, { error, person }: RequestIdentity): void {
  if (error !== undefined && !ctx.aborted) ctx.note('outcome.error', error);
  const { id = person?.email, email, groups } = person ?? {};
  if (id !== undefined) ctx.note('principal.id', id);
  if (email !== undefined) ctx.note('principal.email', email);
  if (groups !== undefined) ctx.note('principal.groups', groups);
}
