const FACTOR = Number(process.env.APPSCLI_TEST_RUNS ?? 1);

/** How often a property is tried: as often as said, times what `APPSCLI_TEST_RUNS` says. */
export const times = (runs: number): number => runs * FACTOR;

/** Whether there is time for everything at its full size: in the deep tier. */
export const IS_DEEP = process.env.APPSCLI_TEST_DEEP !== undefined;
