const FACTOR = Number(process.env.APPSCLI_TEST_RUNS ?? 1);

/** How often a property that takes long is tried: as often as said, times what `APPSCLI_TEST_RUNS` says. */
export const times = (runs: number): number => runs * FACTOR;
