import { secretKeys } from '../../kit/secret-names.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, type Entry, entryOf, keyName, type Node, quote, textOf } from '../../source/node.ts';

/** Items with a name that an earlier one has already, each with the first of that name. */
export function repeated<T>(
  items: readonly T[],
  nameOf: (item: T) => string | undefined,
): readonly (readonly [later: T, first: T])[] {
  const named = items.filter((item) => nameOf(item) !== undefined);
  const groups = Map.groupBy(named, nameOf).values();
  return [...groups].flatMap(([first, ...later]) => later.map((item) => [item, first!] as const));
}

/** Reports entries of a list that have a name another one has already. */
export function reportTwins(what: string, items: readonly Node[], key: string, findings: Findings): void {
  const names = items.flatMap((item) => childOf(item, key) ?? []);
  for (const [node, first] of repeated(names, textOf)) {
    const message = `there are two ${what}s named ${quote(textOf(node) ?? '')}`;
    findings.report('C4005', node.mark, message, { help: `the first one is in line ${first.mark.line}` });
  }
}

const byPosition = (a: Entry, b: Entry) => a.key_mark.line - b.key_mark.line || a.key_mark.column - b.key_mark.column;

/** The entry of a mapping that names a secret: a variable with `env_key`, or a file with the twin of that key. */
export function secretEntryOf(owner: Node | undefined, env_key: string): Entry | undefined {
  const [variable, file] = secretKeys(env_key);
  return entryOf(owner, variable) ?? entryOf(owner, file);
}

/** The same as `reportExclusive` for secrets, in a variable or in a file. */
export function reportExclusiveSecrets(owner: Node | undefined, env_keys: readonly string[], findings: Findings): void {
  const written = env_keys.flatMap((env_key) => secretEntryOf(owner, env_key)?.key ?? []);
  reportExclusive(owner, written, findings);
}

/** Reports each but the first of the keys of a mapping that may not stand there together. */
export function reportExclusive(owner: Node | undefined, keys: readonly string[], findings: Findings): void {
  const [first, ...later] = keys.flatMap((key) => entryOf(owner, key) ?? []).toSorted(byPosition);
  for (const { key, key_mark } of later) {
    findings.report('C4009', key_mark, `${keyName(key)} and ${keyName(first!.key)} exclude each other`, {
      help: 'keep one of them',
    });
  }
}
