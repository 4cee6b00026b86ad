import assert from 'node:assert/strict';
import { type Profiler, Session } from 'node:inspector/promises';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';

const COUNTED = ['engine/', 'stages/', 'node_modules/'].map(
  (folder) => pathToFileURL(`${import.meta.dirname}/../../${folder}`).href,
);
/** In proportion it is eight, and a little more where counts are put together; with the square of the size it is 64. */
const [FACTOR, FACTOR_MAX] = [8, 20];

/**
 * Asserts that a task of eight times the size takes eight times the steps, not 64 times. Steps are counted, no time is
 * measured, so that it is the same on every machine: how often blocks of our code, and of the packages it uses, are entered.
 * What Node.js does in one call, such as searching a text, is one step: that is for `test/measures/`.
 * Nothing is optimized meanwhile, which slows down all that the process has loaded: `test/proportional-work.slow.test.ts` uses it.
 */
export async function assertProportional(size: number, task: (size: number) => unknown): Promise<void> {
  // One-time work is done at first.
  const [, few, many] = await stepsOf([size, size, FACTOR * size].map((each) => () => task(each)));
  assert.ok(few! > 0, 'nothing was counted');
  assert.ok(many! < FACTOR_MAX * few!, `${many} steps for a size of ${FACTOR * size}, ${few} for ${size}`);
}

/** The steps of each task. */
async function stepsOf(tasks: readonly (() => unknown)[]): Promise<number[]> {
  const session = new Session();
  session.connect();
  // Optimized code counts no calls.
  for (const flag of ['--no-opt', '--no-maglev']) setFlagsFromString(flag);
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
    const steps: number[] = [];
    for (const task of tasks) {
      await task();
      // Counts begin again with it.
      const { result } = await session.post('Profiler.takePreciseCoverage');
      steps.push(sumOf(result));
    }
    await session.post('Profiler.stopPreciseCoverage');
    return steps;
  } finally {
    for (const flag of ['--opt', '--maglev']) setFlagsFromString(flag);
    session.disconnect();
  }
}

function sumOf(scripts: readonly Profiler.ScriptCoverage[]): number {
  return scripts
    .filter(({ url }) => COUNTED.some((folder) => url.startsWith(folder)))
    .flatMap(({ functions }) => functions)
    .flatMap(({ ranges }) => ranges)
    .reduce((sum, { count }) => sum + count, 0);
}
