import type { StageDefinition } from '../contract/stage.ts';
import { listed } from '../kit/text/suggest.ts';
import { OPERATORS } from '../rules/operators.ts';
import { keyName } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import { childOf, entriesOf, type MapNode, type Node, textOf } from '../source/node.ts';
import { PIPELINE_SCHEMA } from '../source/schemas.ts';

const LISTS: readonly string[] = ['stages', 'on_error', 'finally'];

const { definitions } = PIPELINE_SCHEMA as unknown as {
  definitions: Readonly<Record<'entry' | 'clause', { properties: object }>>;
};
const OWN_KEYS = new Set([definitions.entry, definitions.clause].flatMap(({ properties }) => Object.keys(properties)));

/**
 * Reports options that stand beside `stage` instead of under `options`, and conditions beside an empty `when`.
 * @returns the pipeline with them in their place, so that later passes find what was meant.
 */
export function nestOptions(
  pipeline: MapNode,
  stages: ReadonlyMap<string, StageDefinition>,
  findings: Findings,
): MapNode {
  const entries = pipeline.entries.map((entry) => {
    if (!LISTS.includes(entry.key) || entry.value.kind !== 'list') return entry;
    const items = entry.value.items.map((item) => nested(item, stages, findings));
    return { ...entry, value: { ...entry.value, items } };
  });
  return { ...pipeline, entries };
}

/** An entry `- read-body:` as the `- stage: read-body` it is meant to be. */
function withStage(item: Node, stages: ReadonlyMap<string, StageDefinition>, findings: Findings): Node {
  if (item.kind !== 'map' || childOf(item, 'stage') !== undefined || childOf(item, 'use') !== undefined) return item;
  const named = item.entries.find(({ key, value }) => stages.has(key) && (isNothing(value) || value.kind === 'map'));
  if (named === undefined) return item;
  const { key, key_mark, value } = named;
  findings.report('C3001', key_mark, `unknown key ${keyName(key)}`, {
    expected: 'an entry that begins with `stage:`',
    help: `write \`stage: ${key}\`${value.kind === 'map' ? ', and its options under `options`' : ''}`,
  });
  const stage: Node = { kind: 'scalar', value: key, mark: key_mark, range: [0, 0] };
  const options = value.kind === 'map' ? [{ ...named, key: 'options' }] : [];
  const others = item.entries.filter((entry) => entry !== named);
  return { ...item, entries: [{ key: 'stage', key_mark, value: stage }, ...options, ...others] };
}

function nested(given: Node, stages: ReadonlyMap<string, StageDefinition>, findings: Findings): Node {
  const item = withStage(given, stages, findings);
  const known = Object.keys(stages.get(textOf(childOf(item, 'stage')) ?? '')?.options.properties ?? {});
  const with_options = moved(item, 'options', (key) => known.includes(key), findings);
  const is_empty = isNothing(childOf(item, 'when'));
  return moved(with_options, 'when', (key) => is_empty && (Object.hasOwn(OPERATORS, key) || key === 'rule'), findings);
}

const isNothing = (node: Node | undefined): boolean => node?.kind === 'scalar' && node.value === null;

/** An entry with the keys that belong into a mapping of it in there, reported as one mistake. */
function moved(item: Node, home: string, belongs: (key: string) => boolean, findings: Findings): Node {
  const inside = childOf(item, home);
  const misplaced = entriesOf(item).filter(
    ({ key }) => belongs(key) && !OWN_KEYS.has(key) && childOf(inside, key) === undefined,
  );
  const [first] = misplaced;
  const has_room = inside === undefined || inside.kind === 'map' || isNothing(inside);
  if (item.kind !== 'map' || first === undefined || !has_room) return item;
  const names = listed(misplaced.map(({ key }) => keyName(key))).replace(/ or (\S+)$/, ' and $1');
  const is_many = misplaced.length > 1;
  findings.report('C3001', first.key_mark, `unknown key${is_many ? 's' : ''} ${names}`, {
    help: `${is_many ? 'they belong' : 'it belongs'} under \`${home}\`, indented further`,
  });
  const entries = [...entriesOf(inside), ...misplaced];
  const value: MapNode = { kind: 'map', entries, mark: inside?.mark ?? first.key_mark };
  const others = item.entries.filter((entry) => entry.key !== home && !misplaced.includes(entry));
  return { ...item, entries: [...others, { key: home, key_mark: first.key_mark, value }] };
}
