import { keyName, quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entryOf, type Mark, type Node, textOf } from '../../source/node.ts';
import { repeated } from '../repeated.ts';

/** Reports entries of a list that have a name another one has already. */
export function reportTwins(what: string, items: readonly Node[], key: string, findings: Findings): void {
  const names = items.flatMap((item) => childOf(item, key) ?? []);
  for (const [node, first] of repeated(names, textOf)) {
    const message = `there are two ${what}s named ${quote(textOf(node) ?? '')}`;
    findings.report('C4005', node.mark, message, { help: `the first one is in line ${first.mark.line}` });
  }
}

const byPlace = (a: Mark, b: Mark) => a.line - b.line || a.column - b.column;

/** Reports the later of two keys of a mapping that may not stand there together. */
export function reportExclusive(owner: Node | undefined, keys: readonly [string, string], findings: Findings): void {
  const entries = keys.flatMap((key) => entryOf(owner, key) ?? []);
  const later = entries.toSorted((a, b) => byPlace(a.key_mark, b.key_mark))[1];
  if (later === undefined) return;
  const other = keys.find((key) => key !== later.key) ?? '';
  findings.report('C4009', later.key_mark, `${keyName(later.key)} and ${keyName(other)} exclude each other`, {
    help: 'keep one of them',
  });
}
