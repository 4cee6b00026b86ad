import { canonicalJson } from '../../kit/json/canonical.ts';
import type { Entry, ListNode, MapNode, Node } from '../../source/node.ts';
import { toValue } from '../../source/node.ts';

const DENYING =
  /^(?:(?:deny|block|black)list|deny|denied|disallow|disallowed|block|blocked|disable|disabled|forbid|forbidden)$/;

/** The JSON of items of deny lists: with many policies every one of them is compared over and over. */
const texts = new WeakMap<Node, string>();

function jsonOf(item: Node): string {
  const known = texts.get(item);
  if (known !== undefined) return known;
  const text = canonicalJson(toValue(item));
  texts.set(item, text);
  return text;
}

/**
 * Whether a list under this key takes things away, so that lists of several policies are united: the first or the last
 * word of the key is deny, disallow, block, disable, forbid, the participle of one, denylist, blocklist or blacklist, in
 * any case.
 */
export function isDenyKey(key: string): boolean {
  const words = key.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? [];
  return [words[0], words.at(-1)].some((word) => word !== undefined && DENYING.test(word.toLowerCase()));
}

/** Lays settings over others: mappings merge key by key, deny lists are united, everything else is replaced. Every node keeps its position. */
export function mergeSettings(base: MapNode, over: MapNode): MapNode {
  const laid = new Map(over.entries.map((entry) => [entry.key, entry]));
  const known = new Set(base.entries.map(({ key }) => key));
  const kept = base.entries.map((entry) => {
    const other = laid.get(entry.key);
    return other === undefined ? entry : mergeEntries(entry, other);
  });
  return { ...over, entries: [...kept, ...over.entries.filter(({ key }) => !known.has(key))] };
}

function mergeEntries(base: Entry, over: Entry): Entry {
  return { ...over, value: mergeValues(over.key, base.value, over.value) };
}

function mergeValues(key: string, base: Node, over: Node): Node {
  if (base.kind === 'map' && over.kind === 'map') return mergeSettings(base, over);
  if (base.kind === 'list' && over.kind === 'list' && isDenyKey(key)) return unite(base, over);
  return over;
}

function unite(base: ListNode, over: ListNode): ListNode {
  const seen = new Set<string>();
  const items = [...base.items, ...over.items].filter((item) => {
    const text = jsonOf(item);
    const is_new = !seen.has(text);
    seen.add(text);
    return is_new;
  });
  return { ...over, items };
}

/** All settings laid over each other, the first at the bottom; an empty mapping when there are none. */
export function mergeAll(all: readonly MapNode[], nowhere: MapNode['mark']): MapNode {
  return all.reduce(mergeSettings, { kind: 'map', entries: [], mark: nowhere });
}
