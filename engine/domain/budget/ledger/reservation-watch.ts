import type { CacheLifetime, EffectivePrice, Served } from '../../../base/contract/services.ts';
import { cacheTokens, relayedOutput, type UsageReading } from '../../protocols/index.ts';
import { inputTokens, toolsUsed, withAudio } from '../prices/charge.ts';
import { costOf } from '../prices/prices.ts';

/** Part of what is reserved that is spent when more is asked for. */
const FULL_PERCENT = 80;

/** What is reserved for a typical request and what decides how far it goes. */
export interface ReservationWatch {
  /** The most the request can cost, in nano-USD. */
  readonly most: number;
  readonly price: EffectivePrice;
  /** Input tokens while the upstream has not said how many there are. */
  readonly input_estimate: number;
  readonly cache_asked: CacheLifetime;
  readonly asked: Served;
  /** What is reserved by now, in nano-USD. */
  reserved: number;
  /** Output in tokens from which on the reservation is looked at again. */
  next_output: number;
  /** What the upstream had said when `next_output` was computed. */
  known: number;
}

/** Watches a reservation of `reserved` nano-USD. */
export function watchReservation(
  start: Pick<ReservationWatch, 'most' | 'price' | 'input_estimate' | 'cache_asked' | 'asked' | 'reserved'>,
): ReservationWatch {
  return { ...start, next_output: 0, known: -1 };
}

/**
 * What should be reserved now, in nano-USD, when that is more than is reserved: twice the cost so far, at most the most it can
 * cost. Two comparisons, unless the output relayed since has used up what was reserved.
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

/** Changes whenever the upstream has told something that costs money beside its output. */
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

/** The output in tokens at which the reservation is full, found without a price per delta. */
function outputThatFills(watch: ReservationWatch, reading: UsageReading, output: number): number {
  const now = costSoFar(watch, reading, output);
  const thousand = costSoFar(watch, reading, output + 1000) - now;
  if (thousand <= 0) return Infinity;
  return output + Math.max(1, Math.ceil((((watch.reserved * FULL_PERCENT) / 100 - now) * 1000) / thousand));
}
