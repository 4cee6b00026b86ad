import type { Arrival } from '../../kit/net/exchange.ts';

/** How the events of a stream came. `unclear` is one that says nothing about it, such as a very short one. */
export type Arriving = 'one_by_one' | 'at_once' | 'in_blocks' | 'unclear';

/** Tells a stream that something on the way held back from one whose sender was slow. */
export function judgeArrivals(_given: {
  readonly body: Buffer;
  readonly arrivals: readonly Arrival[];
  readonly total_ms: number;
  /** Between one event and the next where they were made, if that is known. */
  readonly made_every_ms?: number;
}): Arriving {
  return 'unclear';
}
