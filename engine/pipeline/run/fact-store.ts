import { FACTS, type FactPath, type FactValue } from '../../base/contract/facts.ts';
import type { FactView } from '../../base/contract/services.ts';

const PATHS = Object.keys(FACTS) as FactPath[];
const INDEX: ReadonlyMap<string, number> = new Map(PATHS.map((path, index) => [path, index]));

/** Position of a fact in stores and masks. Throws when there is no such fact. */
export function factIndex(path: string): number {
  const index = INDEX.get(path);
  if (index === undefined) throw new Error(`there is no fact "${path}"`);
  return index;
}

/** A set of facts that can be asked by position: 1 where the fact is in it. Facts of one configuration have no position. */
export function factMask(paths: readonly FactPath[]): Uint8Array {
  const mask = new Uint8Array(PATHS.length);
  for (const path of paths) {
    const index = INDEX.get(path);
    if (index !== undefined) mask[index] = 1;
  }
  return mask;
}

/** Positions of facts, and under which keys each of them stands in a nested view. */
export type FactSelection = readonly { readonly index: number; readonly keys: readonly string[] }[];

function selected(isWanted: (path: string) => boolean): FactSelection {
  return PATHS.flatMap((path, index) => (isWanted(path) ? [{ index, keys: path.split('.') }] : []));
}

const EVERY_FACT = selected(() => true);

/** The facts that conditions look at by these paths: of a section all that is in it, of a part of a fact the whole. */
export function selectFacts(read: readonly string[]): FactSelection {
  return selected((path) =>
    read.some((wanted) => path === wanted || path.startsWith(`${wanted}.`) || wanted.startsWith(`${path}.`)),
  );
}

type View = Record<string, unknown>;

/** Puts a fact where its path says. */
function place(root: View, keys: readonly string[], value: unknown): void {
  const last = keys.length - 1;
  let section = root;
  for (let i = 0; i < last; i++) {
    section[keys[i]!] ??= Object.create(null) as View;
    section = section[keys[i]!] as View;
  }
  section[keys[last]!] = value;
}

function buildView(
  values: readonly unknown[],
  own: ReadonlyMap<string, unknown> | undefined,
  selection: FactSelection,
): FactView {
  const root = Object.create(null) as View;
  for (const { index, keys } of selection) if (values[index] !== undefined) place(root, keys, values[index]);
  if (own !== undefined) for (const [path, value] of own) place(root, path.split('.'), value);
  return root;
}

/** The facts of one request: each written once, but for those about the upstream, read by dotted path or, by rules, as one nested object. */
export class FactStore {
  // A flat array: nested objects would be built for every request, and only rules need them.
  readonly #values: unknown[] = new Array(PATHS.length).fill(undefined);
  /** Facts of this configuration only. */
  #own: Map<string, unknown> | undefined;
  #view: FactView | undefined;
  readonly #of_rules: FactSelection;

  /** @param of_rules what rules look at */
  constructor(of_rules: FactSelection = EVERY_FACT) {
    this.#of_rules = of_rules;
  }

  /** The facts that rules look at, as they see them: nested and null-prototype; a copy, so nothing done to it changes a fact. */
  get view(): FactView {
    this.#view ??= buildView(this.#values, this.#own, this.#of_rules);
    return this.#view;
  }

  /** All facts, in a view of its own for somebody who might change it. */
  copy(): FactView {
    return buildView(this.#values, this.#own, EVERY_FACT);
  }

  get<P extends FactPath>(path: P): FactValue<P> | undefined {
    const index = INDEX.get(path);
    return (index === undefined ? this.#own?.get(path) : this.#values[index]) as FactValue<P> | undefined;
  }

  /** Writes a fact of this configuration only. Throws when it was already written. */
  setOwn(path: string, value: unknown): void {
    if (this.#own?.has(path)) throw new Error(`the fact "${path}" was already written`);
    this.#own ??= new Map();
    this.#own.set(path, value);
    this.#view = undefined;
  }

  /** Throws when there is no such fact or it was already written. */
  set<P extends FactPath>(path: P, value: FactValue<P>): void {
    this.put(factIndex(path), value, false);
  }

  /** Writes a fact whether it was written or not; `undefined` takes it out. */
  replace<P extends FactPath>(path: P, value: FactValue<P> | undefined): void {
    this.put(factIndex(path), value, true);
  }

  /** Writes the fact at a position. Throws when it was already written, unless it may change. */
  put(index: number, value: unknown, may_change: boolean): void {
    if (!may_change && this.#values[index] !== undefined)
      throw new Error(`the fact "${PATHS[index]}" was already written`);
    this.#values[index] = value;
    this.#view = undefined;
  }

  /** The fact at a position. */
  at(index: number): unknown {
    return this.#values[index];
  }
}
