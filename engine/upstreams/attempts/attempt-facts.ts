import type { FailedAttempt } from './failed-attempt.ts';
import type { ForwardContext } from './forward-context.ts';
import type { ServedAttempt } from './send-once.ts';

/** Tells what the attempts of a request came to, in the facts `upstream.*`: nothing where none was made. */
export function writeAttemptFacts(
  ctx: ForwardContext,
  failed: readonly FailedAttempt[],
  served: ServedAttempt | undefined,
): void {
  const last = served ?? failed.at(-1);
  if (last === undefined) return;
  const all = [...failed, ...(served === undefined ? [] : [served])];
  const sends = all.reduce((sum, attempt) => sum + attempt.sends, 0);
  if (sends > 0) ctx.set('upstream.attempts', sends);
  if (all.some(({ resent }) => resent !== undefined)) ctx.set('upstream.retry', 'stale_socket');
  ctx.set('upstream.certainty', 'relay' in last ? 'answered' : last.certainty);
  // What the upstream said, whatever the error in it stands for.
  const status = 'relay' in last ? last.relay.response.statusCode : (last.response?.statusCode ?? last.status);
  if (status === undefined) return;
  ctx.set('upstream.status', status);
  ctx.set('upstream.ttfb_ms', last.ms);
  if (last.request_id !== undefined) ctx.set('upstream.request_id', last.request_id);
}
