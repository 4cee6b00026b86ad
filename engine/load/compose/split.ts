/** One file, several pipelines: `match` is a list of requests, each with the name of the pipeline that serves them. */
import type { Findings } from '../../source/findings.ts';
import {
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  itemsOf,
  type MapNode,
  type Mark,
  type Node,
  textOf,
} from '../../source/node.ts';

/** A pipeline as the files make it, before its fragments are put in. */
export interface PipelineSource {
  /** The file that says most about it; fragments stand beside it. */
  readonly file: string;
  readonly root: MapNode;
  readonly name: string | undefined;
  /** Name of the file's pipelines together, where it makes several. */
  readonly family?: string | undefined;
  /** Whether it was made by changing another. */
  readonly extended?: boolean;
  /** Where entries were taken out, by the stages they had. */
  readonly removed?: ReadonlyMap<string, Mark>;
}

const STAGE_LISTS: readonly string[] = ['stages', 'on_error', 'finally'];
/** Keys of an entry of `match` that say something about its pipeline. */
const ABOUT: readonly string[] = ['name', 'summary'];

/** The pipelines of a file: one, or one for each entry of its `match`. */
export function splitPipelines(file: string, root: MapNode, findings: Findings): readonly PipelineSource[] {
  const match = childOf(root, 'match');
  const name = textOf(childOf(root, 'pipeline'));
  if (match?.kind !== 'list') {
    const protocol = textOf(childOf(match, 'protocol'));
    return [{ file, root: withoutOthers(root, protocol, findings), name }];
  }
  const protocols = match.items.map((item) => textOf(childOf(item, 'protocol')));
  reportIdle(root, protocols, findings);
  return match.items.map((item) => {
    if (childOf(item, 'name') === undefined) {
      findings.report('C2018', item.mark, 'one of several pipelines has no name', {
        expected: 'a name for each entry of `match`: { name: ..., methods: ..., paths: ..., protocol: ... }',
      });
    }
    const own = withoutOthers(root, textOf(childOf(item, 'protocol')));
    return {
      file,
      root: forMatch(own, item),
      name: textOf(childOf(item, 'name')),
      ...(name !== undefined && { family: name }),
    };
  });
}

/** The root of one pipeline of several. */
function forMatch(root: MapNode, item: Node): MapNode {
  const name = entryOf(item, 'name');
  const summary = entryOf(item, 'summary');
  const entries = root.entries.map((entry): Entry => {
    if (entry.key === 'pipeline' && name !== undefined) return { ...entry, value: name.value };
    if (entry.key === 'summary' && summary !== undefined) return { ...entry, value: summary.value };
    if (entry.key !== 'match' || item.kind !== 'map') return entry;
    return { ...entry, value: { ...item, entries: item.entries.filter(({ key }) => !ABOUT.includes(key)) } };
  });
  return { ...root, entries };
}

/** Leaves out the entries that are for other protocols, and the key that says so. */
function withoutOthers(root: MapNode, protocol: string | undefined, findings?: Findings): MapNode {
  const entries = root.entries.map((entry): Entry => {
    if (!STAGE_LISTS.includes(entry.key) || entry.value.kind !== 'list') return entry;
    return { ...entry, value: { ...entry.value, items: ofProtocol(entry.value.items, protocol) } };
  });
  if (findings !== undefined && protocol !== undefined) reportIdle(root, [protocol], findings);
  return { ...root, entries };
}

/** The entries of a list that are for a protocol. */
export function ofProtocol(items: readonly Node[], protocol: string | undefined): readonly Node[] {
  return items.flatMap((item) => {
    const protocols = entryOf(item, 'protocols');
    if (protocols === undefined || item.kind !== 'map' || protocols.value.kind !== 'list') return [item];
    const is_meant = protocol === undefined || itemsOf(protocols.value).some((node) => textOf(node) === protocol);
    return is_meant ? [{ ...item, entries: item.entries.filter((entry) => entry !== protocols) }] : [];
  });
}

/** Reports protocols of entries that no pipeline of the file serves. */
function reportIdle(root: MapNode, served: readonly (string | undefined)[], findings: Findings): void {
  if (served.includes(undefined)) return;
  for (const { key, value } of entriesOf(root)) {
    if (!STAGE_LISTS.includes(key)) continue;
    for (const node of itemsOf(value).flatMap((item) => itemsOf(childOf(item, 'protocols')))) {
      const protocol = textOf(node);
      if (protocol === undefined || served.includes(protocol)) continue;
      findings.report('C2014', node.mark, `no pipeline of this file serves the protocol "${protocol}"`, {
        expected: [...new Set(served)].join(' or '),
      });
    }
  }
}
