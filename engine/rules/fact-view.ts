import type { FactView } from '../api.ts';

/** Facts by dotted path as one nested, null-prototype object, the form in which conditions see them. */
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
