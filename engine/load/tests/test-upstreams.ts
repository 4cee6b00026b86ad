/** Checks what a case says that upstreams do. */
import { oneOf } from '../../kit/text/suggest.ts';
import { keyName, quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entriesOf, entryOf, itemsOf, type Mark, type Node, textOf } from '../../source/node.ts';
import { reportExclusive } from '../link/link-keys.ts';

const ANSWERS = ['status', 'json', 'text', 'events'] as const;
const BODIES = ['json', 'text', 'events'] as const;

/** What a way to fail has no use for, and what to do instead. */
const FUTILE = {
  status: [ANSWERS, 'a status under `fails` has an error for its body; for another one write `status` and `json`'],
  refuse: [
    [...ANSWERS, 'headers', 'delay_seconds', 'pause_seconds'],
    'an upstream that takes no connection does nothing else',
  ],
  reset: [
    [...ANSWERS, 'headers', 'pause_seconds'],
    'to cut the connection in the middle of an answer, write fails: cut',
  ],
  hang: [['json', 'text'], 'it never answers; to let it fall silent during an answer, write `events`'],
  cut: [[], ''],
} as const satisfies Record<string, readonly [keys: readonly string[], help: string]>;

/** Everything that some upstream is to do in a step. */
export function scriptNodes(step: Node, first: Node): readonly Node[] {
  const owner = (childOf(step, 'upstream') ?? childOf(step, 'upstreams')) ? step : first;
  const one = childOf(owner, 'upstream');
  const named = entriesOf(childOf(owner, 'upstreams')).flatMap(({ value }) =>
    value.kind === 'list' ? itemsOf(value) : [value],
  );
  return one === undefined ? named : [one, ...named];
}

function checkScript(script: Node, findings: Findings): void {
  reportExclusive(script, BODIES, findings);
  const fails = entryOf(script, 'fails');
  if (fails === undefined) return;
  const text = textOf(fails.value);
  const how = text !== undefined && Object.hasOwn(FUTILE, text) ? (text as keyof typeof FUTILE) : 'status';
  const [futile, help] = FUTILE[how];
  for (const { key, key_mark } of futile.flatMap((each) => entryOf(script, each) ?? [])) {
    findings.report('C8007', key_mark, `${keyName(key)} has no effect here`, { help });
  }
  if (how === 'cut' && BODIES.every((key) => entryOf(script, key) === undefined)) {
    findings.report('C8007', fails.key_mark, 'there is no answer that could be cut', {
      help: 'say what is sent before that: { fails: cut, events: [...] }; without an answer it is fails: reset',
    });
  }
}

/** Checks the scripts of a step; `first` is the case that it belongs to. */
export function checkScripts(step: Node, findings: Findings): void {
  reportExclusive(step, ['upstream', 'upstreams'], findings);
  for (const script of scriptNodes(step, step)) checkScript(script, findings);
}

/** Where a step names upstreams: as a key, or as a text. */
function upstreamNames(step: Node): readonly { readonly name: string; readonly mark: Mark }[] {
  const owners = [childOf(step, 'upstreams'), childOf(step, 'expect', 'upstreams'), childOf(step, 'expect', 'dropped')];
  const texts = [
    ...itemsOf(childOf(step, 'drained')),
    childOf(step, 'expect', 'upstream', 'name'),
    ...itemsOf(childOf(step, 'expect', 'candidates')),
    ...itemsOf(childOf(step, 'expect', 'attempts')).map((item) => childOf(item, 'upstream')),
  ];
  return [
    ...owners.flatMap((owner) => entriesOf(owner).map(({ key, key_mark }) => ({ name: key, mark: key_mark }))),
    ...texts.flatMap((node) => (node === undefined ? [] : [{ name: textOf(node) ?? '', mark: node.mark }])),
  ];
}

/** Checks that the upstreams a step is about are among `known`, those of the configuration that it runs with. */
export function checkUpstreamNames(step: Node, known: readonly string[], findings: Findings): void {
  for (const { name, mark } of upstreamNames(step)) {
    if (known.includes(name)) continue;
    findings.report('C4004', mark, `there is no upstream ${quote(name)}`, { help: oneOf(name, known, 'upstreams') });
  }
}
