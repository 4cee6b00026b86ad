import { basename, dirname } from 'node:path';
import { closest, oneOf } from '../../base/kit/text/suggest.ts';
import type { Findings } from '../../base/source/findings.ts';
import {
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  itemsOf,
  keyName,
  type MapNode,
  type Mark,
  type Node,
  quote,
  textOf,
} from '../../base/source/node.ts';
import { EXTENSION_SCHEMA } from '../../base/source/schemas.ts';
import { validate } from '../../base/source/validate.ts';

/** A pipeline composed from files, before its fragments are expanded. */
export interface PipelineSource {
  /** Its main file; fragments are looked up beside it. */
  readonly file: string;
  readonly root: MapNode;
  readonly name: string | undefined;
  /** The common name of the pipelines of one file. */
  readonly family?: string | undefined;
  readonly extended?: boolean;
  /** Where `remove` names the entries of a stage. */
  readonly removed?: ReadonlyMap<string, Mark>;
}

export const STAGE_LISTS = ['stages', 'on_error', 'finally'] as const;
export type StageList = (typeof STAGE_LISTS)[number];

/** Whether a key of a pipeline is one of its lists. */
export const isStageList = (key: string): key is StageList => (STAGE_LISTS as readonly string[]).includes(key);

/** Keys of an entry of `match` that describe its pipeline. */
const ABOUT: readonly string[] = ['name', 'summary'];

/** The pipelines of a file: one, or one for each entry of its `match`. */
export function splitPipelines(file: string, root: MapNode, findings: Findings): readonly PipelineSource[] {
  const match = childOf(root, 'match');
  const name = textOf(childOf(root, 'pipeline'));
  const ofEntry = (entry: Node | undefined) =>
    mapLists(root, (items) => ofProtocol(items, textOf(childOf(entry, 'protocol'))));
  if (match?.kind !== 'list') return [{ file, root: ofEntry(match), name }];
  return match.items.map((item) => {
    if (childOf(item, 'name') === undefined) {
      findings.report('C3002', item.mark, 'an entry of `match` has no name', {
        expected: 'a name for each entry of `match`: { name: ..., methods: ..., paths: ..., protocol: ... }',
      });
    }
    return {
      file,
      root: forMatch(ofEntry(item), item),
      name: textOf(childOf(item, 'name')),
      ...(name !== undefined && { family: name }),
    };
  });
}

/** The root of one of the pipelines of a file. */
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

/** A copy of a pipeline with the items of its lists mapped. */
export function mapLists(root: MapNode, change: (items: readonly Node[], list: StageList) => readonly Node[]): MapNode {
  const entries = root.entries.map((entry): Entry => {
    const { key, value } = entry;
    if (!isStageList(key) || value.kind !== 'list') return entry;
    return { ...entry, value: { ...value, items: change(value.items, key) } };
  });
  return { ...root, entries };
}

/** Removes the entries for other protocols, and the key `protocols`. */
function ofProtocol(items: readonly Node[], protocol: string | undefined): readonly Node[] {
  return items.flatMap((item) => {
    const protocols = entryOf(item, 'protocols');
    if (protocols === undefined || item.kind !== 'map' || protocols.value.kind !== 'list') return [item];
    const is_meant = protocol === undefined || itemsOf(protocols.value).some((node) => textOf(node) === protocol);
    return is_meant ? [{ ...item, entries: item.entries.filter((entry) => entry !== protocols) }] : [];
  });
}

