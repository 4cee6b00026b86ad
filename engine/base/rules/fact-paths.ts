import { FACTS, type FactPath } from '../contract/facts.ts';
import { containingFact, factSpec, NO_STAGE_FACTS } from '../contract/own-facts.ts';
import { closest, closestKey, listed } from '../kit/text/suggest.ts';

const FACT_PATHS = Object.keys(FACTS);

/** Whether this is the path of a fact; facts of operators' stages do not count. */
export function isFact(path: string): path is FactPath {
  return factSpec(path) !== undefined;
}

/** The most likely fact for a wrong path: of a similar path, of a similar name in the section, or of this name elsewhere. */
function closestFact(path: string, of_stages: Iterable<string>): string | undefined {
  const alike = closest(path, [...FACT_PATHS, ...of_stages]);
  if (alike !== undefined) return alike;
  const section = path.slice(0, path.lastIndexOf('.') + 1);
  const last = path.slice(section.length);
  const beside = FACT_PATHS.filter((known) => section !== '' && known.startsWith(section));
  const key = closestKey(
    last,
    beside.map((known) => known.slice(section.length)),
  );
  if (key !== undefined) return section + key;
  const elsewhere = FACT_PATHS.filter((known) => known.endsWith(`.${last}`));
  return elsewhere.length === 1 ? elsewhere[0] : undefined;
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
