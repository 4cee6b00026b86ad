import { LRUCache } from 'lru-cache';
import { atMost } from '../../kit/memory.ts';

/** How many callers and models are remembered, those that were busy last. */
const MAX_PAIRS = 5000;
const MAX_MODELS = 1000;
const MIN_SAMPLES = 20;
/** Beyond it the older half counts half, so that a caller who changes is soon known anew. */
const MAX_SAMPLES = 1000;
const SHARE = 0.95;

/** A bucket ends at 1.1 times the end of the one before it; the last is for whatever is above 2^53. */
const GROWTH = Math.log(1.1);
const BUCKETS = Math.ceil(Math.log(Number.MAX_SAFE_INTEGER) / GROWTH) + 1;

interface Histogram {
  readonly buckets: Uint16Array;
  samples: number;
}

/** What requests have cost lately, by caller and model, in one process. */
export class TypicalCosts {
  readonly #pairs = new LRUCache<string, Histogram>(atMost(MAX_PAIRS));
  readonly #models = new LRUCache<string, Histogram>({ max: MAX_MODELS });

  /** Takes note of what a request cost, in nano-USD. */
  add(user: string, model: string, cost_nano_usd: number): void {
    const bucket = bucketOf(cost_nano_usd);
    count(histogramOf(this.#pairs, nameOf(user, model)), bucket);
    count(histogramOf(this.#models, model), bucket);
  }

  /**
   * What 95 of 100 requests of a caller to a model cost at most, up to 10 % too high; what everybody's to the model do while
   * too few of the caller's are known; `undefined` while too few of either are.
   */
  of(user: string, model: string): number | undefined {
    return percentile(this.#pairs.get(nameOf(user, model))) ?? percentile(this.#models.get(model));
  }
}

function nameOf(user: string, model: string): string {
  // The length keeps names apart whatever characters are in them.
  return `${user.length} ${user} ${model}`;
}

function histogramOf(known: LRUCache<string, Histogram>, name: string): Histogram {
  let histogram = known.get(name);
  if (histogram === undefined) {
    histogram = { buckets: new Uint16Array(BUCKETS), samples: 0 };
    known.set(name, histogram);
  }
  return histogram;
}

function bucketOf(cost_nano_usd: number): number {
  if (!(cost_nano_usd > 1)) return 0;
  return Math.min(BUCKETS - 1, Math.ceil(Math.log(cost_nano_usd) / GROWTH - 1e-9));
}

function count(histogram: Histogram, bucket: number): void {
  const { buckets } = histogram;
  buckets[bucket]! += 1;
  histogram.samples++;
  if (histogram.samples <= MAX_SAMPLES) return;
  histogram.samples = 0;
  for (let i = 0; i < BUCKETS; i++) {
    // Rounded up: what is rare must not be forgotten by halving alone.
    buckets[i] = (buckets[i]! + 1) >> 1;
    histogram.samples += buckets[i]!;
  }
}

function percentile(histogram: Histogram | undefined): number | undefined {
  if (histogram === undefined || histogram.samples < MIN_SAMPLES) return undefined;
  let above = histogram.samples - Math.ceil(histogram.samples * SHARE);
  for (let bucket = BUCKETS - 1; bucket > 0; bucket--) {
    above -= histogram.buckets[bucket]!;
    if (above < 0) return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(Math.exp(bucket * GROWTH)));
  }
  return 1;
}
