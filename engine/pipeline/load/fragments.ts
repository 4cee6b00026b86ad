// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this

import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { didYouMean, oneOf } from '../../base/kit/text/suggest.ts';
import { reportCircle, reportUnusedRule } from '../../base/rules/check.ts';
import type { Findings } from '../../base/source/findings.ts';
import {
  type Chain,
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  itemsOf,
  keyName,
  type ListNode,
  type MapNode,
  mapValues,
  type Node,
  remark,
  type ScalarNode,
  scalarsOf,
  textOf,
} from '../../base/source/node.ts';
import { FRAGMENT_SCHEMA } from '../../base/source/schemas.ts';
import { readSource } from '../../base/source/source.ts';
import { validate } from '../../base/source/validate.ts';
import { mapLists } from './compose.ts';
import { reportOtherName } from './link/link-keys.ts';

const PLACEHOLDER = /^\$\{\{\s*([A-Za-z_][\w-]*)\s*\}\}$/;

/** A placeholder as it is written in a fragment. */
export const placeholder = (name: string): string => `\${{ ${name} }}`;

const holdsPlaceholder = (node: ScalarNode): boolean => typeof node.value === 'string' && node.value.includes('${{');

function rejectPlaceholders(root: MapNode, findings: Findings): void {
  for (const scalar of scalarsOf(root)) {
    if (!holdsPlaceholder(scalar)) continue;
    findings.report('C2005', scalar.mark, 'placeholders work only in fragments', { help: 'write the value' });
  }
}

function substitute(node: Node, values: ReadonlyMap<string, Node>, findings: Findings): Node {
  if (node.kind === 'scalar') return holdsPlaceholder(node) ? replacement(node, values, findings) : node;
  for (const { key_mark } of entriesOf(node).filter(({ key }) => key.includes('${{')))
    findings.report('C2005', key_mark, 'a key cannot be a placeholder', { help: 'write the key' });
  return mapValues(node, (value) => substitute(value, values, findings));
}

function replacement(node: ScalarNode, values: ReadonlyMap<string, Node>, findings: Findings): Node {
  const name = PLACEHOLDER.exec(String(node.value))?.[1];
  if (name === undefined) {
    const closed = String(node.value).includes('}}');
    findings.report('C2005', node.mark, 'a placeholder must be a whole value, not a part of one', {
      expected: '${{ name }} and nothing else',
      help: closed ? 'make the whole text a parameter' : 'close it with }}',
    });
    return node;
  }
  const value = values.get(name);
  if (value !== undefined) return value;
  findings.report('C2005', node.mark, `the fragment declares no parameter ${keyName(name)}`, {
    help: didYouMean(name, values.keys(), 'declare it under `parameters:`'),
  });
  return node;
}

// Named rules of a fragment are inlined where its stages refer to them, so that they stay local to it.

/** A part of a fragment with its named rules inlined; references to other rules stay. */
function withRules(node: Node, rules: Node | undefined, findings: Findings): Node {
  const own = new Map(entriesOf(rules).map((entry) => [entry.key, entry.value]));
  return own.size === 0 ? node : written(node, own, [], findings);
}

function written(node: Node, rules: ReadonlyMap<string, Node>, open: readonly string[], findings: Findings): Node {
  const name = entriesOf(node).length === 1 ? textOf(childOf(node, 'rule')) : undefined;
  const rule = name === undefined ? undefined : rules.get(name);
  if (name === undefined || rule === undefined) {
    return mapValues(node, (value) => written(value, rules, open, findings));
  }
  if (!open.includes(name)) return written(rule, rules, [...open, name], findings);
  reportCircle(name, open, entryOf(node, 'rule')!.value.mark, findings);
  return { kind: 'scalar', value: false, mark: node.mark, range: [0, 0] };
}

function rulesIn(node: Node): readonly string[] {
  if (node.kind === 'scalar') return [];
  if (node.kind === 'list') return node.items.flatMap(rulesIn);
  return node.entries.flatMap(({ key, value }) => [
    ...(key === 'rule' ? [textOf(value) ?? []].flat() : []),
    ...rulesIn(value),
  ]);
}

/** A fragment file that was read and has the right keys. */
export interface Fragment {
  readonly name: string;
  readonly file: string;
  readonly root: MapNode;
}

/** The fragment that a `use:` value names; `undefined` after a finding. */
type FindFragment = (use: Node) => Fragment | undefined;

const NAME = /^fragments\/([a-z0-9]+(?:[-_/][a-z0-9]+)*)$/;

