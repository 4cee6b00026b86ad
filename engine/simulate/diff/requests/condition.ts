import { RECORDED_FACTS } from '../../../audit/recorded-facts.ts';
import type { FactView } from '../../../contract/services.ts';
import { compileCondition } from '../../../rules/compile.ts';
import { factsRead } from '../../../rules/fact-paths.ts';
import { factView } from '../../../rules/fact-view.ts';
import { simplify } from '../../../rules/simplify.ts';

/** What is known of a request of the past. */
export class PastFacts {
  readonly #facts: Record<string, unknown>;
  /** Facts that are known not to have been set. */
  readonly #unset: ReadonlySet<string>;
  #view: FactView | undefined;

  constructor(facts: Readonly<Record<string, unknown>>, unset: ReadonlySet<string>) {
    this.#facts = { ...facts };
    this.#unset = unset;
  }

  get all(): Readonly<Record<string, unknown>> {
    return this.#facts;
  }

  get view(): FactView {
    this.#view ??= factView(Object.entries(this.#facts));
    return this.#view;
  }

  set(facts: Readonly<Record<string, unknown>>): void {
    Object.assign(this.#facts, facts);
    this.#view = undefined;
  }

  /** Whether its value, or that it has none, is known. */
  knows(path: string): boolean {
    return Object.hasOwn(this.#facts, path) || RECORDED_FACTS.has(path) || isDecidedHere(path) || this.#unset.has(path);
  }

  value(path: string): unknown {
    return this.#facts[path];
  }
}

/** Facts that follow from the configuration and the model; asked for only where they have been decided. */
const DECIDED_HERE = new Set([
  'route.upstream',
  'route.protocol',
  'route.upstream_model',
  'route.region',
  'route.rule',
]);
const isDecidedHere = (path: string): boolean =>
  DECIDED_HERE.has(path) || path.startsWith('model.') || path.startsWith('route.supports.');

/** How a condition turns out for a request of the past, or the facts that it would take to know. */
export type Held = boolean | { readonly missing: readonly string[] };

/** Makes what evaluates a condition, as far as the facts of a request are known. */
export function pastCondition(logic: unknown): (facts: PastFacts) => Held {
  const holds = compileCondition(logic);
  const reads = [...new Set(factsRead(logic))];
  return (facts) => {
    const missing = reads.filter((path) => !facts.knows(path));
    if (missing.length === 0) return holds(facts.view);
    const known = new Map(reads.filter((path) => facts.knows(path)).map((path) => [path, facts.value(path)]));
    const rest = simplify(logic, known);
    return typeof rest === 'boolean' ? rest : { missing: missing.filter((path) => factsRead(rest).includes(path)) };
  };
}
