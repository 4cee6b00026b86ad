import { type Node, nodeAt } from './node.ts';

/** A key that stands in a file in place of another. */
export interface Slip {
  /** JSON pointer of the mapping. */
  readonly owner: string;
  readonly key: string;
  /** The key that was probably meant. */
  readonly meant: string;
  /** Whether that key holds a list. */
  readonly is_list?: boolean;
}

/** A node with one key renamed. */
export function corrected(root: Node, { owner, key, meant, is_list }: Slip): Node {
  const target = nodeAt(root, owner);
  if (target.kind !== 'map') return root;
  // Who writes `method: POST` misses `methods: [POST]` by one mistake, not by two.
  const inList = (value: Node): Node => ({ kind: 'list', items: [value], mark: value.mark });
  const entries = target.entries.map((entry) => {
    if (entry.key !== key) return entry;
    return {
      ...entry,
      key: meant,
      value: is_list && entry.value.kind === 'scalar' ? inList(entry.value) : entry.value,
    };
  });
  return replaced(root, target, { ...target, entries });
}

function replaced(node: Node, old: Node, fresh: Node): Node {
  if (node === old) return fresh;
  if (node.kind === 'list') return { ...node, items: node.items.map((item) => replaced(item, old, fresh)) };
  if (node.kind !== 'map') return node;
  return {
    ...node,
    entries: node.entries.map((entry) => ({ ...entry, value: replaced(entry.value, old, fresh) })),
  };
}
