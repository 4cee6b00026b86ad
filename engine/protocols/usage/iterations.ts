import {
  asObject,
  type Iteration,
  isCount,
  SPLIT,
  TOKENS_MAX,
  TOTALS,
  type UsageField,
  type UsageReading,
} from './reading.ts';
import { modelName } from './telling.ts';

/** The most runs of a model that are kept apart; further ones are added to the last of their kind and model. */
const ITERATIONS_MAX = 128;

/** How long a type may be that is remembered. */
const TYPE_MAX = 64;

/**
 * Takes in `usage.iterations` of the Messages protocol: what each run of a model used, by itself. A later list takes the place
 * of an earlier one, as it tells of the same runs and more.
 */
export function readIterations(reading: UsageReading, value: unknown): void {
  if (value === undefined || value === null) return;
  if (!Array.isArray(value)) {
    reading.unusable = true;
    return;
  }
  const iterations: Iteration[] = [];
  for (const item of value) {
    const run = asObject(item);
    if (run === undefined) reading.unusable = true;
    else keep(iterations, readIteration(reading, run));
  }
  reading.iterations = iterations.length === 0 ? undefined : iterations;
}

function readIteration(reading: UsageReading, run: Record<string, unknown>): Iteration {
  const reported: Partial<Record<UsageField, number>> = {};
  const take = (field: UsageField, found: unknown) => {
    if (isCount(found, TOKENS_MAX)) reported[field] = found;
    else if (found !== undefined && found !== null) reading.unusable = true;
  };
  for (const field of TOTALS) take(field, run[field]);
  const split = asObject(run.cache_creation);
  for (const field of SPLIT) take(field, split?.[field]);
  const model = modelName(run.model);
  const type = typeof run.type === 'string' ? run.type.slice(0, TYPE_MAX) : '';
  return { type, reported, ...(model !== undefined && { model }) };
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
  const reported = { ...before.reported };
  for (const field of [...TOTALS, ...SPLIT]) {
    const sum = (before.reported[field] ?? 0) + (run.reported[field] ?? 0);
    if (sum > 0) reported[field] = Math.min(sum, TOKENS_MAX);
  }
  iterations[same] = { ...before, reported };
}
