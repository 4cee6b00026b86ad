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

// A file with a list under `match` defines several pipelines, each with its own name.

/** A pipeline composed from files, before its fragments are expanded. */
export interface PipelineSource {
  /** Its main file; fragments are looked up beside it. */
  readonly file: string;
  readonly root: MapNode;
  readonly name: string | undefined;
  /** The common name of the pipelines of one file. */
  readonly family?: string | undefined;
  /** Whether it is the result of `extends`. */
  readonly extended?: boolean;
  /** Where `remove` names the entries of a stage. */
  readonly removed?: ReadonlyMap<string, Mark>;
}

const STAGE_LISTS: readonly string[] = ['stages', 'on_error', 'finally'];
/** Keys of an entry of `match` that describe its pipeline. */
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
      findings.report('C3002', item.mark, 'an entry of `match` has no name', {
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

/** Removes the entries for other protocols, and the key `protocols`. */
function withoutOthers(root: MapNode, protocol: string | undefined, findings?: Findings): MapNode {
  const entries = root.entries.map((entry): Entry => {
    if (!STAGE_LISTS.includes(entry.key) || entry.value.kind !== 'list') return entry;
    return { ...entry, value: { ...entry.value, items: ofProtocol(entry.value.items, protocol) } };
  });
  if (findings !== undefined && protocol !== undefined) reportIdle(root, [protocol], findings);
  return { ...root, entries };
}

/** The entries of a list that apply to a protocol. */
function ofProtocol(items: readonly Node[], protocol: string | undefined): readonly Node[] {
  return items.flatMap((item) => {
    const protocols = entryOf(item, 'protocols');
    if (protocols === undefined || item.kind !== 'map' || protocols.value.kind !== 'list') return [item];
    const is_meant = protocol === undefined || itemsOf(protocols.value).some((node) => textOf(node) === protocol);
    return is_meant ? [{ ...item, entries: item.entries.filter((entry) => entry !== protocols) }] : [];
  });
}

/** Reports `protocols` of entries that no pipeline of the file serves. */
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

// Inserts, replaces and removes entries of the lists of a pipeline.

const LISTS = ['stages', 'on_error', 'finally'] as const;
type List = (typeof LISTS)[number];

/** The name of an entry: its id, else its stage, else its fragment. */
function idOf(entry: Node): string | undefined {
  const written = textOf(childOf(entry, 'id')) ?? textOf(childOf(entry, 'stage'));
  return written ?? textOf(childOf(entry, 'use'))?.replace(/^fragments\//, '');
}

/** The ids of a pipeline's entries. */
function idsOf(root: MapNode): ReadonlySet<string> {
  return new Set(LISTS.flatMap((list) => itemsOf(childOf(root, list)).flatMap((entry) => idOf(entry) ?? [])));
}

/** The lists of a pipeline during edits. */
class StageLists {
  readonly removed = new Map<string, Mark>();
  readonly #lists: Map<List, Node[]>;
  readonly #root: MapNode;
  readonly #pipeline: string;
  readonly #findings: Findings;
  readonly #advice: string | undefined;
  /** The last entry inserted after each anchor: further insertions follow it, in the order of the file. */
  readonly #last_after = new Map<Node, Node>();

  /** @param advice further help for an id that the pipeline does not have */
  constructor(root: MapNode, pipeline: string, findings: Findings, advice?: string) {
    this.#root = root;
    this.#pipeline = pipeline;
    this.#findings = findings;
    this.#advice = advice;
    this.#lists = new Map(LISTS.map((list) => [list, [...itemsOf(childOf(root, list))]]));
  }

  /** @param edit a mapping with `after` or `before`, and `stages` */
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

  /** @param entry a whole entry, with the id of the one it replaces */
  replace(entry: Node): void {
    const id = childOf(entry, 'id');
    const place = id && this.#place(id, '`replace` names');
    if (place !== undefined) place.items[place.at] = entry;
  }

  /** @param id the scalar that names an entry */
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

  /** The edited pipeline. */
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
    this.#findings.report('C2012', id.mark, `${what} ${keyName(name)}, which does not exist`, {
      found: `the pipeline ${quote(this.#pipeline)} has no such entry`,
      help: `${oneOf(name, known, 'its entries')}${advice}`,
    });
    return undefined;
  }
}

// A file with `extends` changes other pipelines, or makes a new one from another.

/** A file with `extends`. */
export interface Extension {
  readonly file: string;
  readonly root: MapNode;
}

