import { LRUCache } from 'lru-cache';
import { atMost } from '../../../base/kit/memory.ts';

/** Sizes of the LRU caches. */
const MAX_PAIRS = 5000;
const MAX_MODELS = 1000;
const MIN_SAMPLES = 20;
/** Decay: beyond this many samples all counts are halved, so that recent requests weigh more. */
const MAX_SAMPLES = 1000;
const SHARE = 0.95;

/** Buckets grow by 10 %; the last one holds everything above 2^53. */
const GROWTH = Math.log(1.1);
const BUCKETS = Math.ceil(Math.log(Number.MAX_SAFE_INTEGER) / GROWTH) + 1;

interface Histogram {
  readonly buckets: Uint16Array;
  samples: number;
}

/** Histograms of recent request costs by user and model, in one process. */
export class TypicalCosts {
  readonly #pairs = new LRUCache<string, Histogram>(atMost(MAX_PAIRS));
  readonly #models = new LRUCache<string, Histogram>({ max: MAX_MODELS });

  /** Adds a sample in nano-USD. */
  add(user: string, model: string, cost_nano_usd: number): void {
    const bucket = bucketOf(cost_nano_usd);
    count(histogramOf(this.#pairs, nameOf(user, model)), bucket);
    count(histogramOf(this.#models, model), bucket);
  }

  /**
   * The 95th percentile of the user's costs for a model, up to 10 % too high. With too few samples that of all users;
   * `undefined` with too few of those as well.
   */
  of(user: string, model: string): number | undefined {
    return percentile(this.#pairs.get(nameOf(user, model))) ?? percentile(this.#models.get(model));
  }
}

function nameOf(user: string, model: string): string {
  // The length makes the key unambiguous for any characters.
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
    // Rounded up: halving alone must not erase rare buckets.
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
