/** Named rules of a fragment: written out where its stages refer to them, so that they stay its own. */
import { keyName } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import { type Entry, entriesOf, entryOf, type Node, textOf } from '../source/node.ts';

/** A part of a fragment with the conditions of its rules in the place of `{ rule: name }`; other names stay. */
export function withRules(node: Node, rules: Node | undefined, findings: Findings): Node {
  const own = new Map(entriesOf(rules).map((entry) => [entry.key, entry.value]));
  return own.size === 0 ? node : written(node, own, [], findings);
}

function written(node: Node, rules: ReadonlyMap<string, Node>, open: readonly string[], findings: Findings): Node {
  const inner = (each: Node, opened = open) => written(each, rules, opened, findings);
  if (node.kind === 'scalar') return node;
  if (node.kind === 'list') return { ...node, items: node.items.map((item) => inner(item)) };
  const name = node.entries.length === 1 ? textOf(entryOf(node, 'rule')?.value) : undefined;
  const rule = name === undefined ? undefined : rules.get(name);
  if (name === undefined || rule === undefined) {
    return { ...node, entries: node.entries.map((entry): Entry => ({ ...entry, value: inner(entry.value) })) };
  }
  if (!open.includes(name)) return inner(rule, [...open, name]);
  const circle = [...open.slice(open.indexOf(name)), name].map(keyName);
  findings.report('C5010', entryOf(node, 'rule')!.value.mark, `the rule ${keyName(name)} refers to itself`, {
    found: circle.length > 2 ? circle.join(' -> ') : undefined,
    help: 'write the condition out at one of them',
  });
  return { kind: 'scalar', value: false, mark: node.mark, range: [0, 0] };
}

/** Names of rules that a part of a fragment refers to. */
export function rulesIn(node: Node): readonly string[] {
  if (node.kind === 'scalar') return [];
  if (node.kind === 'list') return node.items.flatMap(rulesIn);
  return node.entries.flatMap(({ key, value }) => [
    ...(key === 'rule' ? [textOf(value) ?? []].flat() : []),
    ...rulesIn(value),
  ]);
}
