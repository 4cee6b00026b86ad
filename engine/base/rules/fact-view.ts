import type { FactView } from '../contract/services.ts';

type View = Record<string, unknown>;

/** Sets a fact in a view, which has no prototypes, by the keys of its path. */
export function placeFact(root: View, keys: readonly string[], value: unknown): void {
  const last = keys.length - 1;
  let section = root;
  for (let i = 0; i < last; i++) {
    section[keys[i]!] ??= Object.create(null) as View;
    section = section[keys[i]!] as View;
  }
  section[keys[last]!] = value;
}

/** Nests facts by dotted path into one null-prototype object, the input of conditions. */
export function factView(facts: Iterable<readonly [path: string, value: unknown]>): FactView {
  const root = Object.create(null) as View;
  for (const [path, value] of facts) placeFact(root, path.split('.'), value);
  return root;
}

/** The facts of a view by dotted path. */
export function flatFacts(facts: FactView, prefix = ''): [path: string, value: unknown][] {
  return Object.entries(facts).flatMap(([key, value]): [string, unknown][] => {
    const path = `${prefix}${key}`;
    const is_section = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === null;
    return is_section ? flatFacts(value as FactView, `${path}.`) : [[path, value]];
  });
}
