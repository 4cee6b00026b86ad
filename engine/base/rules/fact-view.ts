import type { FactView } from '../contract/services.ts';

/** Nests facts by dotted path into one null-prototype object, the input of conditions. */
export function factView(facts: Iterable<readonly [path: string, value: unknown]>): FactView {
  const root: Record<string, unknown> = Object.create(null);
  for (const [path, value] of facts) {
    const keys = path.split('.');
    const last = keys.pop()!;
    let node = root;
    for (const key of keys) {
      node[key] ??= Object.create(null);
      node = node[key] as Record<string, unknown>;
    }
    node[last] = value;
  }
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
