import { crc32 } from 'node:zlib';
import { StageError } from '../../contract/errors.ts';
import type { Witness } from '../../contract/forwarding.ts';
import type { StageContext } from '../../contract/stage.ts';
import { sessionInHeaders } from '../../protocols/body/session.ts';

const NO_BYTES = Buffer.alloc(0);

/** Facts that sending a request upstream needs. */
export const FORWARD_READS = [
  'route.upstream',
  'route.upstream_model',
  'request.id',
  'request.model',
  'request.protocol',
  'request.client.address',
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
  'error.status',
  'principal.id',
  'outcome.unread',
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

export type ForwardContext = StageContext<
  (typeof FORWARD_READS)[number],
  (typeof FORWARD_READS_IF_SET)[number],
  (typeof FORWARD_WRITES)[number]
>;

/** Bytes of a body that count, from either end: turns of a conversation differ there. */
const FINGERPRINT_BYTES = 4096;

/** The witness of a request's attempts. Two requests with one fingerprint only count for less. */
export function witnessOf(ctx: ForwardContext): Witness {
  const { bytes = NO_BYTES } = ctx.body ?? {};
  // A session's first request is like that of another session.
  const head = crc32(bytes.subarray(0, FINGERPRINT_BYTES), crc32(`${sessionInHeaders(ctx.headers)} ${ctx.url}`));
  const caller = ctx.get('principal.id') ?? `address ${ctx.get('request.client.address')}`;
  return { caller, request: crc32(bytes.subarray(-FINGERPRINT_BYTES), head) };
}

/** Raises why nobody waits for a request any more: getting ready takes its time, and nothing is sent after it. */
export function demandWaiting({ given_up, aborted }: Pick<ForwardContext, 'given_up' | 'aborted'>): void {
  if (given_up !== undefined) throw given_up;
  if (aborted) throw new StageError('bad_http', 'The client went away.');
}