function namesIn(directory: string): string[] {
  const fragments = join(directory, 'fragments');
  if (!existsSync(fragments)) return [];
  return readdirSync(fragments)
    .filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml'))
    .map((name) => `fragments/${name.slice(0, -'.yaml'.length)}`);
}

/** Reports parameters without a placeholder, and named rules that no condition refers to. */
function reportUnused(root: MapNode, findings: Findings): void {
  const parts = ['stages', 'rules'].flatMap((key) => childOf(root, key) ?? []);
  const texts = parts.flatMap(scalarsOf).map(({ value }) => String(value));
  const placeholders = texts.flatMap((text) => [...text.matchAll(/\$\{\{\s*([A-Za-z_][\w-]*)/g)]);
  const used = new Set(placeholders.map(([, name]) => name));
  for (const { key, key_mark } of entriesOf(childOf(root, 'parameters'))) {
    if (used.has(key)) continue;
    const help = `remove it, or use it: ${placeholder(key)}`;
    findings.report('W7030', key_mark, `no placeholder uses the parameter ${keyName(key)}`, { help });
  }
  const rules = new Set(parts.flatMap(rulesIn));
  for (const { key, key_mark } of entriesOf(childOf(root, 'rules'))) {
    if (!rules.has(key)) reportUnusedRule(key, key_mark, findings);
  }
}

/** Reads and checks one fragment file by itself. */
export function readFragment(file: string, name: string, findings: Findings): Fragment | undefined {
  const root = readSource(file, findings);
  if (root === undefined || !validate(FRAGMENT_SCHEMA, root, dirname(file), findings).ok) return undefined;
  reportOtherName('fragment', childOf(root, 'fragment'), file, findings);
  reportUnused(root, findings);
  return { name, file, root };
}

/** @param directories that may contain `fragments/`, in order */
export function createFragmentLibrary(directories: readonly string[], findings: Findings): FindFragment {
  const read = new Map<string, Fragment | undefined>();
  return (use) => {
    const name = textOf(use);
    // Validation reports other types.
    if (name === undefined) return undefined;
    if (!NAME.test(name)) {
      const expected = 'fragments/<name>, without a file extension';
      findings.report('C2001', use.mark, 'this is not the name of a fragment', { expected });
      return undefined;
    }
    const file = directories.map((directory) => join(directory, `${name}.yaml`)).find((path) => existsSync(path));
    if (file === undefined) {
      const known = [...new Set(directories.flatMap(namesIn))];
      findings.report('C2001', use.mark, `there is no fragment ${keyName(name)}`, {
        help: oneOf(name, known, 'fragments'),
      });
      return undefined;
    }
    if (!read.has(file)) read.set(file, readFragment(file, name, findings));
    return read.get(file);
  };
}

/** Keys of an entry with `use` that apply to each stage of its fragment. */
const INHERITED = ['mode', 'timeout_seconds', 'fail_closed'];

const ID = /^[a-z][a-z0-9]*(?:[-/][a-z0-9]+)*$/;

/** Replaces every `use:` entry of a pipeline by the stages of its fragment. */
export function expand(root: MapNode, find: FindFragment, findings: Findings) {
  rejectPlaceholders(root, findings);
  const before = findings.errors();

  /** @param open files of the fragments being expanded, outermost first */
  const expandItems = (items: readonly Node[], open: readonly string[]): readonly Node[] =>
    items.flatMap((item) => (item.kind === 'map' ? expandItem(item, open) : [item]));

  function expandItem(item: MapNode, open: readonly string[]): readonly Node[] {
    const use = entryOf(item, 'use');
    if (use === undefined) {
      const misplaced = entryOf(item, 'with');
      if (misplaced === undefined || entryOf(item, 'stage') === undefined) return [item];
      findings.report('C2008', misplaced.key_mark, '`with` is for fragments', { help: 'a stage takes `options`' });
      return [{ ...item, entries: item.entries.filter((entry) => entry !== misplaced) }];
    }
    // Kept after a finding, so that the list is not also reported as empty.
    const unresolved: MapNode = { ...item, entries: [use] };
    const clash = entryOf(item, 'stage') ?? entryOf(item, 'options');
    if (clash !== undefined) {
      findings.report('C2008', clash.key_mark, `an entry with \`use\` cannot have ${keyName(clash.key)}`, {
        help: clash.key === 'options' ? 'a fragment takes `with`' : 'split it into two entries',
      });
      return [unresolved];
    }
    const errors = findings.errors();
    const stages = stagesOf(item, use, open);
    return findings.errors() === errors && stages !== undefined ? stages : [unresolved];
  }

  function stagesOf(item: MapNode, use: Entry, open: readonly string[]): readonly Node[] | undefined {
    const fragment = find(use.value);
    if (fragment === undefined) return undefined;
    if (open.includes(fragment.file)) {
      const circle = [...open.slice(open.indexOf(fragment.file)), fragment.file];
      findings.report('C2002', use.value.mark, `the fragment ${keyName(fragment.name)} includes itself`, {
        help: `remove one \`use\` of the cycle: ${circle.map((file) => basename(file)).join(' -> ')}`,
      });
      return undefined;
    }
    const { mark } = use.value;
    const chain: Chain = [...(mark.chain ?? []), { file: mark.file, line: mark.line }];
    const placed = remark(fragment.root, (inner) => ({ ...inner, chain })) as MapNode;
    const values = parametersOf(item, use, placed, findings);
    const stages = childOf(placed, 'stages');
    if (values === undefined || stages?.kind !== 'list') return undefined;
    const filled = substitute(withRules(stages, childOf(placed, 'rules'), findings), values, findings);
    return expandItems(itemsOf(filled), [...open, fragment.file]).map((stage) => withOuter(stage, item));
  }

  const expanded = mapLists(root, (items, list) => (list === 'on_error' ? items : expandItems(items, [])));
  return { root: expanded, complete: findings.errors() === before };
}

/** The value of every parameter; `undefined` after a finding. */
function parametersOf(
  item: MapNode,
  use: Entry,
  fragment: MapNode,
  findings: Findings,
): ReadonlyMap<string, Node> | undefined {
  const declared = entriesOf(childOf(fragment, 'parameters'));
  const written = childOf(item, 'with');
  // Validation reported other types.
  if (written !== undefined && written.kind !== 'map') return undefined;
  const arguments_given = entriesOf(written);
  const names = declared.map((parameter) => parameter.key);
  const unknown = arguments_given.filter((entry) => !names.includes(entry.key));
  for (const { key, key_mark } of unknown) {
    findings.report('C2003', key_mark, `the fragment has no parameter ${keyName(key)}`, {
      help: oneOf(key, names, 'parameters', 'it has no parameters'),
    });
  }
  const values = new Map<string, Node>();
  let complete = unknown.length === 0;
  for (const { key, value } of declared) {
    const set = childOf(written, key) ?? childOf(value, 'default');
    if (set !== undefined) {
      values.set(key, set);
      continue;
    }
    // Validation has reported a parameter beside `use`.
    if (complete && childOf(item, key) === undefined) {
      findings.report('C2003', use.value.mark, `the parameter ${keyName(key)} is missing`, {
        help: written === undefined ? `add \`with: { ${key}: ... }\`` : `add \`${key}: ...\` to \`with\``,
      });
    }
    complete = false;
  }
  return complete ? values : undefined;
}

/** A stage of a fragment with the guard, the inherited keys and the id prefix of the entry that uses it. */
function withOuter(stage: Node, item: MapNode): Node {
  if (stage.kind !== 'map') return stage;
  const guard = entryOf(item, 'when');
  const prefix = entryOf(item, 'id');
  let { entries } = stage;
  if (prefix !== undefined && ID.test(textOf(prefix.value) ?? '')) {
    const own = entryOf(stage, 'id')?.value ?? childOf(stage, 'stage');
    const value = { ...prefix.value, value: `${textOf(prefix.value)}/${textOf(own) ?? 'stage'}` } as Node;
    entries = [...entries.filter((entry) => entry.key !== 'id'), { ...prefix, value }];
  }
  for (const key of INHERITED) {
    const outer = entryOf(item, key);
    const own = entryOf(stage, key);
    // `mode: shadow` of the entry wins; otherwise the stage's own value does.
    if (outer === undefined || (own !== undefined && textOf(outer.value) !== 'shadow')) continue;
    entries = [...entries.filter((entry) => entry.key !== key), outer];
  }
  if (guard !== undefined) {
    const inner = entryOf(stage, 'when');
    const value = inner === undefined ? guard.value : both(guard, inner);
    entries = [...entries.filter((entry) => entry.key !== 'when'), { ...guard, value }];
  }
  return { ...stage, entries };
}

function both(outer: Entry, inner: Entry): MapNode {
  const { mark } = outer.value;
  const operands: ListNode = { kind: 'list', mark, items: [outer.value, inner.value] };
  return { kind: 'map', mark, entries: [{ key: 'and', key_mark: mark, value: operands }] };
}
