import { globSync } from 'node:fs';

/** Measure their process, or change it, and so have one of their own. The longest ones come first. */
const ALONE = [
  'test/e2e/lifecycle/package.test.ts',
  'test/e2e/money/one-caller.test.ts',
  'test/e2e/money/money-crashes.test.ts',
  'test/e2e/streams/stream-memory.test.ts',
  'test/e2e/hostile/hostile-json.test.ts',
  'test/e2e/streams/backpressure.test.ts',
  'test/e2e/lifecycle/reload-load.test.ts',
  'test/e2e/telemetry/collector-trouble.test.ts',
];

/** Start, stop or kill whole programs, and wait for them: gateways, PostgreSQL, browsers. The longest ones come first. */
const PROGRAMS = [
  'test/e2e/money/places-of-leavers.test.ts',
  'test/e2e/money/money-failures.test.ts',
  'test/e2e/money/money-replicas.test.ts',
  'test/e2e/lifecycle/frozen-database.test.ts',
  'test/e2e/lifecycle/demo.test.ts',
  'test/examples/failover.test.ts',
  'test/e2e/sign-in/sign-in-browser.test.ts',
  'test/e2e/lifecycle/readiness.test.ts',
  'test/e2e/lifecycle/store-outage.test.ts',
  'test/e2e/lifecycle/start.test.ts',
  'test/e2e/lifecycle/crash.test.ts',
  'test/e2e/lifecycle/drain.test.ts',
  'test/http/sign-in/pages-browser.test.ts',
  'test/e2e/money/spool-outage.test.ts',
  'test/store/embedded/embedded-postgres.test.ts',
  'test/e2e/money/long-answers.test.ts',
  'test/e2e/money/spool-crash.test.ts',
  'test/e2e/sign-in/sign-in-public-url.test.ts',
  'test/e2e/lifecycle/test-runner.test.ts',
];

/** Test files in the order in which they start. */
export interface Lanes {
  /** Slow ones with a process of their own. */
  readonly alone: readonly string[];
  /** The other slow ones. */
  readonly slow: readonly string[];
  readonly fast: readonly string[];
}

/** The lane whose name is given, or else both. */
export function lanes(only?: 'slow' | 'fast'): Lanes {
  const all = globSync('test/**/*.test.ts').sort(endToEndFirst);
  const listed = new Set([...ALONE, ...PROGRAMS]);
  const gone = [...listed].filter((file) => !all.includes(file));
  if (gone.length > 0) throw new Error(`test/support/lanes.ts names files that are not there: ${gone.join(', ')}`);
  const fast = all.filter((file) => !listed.has(file));
  if (only === 'fast') return { alone: [], slow: [], fast };
  return { alone: ALONE, slow: PROGRAMS, fast: only === 'slow' ? [] : fast };
}

/** What takes long goes first, so that the processes end at about the same time. */
function endToEndFirst(one: string, other: string): number {
  const rank = (file: string) => (file.startsWith('test/e2e/') ? 0 : 1);
  return rank(one) - rank(other) || one.localeCompare(other);
}
