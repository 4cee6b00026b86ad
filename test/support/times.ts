const FACTOR = Number(process.env.APPSCLI_TEST_RUNS ?? 1);

/** The runs of a property: its own number, times `APPSCLI_TEST_RUNS`. */
export const times = (runs: number): number => runs * FACTOR;

/** The next of the variants of a row in a table, so that rows alternate between them; in the deep tier all. */
export const inTurn = <T>(variants: readonly T[], place: number): readonly T[] =>
  IS_DEEP ? variants : [variants[place % variants.length]!];

/** Whether there is time for everything at its full size: in the deep tier. */
export const IS_DEEP = process.env.APPSCLI_TEST_DEEP !== undefined;
