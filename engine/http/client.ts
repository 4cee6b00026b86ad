import type { RequestContext } from '../run/context.ts';

const SESSION_HEADERS = ['x-claude-code-session-id', 'session-id', 'x-session-id'];

/** Longest header value that becomes a fact, so that facts and audit rows stay small. */
const FACT_LENGTH_MAX = 200;

/** Notes who is calling as far as headers tell: product, version, session. */
export function describeClient(ctx: RequestContext): void {
  const { headers, exchange } = ctx;
  // An IPv4 client of a socket for both families.
  ctx.note('request.client.address', (exchange.req.socket.remoteAddress ?? '').replace(/^::ffff:/, ''));
  const agent = headers['user-agent'];
  if (agent !== undefined) {
    const product = agent.split(' ', 1)[0]!.slice(0, FACT_LENGTH_MAX);
    const slash = product.indexOf('/');
    ctx.note('request.client.name', slash < 0 ? product : product.slice(0, slash));
    if (slash > 0) ctx.note('request.client.version', product.slice(slash + 1));
  }
  for (const name of SESSION_HEADERS) {
    const value = headers[name];
    if (typeof value === 'string' && value !== '') {
      ctx.note('request.session_id', value.slice(0, FACT_LENGTH_MAX));
      return;
    }
  }
}
