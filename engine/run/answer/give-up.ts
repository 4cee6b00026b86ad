import type { StageError } from '../../contract/errors.ts';
import type { RequestContext } from '../context.ts';

/** Ends a request with an error, as soon as whoever works on it lets it; nothing new is begun for it. */
export function giveUpOn(ctx: RequestContext, reason: StageError): void {
  const { req, res } = ctx.call;
  ctx.given_up ??= reason;
  if (ctx.cancel !== undefined) ctx.cancel(reason);
  // Whoever still sends the request, or is sent a whole answer, can't be told anything.
  else if (res.headersSent || !req.complete) res.destroy();
}
