import type { CacheLifetime, EffectivePrice, Served } from '../../../base/contract/services.ts';
import { cacheTokens, relayedOutput, type UsageReading } from '../../protocols/index.ts';
import { inputTokens, toolsUsed, withAudio } from '../prices/charge.ts';
import { costOf } from '../prices/prices.ts';

/** The percentage of the reserved amount that triggers a top-up when spent. */
const FULL_PERCENT = 80;

/** The state that decides when a typical reservation is topped up. */
export interface ReservationWatch {
  /** The most the request can cost, in nano-USD. */
  readonly most: number;
  readonly price: EffectivePrice;
  /** Input tokens until the upstream reports them. */
  readonly input_estimate: number;
  readonly cache_asked: CacheLifetime;
  readonly asked: Served;
  /** The currently reserved amount, in nano-USD. */
  reserved: number;
  /** Output tokens at which the cost is computed again. */
  next_output: number;
  /** The reported usage when `next_output` was computed. */
  known: number;
}

/** Watches a reservation of `reserved` nano-USD. */
export function watchReservation(
  start: Pick<ReservationWatch, 'most' | 'price' | 'input_estimate' | 'cache_asked' | 'asked' | 'reserved'>,
): ReservationWatch {
  return { ...start, next_output: 0, known: -1 };
}

/**
 * The new amount to reserve in nano-USD, if a top-up is due: twice the cost so far, at most the worst case. Costs two
 * comparisons until then.
 */
export function moreToReserve(watch: ReservationWatch, reading: UsageReading): number | undefined {
  if (watch.reserved >= watch.most) return undefined;
  const known = whatIsKnown(reading);
  const output = Math.max(reading.reported.output ?? 0, relayedOutput(reading, 0));
  if (known === watch.known && output < watch.next_output) return undefined;
  watch.known = known;
  const before = watch.reserved;
  const cost = costSoFar(watch, reading, output);
  if (cost * 100 > watch.reserved * FULL_PERCENT)
    watch.reserved = Math.min(watch.most, Math.max(watch.reserved, 2 * cost));
  watch.next_output = outputThatFills(watch, reading, output);
  return watch.reserved > before ? watch.reserved : undefined;
}

/** Changes when the upstream reports billed usage other than output. */
function whatIsKnown({ reported, tools_begun }: UsageReading): number {
  let known = reported.input === undefined ? 0 : 1;
  for (const tool in tools_begun) known += tools_begun[tool]!;
  return known;
}

function costSoFar(watch: ReservationWatch, reading: UsageReading, output: number): number {
  const cache = cacheTokens(reading.reported, watch.cache_asked);
  const input = inputTokens(reading.reported, cache, watch.input_estimate);
  const server_tools = toolsUsed(reading, false, watch.price.server_tools_pico);
  const served = reading.served === undefined ? watch.asked : { ...watch.asked, ...reading.served };
  const tokens = withAudio({ input, output, ...cache }, reading.reported);
  return costOf(watch.price, { ...tokens, served, ...(server_tools && { server_tools }) });
}

/** The output tokens at which the next top-up is due, so that deltas need no price computation. */
function outputThatFills(watch: ReservationWatch, reading: UsageReading, output: number): number {
  const now = costSoFar(watch, reading, output);
  const thousand = costSoFar(watch, reading, output + 1000) - now;
  if (thousand <= 0) return Infinity;
  return output + Math.max(1, Math.ceil((((watch.reserved * FULL_PERCENT) / 100 - now) * 1000) / thousand));
}