/** The name of an entry: its id, else its stage, else its fragment. */
function idOf(entry: Node): string | undefined {
  const written = textOf(childOf(entry, 'id')) ?? textOf(childOf(entry, 'stage'));
  return written ?? textOf(childOf(entry, 'use'))?.replace(/^fragments\//, '');
}

function idsOf(root: MapNode): ReadonlySet<string> {
  return new Set(STAGE_LISTS.flatMap((list) => itemsOf(childOf(root, list)).flatMap((entry) => idOf(entry) ?? [])));
}

interface Edits {
  /** A mapping with `remove`, `replace`, `insert`, `on_error` and `finally`: an extension, or `all_pipelines`. */
  readonly edits: Node | undefined;
  /** Whether an item of `remove`, `replace` or `insert` is for this pipeline. */
  concerns(edit: Node): boolean;
  /** Further help for an id that the pipeline does not have. */
  readonly advice?: string;
}

/** Edits the lists of a pipeline. Also returns where `remove` names the entries of a stage. */
function edited(root: MapNode, pipeline: string, { edits, concerns, advice }: Edits, findings: Findings) {
  const protocol = textOf(childOf(root, 'match', 'protocol'));
  const lists = new Map(STAGE_LISTS.map((list) => [list, [...itemsOf(childOf(root, list))]]));
  const removed = new Map<string, Mark>();
  /** The last entry inserted after each anchor: further insertions follow it, in the order of the file. */
  const last_after = new Map<Node, Node>();
  const editsAt = (key: string) => itemsOf(childOf(edits, key)).filter(concerns);
  const added = (owner: Node | undefined, key: string) => ofProtocol(itemsOf(childOf(owner, key)), protocol);

  function find(id: Node | undefined, what: string): { readonly items: Node[]; readonly at: number } | undefined {
    const name = textOf(id);
    if (id === undefined || name === undefined) return undefined;
    for (const items of lists.values()) {
      const at = items.findIndex((item) => idOf(item) === name);
      if (at >= 0) return { items, at };
    }
    const known = [...lists.values()].flatMap((items) => items.flatMap((item) => idOf(item) ?? []));
    const more = closest(name, known) === undefined && advice !== undefined ? `; or ${advice}` : '';
    findings.report('C2012', id.mark, `\`${what}\` names ${keyName(name)}, which does not exist`, {
      found: `the pipeline ${quote(pipeline)} has no such entry`,
      help: `${oneOf(name, known, 'its entries')}${more}`,
    });
    return undefined;
  }

  for (const id of editsAt('remove')) {
    const place = find(id, 'remove');
    const [gone] = place?.items.splice(place.at, 1) ?? [];
    const stage = textOf(childOf(gone, 'stage'));
    if (stage !== undefined) removed.set(stage, id.mark);
  }
  for (const entry of editsAt('replace')) {
    const place = find(childOf(entry, 'id'), 'replace');
    if (place !== undefined) place.items[place.at] = entry;
  }
  for (const edit of editsAt('insert')) {
    const { key = '', value } = entryOf(edit, 'after') ?? entryOf(edit, 'before') ?? {};
    const place = find(value, key);
    const stages = added(edit, 'stages');
    if (place === undefined || stages.length === 0) continue;
    const anchor = place.items[place.at]!;
    const from = key === 'before' ? place.at : place.items.indexOf(last_after.get(anchor) ?? anchor) + 1;
    place.items.splice(from, 0, ...stages);
    if (key === 'after') last_after.set(anchor, stages.at(-1)!);
  }
  // The first matching clause handles an error, so those of the extension come first.
  lists.get('on_error')!.unshift(...added(edits, 'on_error'));
  lists.get('finally')!.push(...added(edits, 'finally'));
  const result = STAGE_LISTS.flatMap((list): Entry[] => {
    const items = lists.get(list)!;
    const written = entryOf(root, list);
    if (items.length === 0 && written === undefined) return [];
    const { key_mark = root.mark, value: { mark } = root } = written ?? {};
    return [{ key: list, key_mark, value: { kind: 'list', mark, items } }];
  });
  const entries = [...root.entries.filter(({ key }) => !isStageList(key)), ...result];
  return { root: { ...root, entries }, removed };
}

/** A file with `extends`. */
export interface Extension {
  readonly file: string;
  readonly root: MapNode;
}

const REPLACED: readonly string[] = ['pipeline', 'version', 'summary', 'match', 'limits'];
const ADDED: readonly string[] = ['rules', 'allow'];

export const isExtension = (root: MapNode): boolean => entryOf(root, 'extends') !== undefined;

/** Applies extensions to the pipelines of all other files. */
export function applyExtensions(
  sources: readonly PipelineSource[],
  extensions: readonly Extension[],
  findings: Findings,
): readonly PipelineSource[] {
  const extended = new Map<PipelineSource, { readonly by: Extension; readonly result: PipelineSource }>();
  const made: PipelineSource[] = [];
  for (const extension of extensions) {
    const { root, file } = extension;
    if (!validate(EXTENSION_SCHEMA, root, dirname(file), findings).ok) continue;
    const is_new = entryOf(root, 'pipeline') !== undefined;
    const targets = targetsOf(extension, sources, findings);
    const ids = new Set(targets.flatMap(([, { root }]) => [...idsOf(root)]));
    for (const [name, source] of targets) {
      const other = extended.get(source);
      if (other !== undefined && !is_new) {
        const message = `another file already extends the pipeline ${quote(source.name ?? '')}`;
        findings.report('C2013', name.mark, message, { help: `put both changes into ${basename(other.by.file)}` });
        continue;
      }
      const result = extend(source, extension, ids, findings);
      if (is_new) made.push(result);
      else extended.set(source, { by: extension, result });
    }
  }
  return [...sources.map((source) => extended.get(source)?.result ?? source), ...made];
}

/** The pipelines with a name or family name; reports when there are none. */
function sourcesOf(node: Node, sources: readonly PipelineSource[], findings: Findings): readonly PipelineSource[] {
  const name = textOf(node);
  // Validation reports other types.
  if (name === undefined) return [];
  const found = sources.filter((source) => source.name === name || source.family === name);
  if (found.length > 0) return found;
  const known = [...new Set(sources.flatMap((source) => [source.name ?? [], source.family ?? []].flat()))];
  findings.report('C2011', node.mark, `there is no pipeline ${quote(name)}`, { help: oneOf(name, known, 'pipelines') });
  return [];
}

function targetsOf(
  { root }: Extension,
  sources: readonly PipelineSource[],
  findings: Findings,
): readonly (readonly [name: Node, source: PipelineSource])[] {
  const written = childOf(root, 'extends')!;
  const names = written.kind === 'list' ? written.items : [written];
  const found = names.flatMap((node) => sourcesOf(node, sources, findings).map((one) => [node, one] as const));
  const match = entryOf(root, 'match');
  if (match === undefined || found.length < 2) return found;
  findings.report('C4009', match.key_mark, '`match` is for one pipeline, and `extends` names several', {
    help: 'remove `pipeline` and `match` to change all of them, or extend one',
  });
  return [];
}

/** @param ids of the entries of all pipelines that the extension names */
function extend(
  source: PipelineSource,
  { file, root }: Extension,
  ids: ReadonlySet<string>,
  findings: Findings,
): PipelineSource {
  const replacing = root.entries.filter(({ key }) => REPLACED.includes(key));
  const kept = source.root.entries.filter(({ key }) => !replacing.some((entry) => entry.key === key));
  const base: MapNode = { ...source.root, entries: [...replacing, ...kept] };
  const name = textOf(childOf(root, 'pipeline')) ?? source.name;
  // When several pipelines are extended, an entry need not exist in all of them.
  const own = idsOf(base);
  const concerns = (edit: Node) => {
    const id = textOf(edit) ?? idOf(edit) ?? '';
    return own.has(id) || !ids.has(id);
  };
  const result = edited(base, name ?? '', { edits: root, concerns }, findings);
  return {
    file,
    root: ADDED.reduce<MapNode>((whole, key) => withAdded(whole, key, root, findings), result.root),
    name,
    ...(source.family && { family: source.family }),
    extended: true,
    removed: result.removed,
  };
}

function withAdded(root: MapNode, key: string, extension: MapNode, findings: Findings): MapNode {
  const added = entryOf(extension, key);
  const own = entryOf(root, key);
  if (added === undefined) return root;
  if (own === undefined || own.value.kind !== 'map') return { ...root, entries: [...root.entries, added] };
  const taken = entriesOf(own.value);
  const fresh = entriesOf(added.value).filter((entry) => {
    const twin = taken.find((other) => other.key === entry.key);
    if (twin !== undefined && key === 'rules') {
      findings.report('C4005', entry.key_mark, `the pipeline already has a rule ${keyName(entry.key)}`, {
        help: `it is in ${basename(twin.key_mark.file)}:${twin.key_mark.line}; rename this one`,
      });
    }
    return twin === undefined;
  });
  const value: MapNode = { ...own.value, entries: [...taken, ...fresh] };
  const entries = root.entries.map((entry): Entry => (entry === own ? { ...entry, value } : entry));
  return { ...root, entries };
}

/** An expanded pipeline with the stages of the section `all_pipelines`. @param sends whether it sends requests upstream */
export function withAllPipelines(
  root: MapNode,
  section: Node | undefined,
  { name = '', family }: Pick<PipelineSource, 'name' | 'family'>,
  sends: boolean,
  findings: Findings,
): MapNode {
  if (section === undefined) return root;
  const concerns = (edit: Node) => {
    const pipelines = childOf(edit, 'pipelines');
    return pipelines === undefined
      ? sends
      : itemsOf(pipelines).some((node) => [name, family].includes(textOf(node) ?? ''));
  };
  return edited(root, name, { edits: section, concerns, advice: 'list the pipelines: pipelines: [...]' }, findings)
    .root;
}

/** Reports pipelines that `all_pipelines` names and that do not exist. */
export function checkAllPipelines(
  section: Node | undefined,
  sources: readonly PipelineSource[],
  findings: Findings,
): void {
  for (const edit of itemsOf(childOf(section, 'insert')))
    for (const node of itemsOf(childOf(edit, 'pipelines'))) sourcesOf(node, sources, findings);
}
