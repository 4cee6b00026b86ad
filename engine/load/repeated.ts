/** Items with a name that an earlier one has already, each with the first of that name. */
export function repeated<T>(
  items: readonly T[],
  nameOf: (item: T) => string | undefined,
): readonly (readonly [later: T, first: T])[] {
  const named = items.filter((item) => nameOf(item) !== undefined);
  const groups = Map.groupBy(named, nameOf).values();
  return [...groups].flatMap(([first, ...later]) => later.map((item) => [item, first!] as const));
}
