import { FACTS, type FactPath, type FactValue } from '../../base/contract/facts.ts';
import type { FactView } from '../../base/contract/services.ts';
import { placeFact } from '../../base/rules/fact-view.ts';

const PATHS = Object.keys(FACTS) as FactPath[];
const INDEX: ReadonlyMap<string, number> = new Map(PATHS.map((path, index) => [path, index]));

/** Index of a fact in stores and masks. Throws when there is no such fact. */
export function factIndex(path: string): number {
  const index = INDEX.get(path);
  if (index === undefined) throw new Error(`there is no fact "${path}"`);
  return index;
}

/** A set of facts by index: 1 for each member. Facts that a configuration defines have no index. */
export function factMask(paths: readonly FactPath[]): Uint8Array {
  const mask = new Uint8Array(PATHS.length);
  for (const path of paths) {
    const index = INDEX.get(path);
    if (index !== undefined) mask[index] = 1;
  }
  return mask;
}

/** Indexes of facts, with the keys of each in a nested view. */
export type FactSelection = readonly { readonly index: number; readonly keys: readonly string[] }[];

function selected(isWanted: (path: string) => boolean): FactSelection {
  return PATHS.flatMap((path, index) => (isWanted(path) ? [{ index, keys: path.split('.') }] : []));
}

const EVERY_FACT = selected(() => true);

/** The facts that these paths of conditions read: all facts of a section, and the whole fact for a path into it. */
export function selectFacts(read: readonly string[]): FactSelection {
  return selected((path) =>
    read.some((wanted) => path === wanted || path.startsWith(`${wanted}.`) || wanted.startsWith(`${path}.`)),
  );
}

function buildView(
  values: readonly unknown[],
  own: ReadonlyMap<string, unknown> | undefined,
  selection: FactSelection,
): FactView {
  const root = Object.create(null) as Record<string, unknown>;
  for (const { index, keys } of selection) if (values[index] !== undefined) placeFact(root, keys, values[index]);
  if (own !== undefined) for (const [path, value] of own) placeFact(root, path.split('.'), value);
  return root;
}

/** The facts of one request, by dotted path. Each is written once; only facts about the upstream may be replaced. */
export class FactStore {
  // A flat array: only rules need nested objects, and not for every request.
  readonly #values: unknown[] = new Array(PATHS.length).fill(undefined);
  #own: Map<string, unknown> | undefined;
  #view: FactView | undefined;
  readonly #of_rules: FactSelection;

  /** @param of_rules the facts that rules read */
  constructor(of_rules: FactSelection = EVERY_FACT) {
    this.#of_rules = of_rules;
  }

  /** The facts that rules read, as nested objects without prototypes. A copy: changes to it do not change facts. */
  get view(): FactView {
    this.#view ??= buildView(this.#values, this.#own, this.#of_rules);
    return this.#view;
  }

  copy(): FactView {
    return buildView(this.#values, this.#own, EVERY_FACT);
  }

  get<P extends FactPath>(path: P): FactValue<P> | undefined {
    const index = INDEX.get(path);
    return (index === undefined ? this.#own?.get(path) : this.#values[index]) as FactValue<P> | undefined;
  }

  /** Writes a fact that the configuration defines. Throws when it was already written. */
  setOwn(path: string, value: unknown): void {
    if (this.#own?.has(path)) throw new Error(`the fact "${path}" was already written`);
    this.#own ??= new Map();
    this.#own.set(path, value);
    this.#view = undefined;
  }

  /** Writes the fact at an index; `undefined` removes it. Throws when it was already written, unless `may_change`. */
  put(index: number, value: unknown, may_change: boolean): void {
    if (!may_change && this.#values[index] !== undefined)
      throw new Error(`the fact "${PATHS[index]}" was already written`);
    this.#values[index] = value;
    this.#view = undefined;
  }

  at(index: number): unknown {
    return this.#values[index];
  }
}
