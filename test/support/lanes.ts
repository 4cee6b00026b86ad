import { globSync } from 'node:fs';

/** Measure their process, or change it, and so have one of their own. The longest ones come first. */
const ALONE = [
  'test/e2e/lifecycle/package.test.ts',
  'test/e2e/money/money-crashes.test.ts',
  'test/e2e/money/one-caller.test.ts',
  'test/e2e/streams/stream-memory.test.ts',
  'test/e2e/hostile/hostile-json.test.ts',
  'test/e2e/lifecycle/reload-load.test.ts',
  'test/e2e/streams/backpressure.test.ts',
];

/** Test files in the order in which they start: those with a process of their own, then those that share some. */
export function testFiles(): { readonly alone: readonly string[]; readonly together: readonly string[] } {
  const all = globSync('test/**/*.test.ts').sort(endToEndFirst);
  return { alone: ALONE, together: all.filter((file) => !ALONE.includes(file)) };
}

/** What takes long goes first, so that the processes end at about the same time. */
function endToEndFirst(one: string, other: string): number {
  const rank = (file: string) => (file.startsWith('test/e2e/') ? 0 : 1);
  return rank(one) - rank(other) || one.localeCompare(other);
}
