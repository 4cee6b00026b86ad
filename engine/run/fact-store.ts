import type { FactView } from '../api.ts';
import { FACTS, type FactPath, type FactValue } from '../facts.ts';

type Section = Record<string, unknown>;

const PATHS = Object.keys(FACTS) as FactPath[];
const KEYS = PATHS.map((path) => path.split('.'));
const INDEX: ReadonlyMap<string, number> = new Map(PATHS.map((path, index) => [path, index]));

/** Position of a fact in stores and masks. Throws when there is no such fact. */
export function factIndex(path: string): number {
  const index = INDEX.get(path);
  if (index === undefined) throw new Error(`there is no fact "${path}"`);
  return index;
}

/** A set of facts that can be asked by position: 1 where the fact is in it. */
export function factMask(paths: readonly FactPath[]): Uint8Array {
  const mask = new Uint8Array(PATHS.length);
  for (const path of paths) mask[factIndex(path)] = 1;
  return mask;
}

function buildView(values: readonly unknown[]): FactView {
  const root = Object.create(null) as Section;
  values.forEach((value, index) => {
    if (value === undefined) return;
    const keys = KEYS[index]!;
    let node = root;
    for (const key of keys.slice(0, -1)) {
      node[key] ??= Object.create(null);
      node = node[key] as Section;
    }
    node[keys.at(-1)!] = value;
  });
  return root;
}

/** The facts of one request: each written once, read by dotted path or, by rules, as one nested object. */
export class FactStore {
  // A flat array: nested objects would be built for every request, and only rules need them.
  readonly #values: unknown[] = new Array(PATHS.length).fill(undefined);
  #view: FactView | undefined;

  /** The facts as rules see them: nested and null-prototype; a copy, so nothing done to it changes a fact. */
  get view(): FactView {
    this.#view ??= buildView(this.#values);
    return this.#view;
  }

  /** A view of its own for somebody who might change it. */
  copy(): FactView {
    return buildView(this.#values);
  }

  get<P extends FactPath>(path: P): FactValue<P> | undefined {
    return this.at(factIndex(path)) as FactValue<P> | undefined;
  }

  /** Throws when there is no such fact or it was already written. */
  set<P extends FactPath>(path: P, value: FactValue<P>): void {
    const index = factIndex(path);
    if (this.#values[index] !== undefined) throw new Error(`the fact "${path}" was already written`);
    this.#values[index] = value;
    this.#view = undefined;
  }

  /** The fact at a position. */
  at(index: number): unknown {
    return this.#values[index];
  }
}
