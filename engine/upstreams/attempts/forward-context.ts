import { StageError } from '../../contract/errors.ts';
import type { StageContext } from '../../contract/stage.ts';

/** Facts that sending a request upstream needs. */
export const FORWARD_READS = [
  'route.upstream',
  'route.upstream_model',
  'request.id',
  'request.model',
  'request.protocol',
] as const;

/** Facts that it goes by where they are set. */
export const FORWARD_READS_IF_SET = [
  'route.protocol',
  'cache.downgraded',
  'cache.effective_ttl',
  'request.alias',
  'request.stream',
  'spend.most_nano_usd',
  'error.code',
] as const;

/** Facts that it writes. */
export const FORWARD_WRITES = [
  'request.dropped_headers',
  'upstream.status',
  'upstream.attempts',
  'upstream.retry',
  'upstream.certainty',
  'upstream.ttfb_ms',
  'upstream.request_id',
  'upstream.error_rewritten',
] as const;

/** A request that is to be sent upstream. */
export type ForwardContext = StageContext<
  (typeof FORWARD_READS)[number],
  (typeof FORWARD_READS_IF_SET)[number],
  (typeof FORWARD_WRITES)[number]
>;

/** Raises why nobody waits for a request any more: getting ready takes its time, and nothing is sent after it. */
export function demandWaiting({ given_up, aborted }: Pick<ForwardContext, 'given_up' | 'aborted'>): void {
  if (given_up !== undefined) throw given_up;
  if (aborted) throw new StageError('bad_http', 'The client went away.');
}
