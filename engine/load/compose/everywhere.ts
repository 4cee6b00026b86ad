/** Stages that gateway.yaml puts into all pipelines at once. */
import { oneOf } from '../../kit/text/suggest.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, type Entry, itemsOf, type MapNode, type Node, textOf } from '../../source/node.ts';
import { StageLists } from './edit-stages.ts';
import type { PipelineSource } from './split.ts';

const SOME_LACK_IT = 'say which pipelines are meant: pipelines: [...]';

/** The pipelines an entry of `everywhere.insert` is for; `undefined`: all that send requests upstream. */
function namesOf(edit: Node): readonly string[] | undefined {
  const written = childOf(edit, 'pipelines');
  return written === undefined ? undefined : itemsOf(written).flatMap((node) => textOf(node) ?? []);
}

/**
 * A pipeline, fragments put in, with the stages of `everywhere`.
 * @param section `everywhere` of gateway.yaml, fragments put in.
 * @param sends whether the pipeline sends requests upstream.
 */
export function withEverywhere(
  root: MapNode,
  section: Node | undefined,
  { name = '', family }: Pick<PipelineSource, 'name' | 'family'>,
  sends: boolean,
  findings: Findings,
): MapNode {
  if (section === undefined) return root;
  const lists = new StageLists(root, name, findings, SOME_LACK_IT);
  for (const edit of itemsOf(childOf(section, 'insert'))) {
    const names = namesOf(edit);
    const is_meant = names === undefined ? sends : names.some((each) => each === name || each === family);
    if (is_meant) lists.insert(edit);
  }
  lists.add('finally', itemsOf(childOf(section, 'finally')));
  return lists.result();
}

/** Reports pipelines that `everywhere` names and nobody has. */
export function checkEverywhere(
  section: Node | undefined,
  sources: readonly PipelineSource[],
  findings: Findings,
): void {
  const known = [...new Set(sources.flatMap(({ name, family }) => [name ?? [], family ?? []].flat()))];
  for (const edit of itemsOf(childOf(section, 'insert'))) {
    for (const node of itemsOf(childOf(edit, 'pipelines'))) {
      const name = textOf(node);
      if (name === undefined || known.includes(name)) continue;
      findings.report('C2011', node.mark, `there is no pipeline ${quote(name)}`, {
        help: oneOf(name, known, 'pipelines'),
      });
    }
  }
}

/** `everywhere` with its fragments put in by `expandList`. */
export function expandEverywhere(section: Node | undefined, expandList: (list: Node) => Node): Node | undefined {
  if (section?.kind !== 'map') return undefined;
  const within = (map: Node, key: string, change: (list: Node) => Node): Node => {
    if (map.kind !== 'map') return map;
    const entries = map.entries.map(
      (entry): Entry => (entry.key === key ? { ...entry, value: change(entry.value) } : entry),
    );
    return { ...map, entries };
  };
  const inserted = within(section, 'insert', (list) =>
    list.kind === 'list' ? { ...list, items: list.items.map((edit) => within(edit, 'stages', expandList)) } : list,
  );
  return within(inserted, 'finally', expandList);
}
