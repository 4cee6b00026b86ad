import { basename } from 'node:path';
import { secretKeys } from '../../../base/kit/secret-names.ts';
import { oneOf } from '../../../base/kit/text/suggest.ts';
import type { Findings } from '../../../base/source/findings.ts';
import {
  childOf,
  type Entry,
  entryOf,
  itemsOf,
  keyName,
  type Mark,
  type Node,
  quote,
  scalarsAt,
  textOf,
} from '../../../base/source/node.ts';

/** A string, and where it is written. */
export interface Written {
  readonly node: Node;
  readonly text: string;
  readonly mark: Mark;
}

/** The strings at a path such as `upstreams.*.base_url`, where `*` is each item of a list. */
export function textsAt(root: Node | undefined, path: string): readonly Written[] {
  return scalarsAt(root, path.split('.')).flatMap((node) => {
    const text = textOf(node);
    return text === undefined ? [] : [{ node, text, mark: node.mark }];
  });
}

/** The items of the list at a dotted path; none where there is no list. */
export const itemsAt = (root: Node | undefined, path: string): readonly Node[] =>
  itemsOf(childOf(root, ...path.split('.')));

/** Reports an unknown name. @param many the plural of `what` */
export function reportUnknown(
  { text, mark }: Pick<Written, 'text' | 'mark'>,
  what: string,
  known: readonly string[],
  findings: Findings,
  many = `${what}s`,
): void {
  if (known.includes(text)) return;
  findings.report('C4004', mark, `there is no ${what} ${quote(text)}`, { help: oneOf(text, known, many) });
}

/** Items whose name an earlier one has, each with the first of that name. */
export function repeated<T>(
  items: readonly T[],
  nameOf: (item: T) => string | undefined,
): readonly (readonly [later: T, first: T])[] {
  const named = items.filter((item) => nameOf(item) !== undefined);
  const groups = Map.groupBy(named, nameOf).values();
  return [...groups].flatMap(([first, ...later]) => later.map((item) => [item, first!] as const));
}

/** The name of a YAML file without its extension. */
export const nameOf = (file: string): string => basename(file).replace(/\.ya?ml$/, '');

/** Reports a fragment or policy whose file has another name. */
export function reportOtherName(what: string, node: Node | undefined, file: string, findings: Findings): void {
  const name = textOf(node);
  if (node === undefined || name === undefined || name === nameOf(file)) return;
  findings.report('C2010', node.mark, `the ${what} ${quote(name)} is in ${basename(file)}`, {
    help: `rename the file or the ${what}: the names must match, case included`,
  });
}

/** A place for people, seen from another. */
export const placeOf = ({ file, line }: Mark, from: Mark): string =>
  file === from.file ? `in line ${line}` : `in ${basename(file)}:${line}`;

/** Reports names that occur twice. @param what a plural */
export function reportRepeated(
  what: string,
  names: readonly Pick<Written, 'text' | 'mark'>[],
  findings: Findings,
): void {
  for (const [{ text, mark }, first] of repeated(names, (name) => name.text)) {
    const help = `remove or rename one of the two: the other is ${placeOf(first.mark, mark)}`;
    findings.report('C4005', mark, `there are two ${what} named ${quote(text)}`, { help });
  }
}

const byPosition = (a: Entry, b: Entry) => a.key_mark.line - b.key_mark.line || a.key_mark.column - b.key_mark.column;

/** The entry of a mapping that names a secret: a variable under `env_key`, or a file under its `_file` counterpart. */
export function secretEntryOf(owner: Node | undefined, env_key: string): Entry | undefined {
  const [variable, file] = secretKeys(env_key);
  return entryOf(owner, variable) ?? entryOf(owner, file);
}

/** `reportExclusive` for secrets, in variables or in files. */
export function reportExclusiveSecrets(owner: Node | undefined, env_keys: readonly string[], findings: Findings): void {
  const written = env_keys.flatMap((env_key) => secretEntryOf(owner, env_key)?.key ?? []);
  reportExclusive(owner, written, findings);
}

/** Reports mutually exclusive keys of a mapping, all but the first. */
export function reportExclusive(owner: Node | undefined, keys: readonly string[], findings: Findings): void {
  const [first, ...later] = keys.flatMap((key) => entryOf(owner, key) ?? []).toSorted(byPosition);
  for (const { key, key_mark } of later) {
    findings.report('C4009', key_mark, `${keyName(key)} and ${keyName(first!.key)} exclude each other`, {
      help: 'keep one of them',
    });
  }
}
