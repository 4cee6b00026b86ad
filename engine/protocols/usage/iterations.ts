import {
  asObject,
  type Iteration,
  TOKENS_MAX,
  type UsageField,
  type UsageReading,
  type UsageReport,
} from './reading.ts';
import { modelName } from './telling.ts';

/** The most runs of a model that are kept apart; further ones are added to the last of their kind and model. */
const ITERATIONS_MAX = 128;

/** How long a type may be that is remembered. */
const TYPE_MAX = 64;

/**
 * Takes in `usage.iterations` of the Messages protocol: what each run of a model used, by itself. A later list takes the place
 * of an earlier one, as it tells of the same runs and more.
 * @param readCounts the reader of the `usage` objects of the protocol, which a run has the counts of.
 */
export function readIterations(
  reading: UsageReading,
  value: unknown,
  readCounts: (run: Record<string, unknown>) => UsageReport | undefined,
): void {
  if (value === undefined || value === null) return;
  if (!Array.isArray(value)) {
    reading.unusable = true;
    return;
  }
  const iterations: Iteration[] = [];
  for (const item of value) {
    const run = asObject(item);
    if (run === undefined) reading.unusable = true;
    else keep(iterations, readIteration(reading, run, readCounts(run)));
  }
  // Once the answer is complete, no run is taken back.
  if (reading.complete && tokensOf(iterations) < tokensOf(reading.iterations ?? [])) return;
  reading.iterations = iterations.length === 0 ? undefined : iterations;
}

function tokensOf(iterations: readonly Iteration[]): number {
  const counts = iterations.flatMap(({ reported }) => Object.values(reported));
  return counts.reduce((sum, count) => sum + count, 0);
}

function readIteration(
  reading: UsageReading,
  run: Record<string, unknown>,
  report: UsageReport | undefined,
): Iteration {
  reading.unusable ||= report?.unusable === true;
  const model = modelName(run.model);
  const type = typeof run.type === 'string' ? run.type.slice(0, TYPE_MAX) : '';
  return { type, reported: report?.counts ?? {}, ...(model !== undefined && { model }) };
}

function keep(iterations: Iteration[], run: Iteration): void {
  const same =
    iterations.length < ITERATIONS_MAX
      ? -1
      : iterations.findLastIndex(({ type, model }) => type === run.type && model === run.model);
  if (same < 0) {
    // Types and models that are new after so many runs are still few: each is kept once.
    if (iterations.length < 2 * ITERATIONS_MAX) iterations.push(run);
    return;
  }
  const before = iterations[same]!;
  const reported: Partial<Record<UsageField, number>> = { ...before.reported };
  for (const name in run.reported) {
    const field = name as UsageField;
    reported[field] = Math.min((reported[field] ?? 0) + run.reported[field]!, TOKENS_MAX);
  }
  iterations[same] = { ...before, reported };
}
