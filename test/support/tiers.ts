import { globSync } from 'node:fs';
import { shuffled } from './random.ts';

/** The options of `test/run.ts`. The deep tier is the quick and the slow one with more of everything. */
const TIERS = ['quick', 'slow', 'deep', 'measures'] as const;
type Tier = (typeof TIERS)[number];

export function isTier(text: string): text is Tier {
  return (TIERS as readonly string[]).includes(text);
}

/** Test files of a tier. */
export interface FileGroup {
  /** Each is emptied by a process of its own, file after file; a queue that is listed twice is emptied by two. */
  readonly queues: readonly string[][];
  /** How many processes run at the same time. */
  readonly processes: number;
}

/** Slow files that share an expensive setup. */
const SHARED = /^test\/e2e\/console\//;

/**
 * The files of a tier on a machine with so many cores, in the order in which they start. The name of a file has its tier:
 * `*.slow.test.ts` is slow, everything in `test/measures` is measured, and all others are quick.
 */
export function filesOf(tier: Tier, cores: number, seed: number): readonly FileGroup[] {
  const all = shuffled('files', globSync('test/**/*.test.ts').sort(), seed);
  const isMeasured = (file: string) => file.startsWith('test/measures/');
  const isSlow = (file: string) => !isMeasured(file) && file.endsWith('.slow.test.ts');
  const isShared = (file: string) => SHARED.test(file);
  const quick = all.filter((file) => !isMeasured(file) && !isSlow(file));
  const slow = all.filter(isSlow);
  // End-to-end tests are slowest, and start first so that all processes end at about the same time.
  const isLong = (file: string) => file.startsWith('test/e2e/');
  const long_first = [...quick.filter(isLong), ...quick.filter((file) => !isLong(file))];
  // Tests wait part of the time: for other programs, for time limits, for the database.
  const processes = cores + 2;
  const groups = {
    quick: { queues: Array<string[]>(processes).fill(long_first), processes },
    // A slow file measures its process, changes it or ends it.
    slow: {
      queues: [slow.filter(isShared), ...slow.filter((file) => !isShared(file)).map((file) => [file])],
      processes,
    },
    measures: { queues: all.filter(isMeasured).map((file) => [file]), processes: 1 },
  };
  return tier === 'deep' ? [groups.quick, groups.slow] : [groups[tier]];
}
