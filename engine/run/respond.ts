import type { Answer } from '../contract/stage.ts';
import { sendWhole } from './answer/send-whole.ts';
import type { RequestContext } from './context.ts';
import { REQUEST_ID_HEADER } from './headers.ts';

/** Sends a complete answer. */
export function sendAnswer(ctx: RequestContext, answer: Answer): void {
  ctx.claimConnection();
  const headers: Record<string, string | number> = {
    ...answer.headers,
    // A 304 would state the length of what it stands for (RFC 9110 section 8.6).
    ...(answer.status === 304 ? {} : { 'content-length': Buffer.byteLength(answer.body) }),
    [REQUEST_ID_HEADER]: ctx.peek('request.id')!,
  };
  sendWhole(ctx.exchange.res, answer.status, headers, answer.body);
}
