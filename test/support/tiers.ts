import { globSync } from 'node:fs';
import { shuffled } from './random.ts';

/** What `test/run.ts` can be asked for. The deep tier is the quick and the slow one with more of everything. */
const TIERS = ['quick', 'slow', 'deep', 'measures'] as const;
type Tier = (typeof TIERS)[number];

export function isTier(text: string): text is Tier {
  return (TIERS as readonly string[]).includes(text);
}

/** Test files in the order in which they start, and how they are run. */
export interface FileGroup {
  readonly files: readonly string[];
  /** Whether each has a process of its own, which it may measure, change or end. */
  readonly is_isolated: boolean;
  /** How many processes run files at the same time. */
  readonly processes: number;
}

/**
 * The files of a tier on a machine with so many cores. The name of a file says its tier: `*.slow.test.ts` is slow, everything
 * in `test/measures` is measured, and all others are quick.
 */
export function filesOf(tier: Tier, cores: number, seed: number): readonly FileGroup[] {
  const all = shuffled('files', globSync('test/**/*.test.ts').sort(), seed);
  const isMeasured = (file: string) => file.startsWith('test/measures/');
  const isSlow = (file: string) => !isMeasured(file) && file.endsWith('.slow.test.ts');
  const quick = all.filter((file) => !isMeasured(file) && !isSlow(file));
  // End-to-end tests take longest, and go first so that all processes end at about the same time.
  const isLong = (file: string) => file.startsWith('test/e2e/');
  const long_first = [...quick.filter(isLong), ...quick.filter((file) => !isLong(file))];
  // Each group waits part of the time: for other programs, for time limits, for the database.
  const groups = {
    quick: { files: long_first, is_isolated: false, processes: cores + 1 },
    slow: { files: all.filter(isSlow), is_isolated: true, processes: cores + 1 },
    measures: { files: all.filter(isMeasured), is_isolated: true, processes: 1 },
  };
  return tier === 'deep' ? [groups.quick, groups.slow] : [groups[tier]];
}
