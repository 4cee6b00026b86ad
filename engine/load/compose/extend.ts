/** Pipelines made from others: a file with `extends` says what is different. */
import { basename, dirname } from 'node:path';
import { oneOf } from '../../kit/text/suggest.ts';
import { keyName, quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import {
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  itemsOf,
  type MapNode,
  type Node,
  textOf,
} from '../../source/node.ts';
import { EXTENSION_SCHEMA } from '../../source/schemas.ts';
import { validate } from '../../source/validate.ts';
import { idOf, idsOf, StageLists } from './edit-stages.ts';
import type { PipelineSource } from './split.ts';

/** A file with `extends`. */
export interface Extension {
  readonly file: string;
  readonly root: MapNode;
}

/** Keys that an extension says instead of what it extends. */
const REPLACED: readonly string[] = ['pipeline', 'version', 'summary', 'match', 'limits'];
/** Mappings that an extension adds to. */
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
        const message = `the pipeline ${quote(source.name ?? '')} is extended already`;
        findings.report('C2013', name.mark, message, { help: `say both in ${basename(other.by.file)}` });
        continue;
      }
      const result = extend(source, extension, ids, findings);
      if (is_new) made.push(result);
      else extended.set(source, { by: extension, result });
    }
  }
  return [...sources.map((source) => extended.get(source)?.result ?? source), ...made];
}

/** The pipelines that an extension names: by their own names, or by that of a file of several. */
function targetsOf(
  { root }: Extension,
  sources: readonly PipelineSource[],
  findings: Findings,
): readonly (readonly [name: Node, source: PipelineSource])[] {
  const written = childOf(root, 'extends')!;
  const names = written.kind === 'list' ? written.items : [written];
  const known = [...new Set(sources.flatMap(({ name, family }) => [name ?? [], family ?? []].flat()))];
  const found = names.flatMap((node) => {
    const name = textOf(node) ?? '';
    const targets = sources.filter((source) => source.name === name || source.family === name);
    if (targets.length === 0) {
      findings.report('C2011', node.mark, `there is no pipeline ${quote(name)} to extend`, {
        help: oneOf(name, known, 'pipelines'),
      });
    }
    return targets.map((target) => [node, target] as const);
  });
  const pipeline = entryOf(root, 'pipeline');
  const match = entryOf(root, 'match');
  if (pipeline !== undefined && match === undefined) {
    findings.report('C3002', pipeline.key_mark, 'missing key `match`: a new pipeline serves requests of its own', {
      help: 'write `match: { methods: [...], paths: [...], protocol: ... }`, or leave `pipeline` out to change the other',
    });
    return [];
  }
  const own = pipeline ?? match;
  if (own === undefined || found.length < 2) return found;
  const message =
    own === pipeline
      ? 'a new pipeline is made from one other, and `extends` names several'
      : '`match` is for one pipeline, and `extends` names several';
  findings.report('C2017', own.key_mark, message, {
    help: 'leave `pipeline` and `match` out to change those, or extend one',
  });
  return [];
}

/** @param ids of the entries of all pipelines that the extension names. */
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
  // Of several pipelines, some have entries that the others do not need.
  const own = idsOf(base);
  const isOfOthers = (id = '') => ids.has(id) && !own.has(id);
  for (const id of itemsOf(childOf(root, 'remove'))) if (!isOfOthers(textOf(id))) lists.remove(id);
  for (const entry of itemsOf(childOf(root, 'replace'))) if (!isOfOthers(idOf(entry))) lists.replace(entry);
  for (const edit of itemsOf(childOf(root, 'insert'))) lists.insert(edit);
  // The first clause that handles an error answers.
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

/** Adds what a mapping of the extension says to that of the pipeline. */
function withAdded(root: MapNode, key: string, extension: MapNode, findings: Findings): MapNode {
  const added = entryOf(extension, key);
  const own = entryOf(root, key);
  if (added === undefined) return root;
  if (own === undefined || own.value.kind !== 'map') return { ...root, entries: [...root.entries, added] };
  const taken = entriesOf(own.value);
  const fresh = entriesOf(added.value).filter((entry) => {
    const twin = taken.find((other) => other.key === entry.key);
    if (twin !== undefined && key === 'rules') {
      findings.report('C2016', entry.key_mark, `the pipeline has a rule ${keyName(entry.key)} already`, {
        help: `it stands in ${basename(twin.key_mark.file)}:${twin.key_mark.line}; give this one another name`,
      });
    }
    return twin === undefined;
  });
  const value: MapNode = { ...own.value, entries: [...taken, ...fresh] };
  const entries = root.entries.map((entry): Entry => (entry === own ? { ...entry, value } : entry));
  return { ...root, entries };
}
