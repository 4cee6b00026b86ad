import { oneOf } from '../kit/text/suggest.ts';
import { keyName } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import {
  type Chain,
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  type ListNode,
  type MapNode,
  type Node,
  remark,
  textOf,
} from '../source/node.ts';
import { refusePlaceholders, substitute } from '../source/placeholders.ts';
import { withRules } from './fragment-rules.ts';
import type { FragmentLibrary } from './fragments.ts';

/** What an entry with `use` says about each stage of its fragment. */
const INHERITED = ['mode', 'timeout_seconds', 'fail_closed'];

/** An id that validation lets pass. */
const ID = /^[a-z][a-z0-9]*(?:[-/][a-z0-9]+)*$/;

const STAGE_LISTS = ['stages', 'finally'];

/** A pipeline with its fragments put in. */
export interface Expanded {
  readonly root: MapNode;
  /** Whether every fragment was found; otherwise stages are missing. */
  readonly complete: boolean;
}

/** Replaces every `use:` entry of a pipeline by the stages of its fragment. */
export function expand(root: MapNode, library: FragmentLibrary, findings: Findings): Expanded {
  refusePlaceholders(root, findings);
  const before = findings.errors();
  const expansion = new Expansion(library, findings);
  const entries = root.entries.map((entry) => {
    if (!STAGE_LISTS.includes(entry.key) || entry.value.kind !== 'list') return entry;
    return { ...entry, value: expansion.list(entry.value, []) };
  });
  return { root: { ...root, entries }, complete: findings.errors() === before };
}

/** A list of entries with its fragments put in. */
export function expandList(list: Node, library: FragmentLibrary, findings: Findings): Node {
  return list.kind === 'list' ? new Expansion(library, findings).list(list, []) : list;
}

class Expansion {
  private readonly library: FragmentLibrary;
  private readonly findings: Findings;

  constructor(library: FragmentLibrary, findings: Findings) {
    this.library = library;
    this.findings = findings;
  }

  /** @param open files of the fragments being put in, outermost first. */
  list(list: ListNode, open: readonly string[]): ListNode {
    return { ...list, items: list.items.flatMap((item) => (item.kind === 'map' ? this.item(item, open) : [item])) };
  }

  private item(item: MapNode, open: readonly string[]): readonly Node[] {
    const use = entryOf(item, 'use');
    if (use === undefined) {
      const stray = entryOf(item, 'with');
      if (stray !== undefined && entryOf(item, 'stage') !== undefined) {
        this.findings.report('C2008', stray.key_mark, '`with` is for fragments', { help: 'a stage takes `options`' });
        return [{ ...item, entries: item.entries.filter((entry) => entry !== stray) }];
      }
      return [item];
    }
    const clash = entryOf(item, 'stage') ?? entryOf(item, 'options');
    if (clash !== undefined) {
      this.findings.report('C2008', clash.key_mark, `an entry with \`use\` has no ${keyName(clash.key)}`, {
        help: clash.key === 'options' ? 'a fragment takes `with`' : 'make two entries of it',
      });
      return [unresolved(item, use)];
    }
    const before = this.findings.errors();
    const stages = this.fragment(item, use, open);
    return this.findings.errors() === before && stages !== undefined ? stages : [unresolved(item, use)];
  }

  private fragment(item: MapNode, use: Entry, open: readonly string[]): readonly Node[] | undefined {
    const fragment = this.library.find(use.value);
    if (fragment === undefined) return undefined;
    if (open.includes(fragment.file)) {
      this.findings.report('C2002', use.value.mark, `the fragment ${keyName(fragment.name)} includes itself`, {
        help: `the circle: ${[...open.slice(open.indexOf(fragment.file)), fragment.file].map(baseName).join(' -> ')}`,
      });
      return [];
    }
    const { mark } = use.value;
    const chain: Chain = [...(mark.chain ?? []), { file: mark.file, line: mark.line }];
    const placed = remark(fragment.root, (inner) => ({ ...inner, chain })) as MapNode;
    const values = this.parameters(item, use, placed);
    const stages = childOf(placed, 'stages');
    if (values === undefined || stages?.kind !== 'list') return [];
    const ruled = withRules(stages, childOf(placed, 'rules'), this.findings) as ListNode;
    const filled = substitute(ruled, values, this.findings) as ListNode;
    return this.list(filled, [...open, fragment.file]).items.map((stage) => withOuter(stage, item));
  }

  /** The value of every parameter; `undefined` after reporting what is missing. */
  private parameters(item: MapNode, use: Entry, fragment: MapNode): ReadonlyMap<string, Node> | undefined {
    const declared = entriesOf(childOf(fragment, 'parameters'));
    const written = childOf(item, 'with');
    // What is no mapping was reported by validation.
    if (written !== undefined && written.kind !== 'map') return undefined;
    const given = entriesOf(written);
    const names = declared.map((parameter) => parameter.key);
    const unknown = given.filter((entry) => !names.includes(entry.key));
    for (const { key, key_mark } of unknown) {
      this.findings.report('C2004', key_mark, `the fragment has no parameter ${keyName(key)}`, {
        help: oneOf(key, names, 'parameters', 'it has no parameters'),
      });
    }
    const values = new Map<string, Node>();
    let complete = unknown.length === 0;
    for (const { key, value } of declared) {
      const set = given.find((entry) => entry.key === key)?.value ?? childOf(value, 'default');
      if (set !== undefined) {
        values.set(key, set);
      } else if (childOf(item, key) !== undefined) {
        // It stands beside `use`, which validation has reported.
        complete = false;
      } else if (complete) {
        this.findings.report('C2003', use.value.mark, `the parameter ${keyName(key)} is missing`, {
          help: `add it: with: { ${key}: ... }`,
        });
        complete = false;
      }
    }
    return complete ? values : undefined;
  }
}

/** What stands for a fragment that could not be put in, so that the list is not also reported as empty. */
function unresolved(item: MapNode, use: Entry): MapNode {
  return { ...item, entries: [use] };
}

const baseName = (file: string): string => file.slice(Math.max(file.lastIndexOf('/'), file.lastIndexOf('\\')) + 1);

/** A stage of a fragment under the guard of the entry that uses it, its id prefixed with that entry's. */
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
    // A shadowed fragment never runs, whatever its stages say; of limits the stage's own counts.
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
