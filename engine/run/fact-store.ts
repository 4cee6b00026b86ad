import { FACTS, type FactPath, type FactValue } from '../contract/facts.ts';
import type { FactView } from '../contract/services.ts';

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

interface Section {
  readonly parent: number;
  readonly key: string;
}

/** Every section of the nested view, parents first; the first is the view itself. */
const SECTIONS: Section[] = [{ parent: -1, key: '' }];

/** The section a fact stands in, and its key there; worked out once, because rules have a view built for every request. */
const LEAVES = PATHS.map((path) => {
  const keys = path.split('.');
  const key = keys.pop()!;
  let section = 0;
  for (const name of keys) {
    const known = SECTIONS.findIndex(({ parent, key }) => parent === section && key === name);
    section = known >= 0 ? known : SECTIONS.push({ parent: section, key: name }) - 1;
  }
  return { section, key };
});

type View = Record<string, unknown>;

function openSection(views: (View | undefined)[], index: number): View {
  const known = views[index];
  if (known !== undefined) return known;
  const { parent, key } = SECTIONS[index]!;
  const view = Object.create(null) as View;
  openSection(views, parent)[key] = view;
  views[index] = view;
  return view;
}

/** Puts a fact of one configuration into a view. */
function place(root: View, path: string, value: unknown): void {
  const keys = path.split('.');
  const last = keys.pop()!;
  let section = root;
  for (const key of keys) {
    section[key] ??= Object.create(null) as View;
    section = section[key] as View;
  }
  section[last] = value;
}

function buildView(values: readonly unknown[], own: ReadonlyMap<string, unknown> | undefined): FactView {
  const root = Object.create(null) as View;
  const views: (View | undefined)[] = new Array(SECTIONS.length).fill(undefined);
  views[0] = root;
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (value === undefined) continue;
    const { section, key } = LEAVES[index]!;
    openSection(views, section)[key] = value;
  }
  if (own !== undefined) for (const [path, value] of own) place(root, path, value);
  return root;
}

/** The facts of one request: each written once, but for those about the upstream, read by dotted path or, by rules, as one nested object. */
export class FactStore {
  // A flat array: nested objects would be built for every request, and only rules need them.
  readonly #values: unknown[] = new Array(PATHS.length).fill(undefined);
  /** Facts of this configuration only. */
  #own: Map<string, unknown> | undefined;
  #view: FactView | undefined;

  /** The facts as rules see them: nested and null-prototype; a copy, so nothing done to it changes a fact. */
  get view(): FactView {
    this.#view ??= buildView(this.#values, this.#own);
    return this.#view;
  }

  /** A view of its own for somebody who might change it. */
  copy(): FactView {
    return buildView(this.#values, this.#own);
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
    const index = factIndex(path);
    if (this.#values[index] !== undefined) throw new Error(`the fact "${path}" was already written`);
    this.#values[index] = value;
    this.#view = undefined;
  }

  /** Writes a fact whether it was written or not; `undefined` takes it out. */
  replace<P extends FactPath>(path: P, value: FactValue<P> | undefined): void {
    this.#values[factIndex(path)] = value;
    this.#view = undefined;
  }

  /** The fact at a position. */
  at(index: number): unknown {
    return this.#values[index];
  }
}