/** Keys that an extension overrides. */
const REPLACED: readonly string[] = ['pipeline', 'version', 'summary', 'match', 'limits'];
/** Mappings that an extension merges. */
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
function sourcesOf(
  node: Node,
  sources: readonly PipelineSource[],
  findings: Findings,
  what_for = '',
): readonly PipelineSource[] {
  const name = textOf(node);
  // Validation reports other types.
  if (name === undefined) return [];
  const found = sources.filter((source) => source.name === name || source.family === name);
  if (found.length > 0) return found;
  const known = [...new Set(sources.flatMap((source) => [source.name ?? [], source.family ?? []].flat()))];
  findings.report('C2011', node.mark, `there is no pipeline ${quote(name)}${what_for}`, {
    help: oneOf(name, known, 'pipelines'),
  });
  return [];
}

/** The pipelines that an extension names. */
function targetsOf(
  { root }: Extension,
  sources: readonly PipelineSource[],
  findings: Findings,
): readonly (readonly [name: Node, source: PipelineSource])[] {
  const written = childOf(root, 'extends')!;
  const names = written.kind === 'list' ? written.items : [written];
  const found = names.flatMap((node) =>
    sourcesOf(node, sources, findings, ' to extend').map((one) => [node, one] as const),
  );
  const pipeline = entryOf(root, 'pipeline');
  const match = entryOf(root, 'match');
  if (pipeline !== undefined && match === undefined) {
    findings.report('C3002', pipeline.key_mark, 'missing key `match`: a new pipeline needs requests of its own', {
      help: 'write `match: { methods: [...], paths: [...], protocol: ... }`, or remove `pipeline` to change the extended one',
    });
    return [];
  }
  const own = pipeline ?? match;
  if (own === undefined || found.length < 2) return found;
  const message =
    own === pipeline
      ? 'a new pipeline can extend only one other, and `extends` names several'
      : '`match` can change only one pipeline, and `extends` names several';
  findings.report('C4009', own.key_mark, message, {
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
  const replaced = source.root.entries.map(
    (entry) => (REPLACED.includes(entry.key) && entryOf(root, entry.key)) || entry,
  );
  const more = root.entries.filter(({ key }) => REPLACED.includes(key) && entryOf(source.root, key) === undefined);
  const base: MapNode = { ...source.root, entries: [...replaced, ...more] };
  const name = textOf(childOf(root, 'pipeline')) ?? source.name;
  const lists = new StageLists(base, name ?? '', findings);
  // When several pipelines are extended, an entry need not exist in all of them.
  const own = idsOf(base);
  const isOfOthers = (id = '') => ids.has(id) && !own.has(id);
  for (const id of itemsOf(childOf(root, 'remove'))) if (!isOfOthers(textOf(id))) lists.remove(id);
  for (const entry of itemsOf(childOf(root, 'replace'))) if (!isOfOthers(idOf(entry))) lists.replace(entry);
  for (const edit of itemsOf(childOf(root, 'insert'))) lists.insert(edit);
  // The first matching clause handles an error, so those of the extension come first.
  lists.add('on_error', itemsOf(childOf(root, 'on_error')), 'front');
  lists.add('finally', itemsOf(childOf(root, 'finally')));
  const edited = ADDED.reduce((whole, key) => withAdded(whole, key, root, findings), lists.result());
  return {
    file,
    root: edited,
    name,
    ...(source.family && { family: source.family }),
    extended: true,
    removed: lists.removed,
  };
}

/** Merges a mapping of the extension into that of the pipeline. */
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

// `all_pipelines` of gateway.yaml adds stages to every pipeline.

const LIST_PIPELINES = 'list the pipelines: pipelines: [...]';

/** The pipelines that an entry of `all_pipelines.insert` names; `undefined`: all that send requests upstream. */
function namesOf(edit: Node): readonly string[] | undefined {
  const written = childOf(edit, 'pipelines');
  return written === undefined ? undefined : itemsOf(written).flatMap((node) => textOf(node) ?? []);
}

/**
 * An expanded pipeline with the stages of `all_pipelines`.
 * @param section `all_pipelines` of gateway.yaml
 * @param sends whether the pipeline sends requests upstream
 */
export function withAllPipelines(
  root: MapNode,
  section: Node | undefined,
  { name = '', family }: Pick<PipelineSource, 'name' | 'family'>,
  sends: boolean,
  findings: Findings,
): MapNode {
  if (section === undefined) return root;
  const lists = new StageLists(root, name, findings, LIST_PIPELINES);
  for (const edit of itemsOf(childOf(section, 'insert'))) {
    const names = namesOf(edit);
    const is_meant = names === undefined ? sends : names.some((each) => each === name || each === family);
    if (is_meant) lists.insert(edit);
  }
  lists.add('finally', itemsOf(childOf(section, 'finally')));
  return lists.result();
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
