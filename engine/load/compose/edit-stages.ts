/** Inserts, replaces and removes entries of the lists of a pipeline. */
import { closest, oneOf } from '../../kit/text/suggest.ts';
import { keyName, quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entryOf, itemsOf, type MapNode, type Mark, type Node, textOf } from '../../source/node.ts';
import { ofProtocol } from './split.ts';

/** Lists whose entries have an id that another file can name. */
const LISTS = ['stages', 'on_error', 'finally'] as const;
type List = (typeof LISTS)[number];

/** What an entry is called: its id, else its stage, else its fragment. */
export function idOf(entry: Node): string | undefined {
  const written = textOf(childOf(entry, 'id')) ?? textOf(childOf(entry, 'stage'));
  return written ?? textOf(childOf(entry, 'use'))?.replace(/^fragments\//, '');
}

/** The ids of a pipeline's entries. */
export function idsOf(root: MapNode): ReadonlySet<string> {
  return new Set(LISTS.flatMap((list) => itemsOf(childOf(root, list)).flatMap((entry) => idOf(entry) ?? [])));
}

/** The lists of a pipeline while they are changed. */
export class StageLists {
  readonly removed = new Map<string, Mark>();
  readonly #lists: Map<List, Node[]>;
  readonly #root: MapNode;
  readonly #pipeline: string;
  readonly #findings: Findings;
  readonly #advice: string | undefined;
  /** The last of the entries that were inserted after a point, so that they keep the order they are written in. */
  readonly #last_after = new Map<Node, Node>();

  /** @param advice what else to say about an id that the pipeline does not have. */
  constructor(root: MapNode, pipeline: string, findings: Findings, advice?: string) {
    this.#root = root;
    this.#pipeline = pipeline;
    this.#findings = findings;
    this.#advice = advice;
    this.#lists = new Map(LISTS.map((list) => [list, [...itemsOf(childOf(root, list))]]));
  }

  /** @param edit a mapping with `after` or `before`, and `stages`. */
  insert(edit: Node): void {
    const point = entryOf(edit, 'after') ?? entryOf(edit, 'before');
    const added = ofProtocol(itemsOf(childOf(edit, 'stages')), this.#protocol());
    const place = point && this.#place(point.value, `\`${point.key}\` names`);
    if (point === undefined || place === undefined || added.length === 0) return;
    const anchor = place.items[place.at]!;
    const from = point.key === 'before' ? place.at : place.items.indexOf(this.#last_after.get(anchor) ?? anchor) + 1;
    place.items.splice(from, 0, ...added);
    if (point.key === 'after') this.#last_after.set(anchor, added.at(-1)!);
  }

  /** @param entry a whole entry, with the id of the one it replaces. */
  replace(entry: Node): void {
    const id = childOf(entry, 'id');
    const place = id && this.#place(id, '`replace` names');
    if (place !== undefined) place.items[place.at] = entry;
  }

  /** @param id the scalar that names an entry. */
  remove(id: Node): void {
    const place = this.#place(id, '`remove` names');
    if (place === undefined) return;
    const [gone] = place.items.splice(place.at, 1);
    const stage = textOf(childOf(gone, 'stage'));
    if (stage !== undefined) this.removed.set(stage, id.mark);
  }

  /** Adds entries at the end of a list, or in front of it. */
  add(list: List, entries: readonly Node[], where: 'end' | 'front' = 'end'): void {
    const items = this.#lists.get(list)!;
    items.splice(where === 'end' ? items.length : 0, 0, ...ofProtocol(entries, this.#protocol()));
  }

  /** The pipeline with its lists as they are now. */
  result(): MapNode {
    const kept = this.#root.entries.filter(({ key }) => !LISTS.includes(key as List));
    const lists = LISTS.flatMap((list) => {
      const items = this.#lists.get(list)!;
      const written = entryOf(this.#root, list);
      const { key_mark = this.#root.mark, value: { mark } = this.#root } = written ?? {};
      if (items.length === 0 && written === undefined) return [];
      return [{ key: list, key_mark, value: { kind: 'list' as const, mark, items } }];
    });
    return { ...this.#root, entries: [...kept, ...lists] };
  }

  #protocol(): string | undefined {
    return textOf(childOf(this.#root, 'match', 'protocol'));
  }

  #find(id: string): { readonly items: Node[]; readonly at: number } | undefined {
    for (const items of this.#lists.values()) {
      const at = items.findIndex((item) => idOf(item) === id);
      if (at >= 0) return { items, at };
    }
    return undefined;
  }

  #place(id: Node, what: string): { readonly items: Node[]; readonly at: number } | undefined {
    const name = textOf(id);
    if (name === undefined) return undefined;
    const found = this.#find(name);
    if (found !== undefined) return found;
    const known = [...this.#lists.values()].flatMap((items) => items.flatMap((item) => idOf(item) ?? []));
    const advice = closest(name, known) === undefined && this.#advice !== undefined ? `; or ${this.#advice}` : '';
    this.#findings.report('C2012', id.mark, `${what} ${keyName(name)}, which is not there`, {
      found: `the pipeline ${quote(this.#pipeline)} does not have it`,
      help: `${oneOf(name, known, 'its entries')}${advice}`,
    });
    return undefined;
  }
}
