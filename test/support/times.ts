const FACTOR = Number(process.env.APPSCLI_TEST_RUNS ?? 1);

/** How often a property is tried: as often as said, times what `APPSCLI_TEST_RUNS` says. */
export const times = (runs: number): number => runs * FACTOR;

/** Of the variants of a row in a table the one whose turn it is, so that rows take turns with them; in the deep tier all. */
export const inTurn = <T>(variants: readonly T[], place: number): readonly T[] =>
  IS_DEEP ? variants : [variants[place % variants.length]!];

/** Whether there is time for everything at its full size: in the deep tier. */
export const IS_DEEP = process.env.APPSCLI_TEST_DEEP !== undefined;
