import { FACTS, type FactPath } from '../contract/facts.ts';
import { containingFact, factSpec, NO_STAGE_FACTS } from '../contract/own-facts.ts';
import { closest, listed } from '../kit/text/suggest.ts';

const FACT_PATHS = Object.keys(FACTS);

/** Whether this is the path of a fact; facts of operators' stages do not count. */
export function isFact(path: string): path is FactPath {
  return factSpec(path) !== undefined;
}

/** The most likely fact for a wrong path: a similar one, or one of this name in another section. */
function closestFact(path: string, of_stages: Iterable<string>): string | undefined {
  const elsewhere = FACT_PATHS.filter((known) => known.endsWith(`.${path.slice(path.lastIndexOf('.') + 1)}`));
  return closest(path, [...FACT_PATHS, ...of_stages]) ?? (elsewhere.length === 1 ? elsewhere[0] : undefined);
}

/** Help for an unknown path; `undefined` when nothing is similar. */
export function unknownFactHelp(path: string, of_stages = NO_STAGE_FACTS): string | undefined {
  if (path === '') return '{ var: "" } is the item inside some, all and none; read a fact as { var: request.model }';
  const below = FACT_PATHS.filter((known) => known.startsWith(`${path}.`));
  if (below.length > 0) return `there is ${listed(below)}`;
  const meant = closestFact(path, of_stages.keys());
  return meant === undefined ? undefined : `did you mean \`${meant}\`?`;
}

/** The paths of the facts that a condition reads, with repetitions. */
export function factsRead(logic: unknown): string[] {
  if (typeof logic !== 'object' || logic === null) return [];
  if (Array.isArray(logic)) return logic.flatMap(factsRead);
  return Object.entries(logic).flatMap(([operator, operands]) => {
    if (operator !== 'var') return factsRead(operands);
    const path = Array.isArray(operands) ? operands[0] : operands;
    return typeof path === 'string' && path !== '' ? [containingFact(path)] : [];
  });
}
