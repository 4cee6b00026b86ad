/** Everything that tests leave to chance comes from one seed, which `test/run.ts` prints: `--seed N` repeats a run. */
/** The variable that carries the seed. */
export const SEED_NAME = 'APPSCLI_TEST_SEED';

/** The seed of this run, a whole number below 2^31; a file that is run by hand without one always has the same. */
export const SEED = Number(process.env[SEED_NAME] ?? 1);

/** Numbers from 0 to below 1, the same for the same name and seed (mulberry32). */
export function randomOf(name: string, seed = SEED): () => number {
  let state = seed;
  for (const character of name) state = Math.imul(state ^ character.codePointAt(0)!, 0x01000193) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A copy in another order (Fisher-Yates). */
export function shuffled<T>(name: string, values: readonly T[], seed = SEED): T[] {
  const random = randomOf(name, seed);
  const mixed = [...values];
  for (let last = mixed.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [mixed[last], mixed[other]] = [mixed[other]!, mixed[last]!];
  }
  return mixed;
}
