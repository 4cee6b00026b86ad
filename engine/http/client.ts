import type { GatewayConfig } from '../contract/config.ts';
import { HEADER_FACTS } from '../contract/own-facts.ts';
import type { RequestContext } from '../run/context.ts';
import { createOriginReader } from './forwarded.ts';
import type { RequestIdentity } from './request-identity.ts';

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
