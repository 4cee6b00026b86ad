/** The middle value; the mean of the two middle ones for an even count; NaN for none. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** The value below which `share` (0 to 1) of the values lie, interpolated between neighbours; NaN for none. */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)] as number;
  const above = sorted[Math.ceil(position)] as number;
  return below + (above - below) * (position - Math.floor(position));
}

/** Several rounds' result for one figure: its middle, and the interval that contains the true one 95 times of 100. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly rounds: number;
}

/** How often the interval may miss the true value on one side. */
const MISSED_BELOW = 0.025;

/**
 * How many of the sorted means of pairs lie outside the interval at each end: Wilcoxon's signed-rank distribution, exactly.
 * @returns 0 when even the widest interval would be too sure
 */
function outside(count: number): number {
  // Chance of each sum of ranks, when a coin says of each rank whether it counts.
  let chances = [1];
  for (let rank = 1; rank <= count; rank++) {
    const next = new Array<number>(chances.length + rank).fill(0);
    for (const [sum, chance] of chances.entries()) {
      next[sum]! += chance / 2;
      next[sum + rank]! += chance / 2;
    }
    chances = next;
  }
  let below = 0;
  for (const [sum, chance] of chances.entries()) {
    below += chance;
    if (below > MISSED_BELOW) return sum;
  }
  return 0;
}

/**
 * The middle of values that scatter alike to both sides, with wild ones among them: the median of the means of all pairs
 * (Hodges and Lehmann), with the interval that belongs to it. It needs half as many rounds as a median for the same interval,
 * and a quarter of the rounds may be spoiled. The interval is endless below six values. Values that are no numbers don't count.
 */
export function estimate(values: readonly number[]): Estimate {
  const known = values.filter((value) => Number.isFinite(value));
  const means = known.flatMap((one, at) => known.slice(at).map((other) => (one + other) / 2)).sort((a, b) => a - b);
  const left_out = outside(known.length);
  return {
    value: median(means),
    low: left_out === 0 ? Number.NEGATIVE_INFINITY : means[left_out - 1]!,
    high: left_out === 0 ? Number.POSITIVE_INFINITY : means.at(-left_out)!,
    rounds: known.length,
  };
}

/** The ratio of two figures of the same rounds: a noisy round hits both, so each round has its own ratio. */
export function estimateRatio(above: readonly number[], below: readonly number[]): Estimate {
  // Twice as much and half as much are equally far from the same.
  const { value, low, high, rounds } = estimate(above.map((one, round) => Math.log(one / below[round]!)));
  return { value: Math.exp(value), low: Math.exp(low), high: Math.exp(high), rounds };
}

/** Slices that are compared with as many before them, and how far one may still fall for it to count as standing still. */
const SLICES = 3;
const STILL = 0.97;

/** Whether costs, slice by slice, have stopped falling. */
export function isSteady(costs: readonly number[]): boolean {
  const before = costs.slice(-2 * SLICES, -SLICES);
  return before.length === SLICES && median(costs.slice(-SLICES)) >= STILL * median(before);
}

/** Width of the interval in parts of the value. */
export function width({ value, low, high }: Estimate): number {
  return (high - low) / Math.abs(value);
}
