const FACTOR = Number(process.env.APPSCLI_TEST_RUNS ?? 1);

/** How often a property is tried: as often as said, times what `APPSCLI_TEST_RUNS` says. */
export const times = (runs: number): number => runs * FACTOR;
