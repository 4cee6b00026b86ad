import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { oneOf } from '../kit/text/suggest.ts';
import { keyName, quote } from '../source/describe.ts';
import type { Findings } from '../source/findings.ts';
import { childOf, entriesOf, type MapNode, type Node, scalarsOf, textOf } from '../source/node.ts';
import { placeholder, placeholdersIn } from '../source/placeholders.ts';
import { readSource } from '../source/read-source.ts';
import { FRAGMENT_SCHEMA } from '../source/schemas.ts';
import { validate } from '../source/validate.ts';
import { rulesIn } from './fragment-rules.ts';

/** A fragment file that was read and has the right keys. */
export interface Fragment {
  readonly name: string;
  readonly file: string;
  readonly root: MapNode;
}

/** The fragments a pipeline can use. */
export interface FragmentLibrary {
  /** The fragment that a `use:` value names; `undefined` after reporting why there is none. */
  find(use: Node): Fragment | undefined;
}

const NAME = /^fragments\/([a-z0-9]+(?:[-_/][a-z0-9]+)*)$/;

function namesIn(directory: string): string[] {
  const fragments = join(directory, 'fragments');
  if (!existsSync(fragments)) return [];
  return readdirSync(fragments)
    .filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml'))
    .map((name) => `fragments/${name.slice(0, -'.yaml'.length)}`);
}

function checkName(root: MapNode, file: string, findings: Findings): void {
  const written = childOf(root, 'fragment');
  const expected = basename(file).replace(/\.ya?ml$/, '');
  if (written === undefined || textOf(written) === expected) return;
  findings.report('C2010', written.mark, `the fragment is called ${quote(textOf(written) ?? '')}, its file is not`, {
    expected,
    help: 'rename one of them: pipelines use a fragment by the name of its file',
  });
}

/** Reports parameters that no placeholder stands for, at what was meant to be one where there is such a text. */
function reportUnused(root: MapNode, findings: Findings): void {
  const scalars = ['stages', 'rules'].flatMap((key) => scalarsOf(childOf(root, key) ?? root));
  const used = new Set(scalars.flatMap(({ value }) => placeholdersIn(String(value))));
  for (const { key, key_mark } of entriesOf(childOf(root, 'parameters'))) {
    if (used.has(key)) continue;
    const half = scalars.find(({ value }) => String(value).replaceAll(' ', '').includes(`{${key}}`));
    findings.report('W7030', half?.mark ?? key_mark, `no placeholder stands for the parameter ${keyName(key)}`, {
      help: `${half === undefined ? 'remove it, or use it' : 'a placeholder is written'}: ${placeholder(key)}`,
    });
  }
}

/** Reads and checks one fragment file by itself. */
export function readFragment(file: string, name: string, findings: Findings): Fragment | undefined {
  const root = readSource(file, findings);
  if (root === undefined || !validate(FRAGMENT_SCHEMA, root, dirname(file), findings).ok) return undefined;
  checkName(root, file, findings);
  reportUnused(root, findings);
  reportUnusedRules(root, findings);
  return { name, file, root };
}

/** Reports named rules that no condition of the fragment refers to. */
function reportUnusedRules(root: MapNode, findings: Findings): void {
  const parts = entriesOf(root).filter(({ key }) => key === 'stages' || key === 'rules');
  const used = new Set(parts.flatMap(({ value }) => rulesIn(value)));
  for (const { key, key_mark } of entriesOf(childOf(root, 'rules'))) {
    if (used.has(key)) continue;
    findings.report('W7008', key_mark, `nothing refers to the rule ${keyName(key)}`, {
      help: `remove it, or refer to it: when: { rule: ${key} }`,
    });
  }
}

/** The name somebody probably meant who wrote a path. */
function meantBy(text: string): string | undefined {
  const meant = `fragments/${basename(text).replace(/\.ya?ml$/, '')}`;
  return NAME.test(meant) ? `did you mean \`${meant}\`?` : undefined;
}

/** @param directories where `fragments/` is looked for, in order. */
export function createFragmentLibrary(directories: readonly string[], findings: Findings): FragmentLibrary {
  const read = new Map<string, Fragment | undefined>();
  return {
    find(use) {
      const name = textOf(use);
      // Whatever is no text is reported by validation.
      if (name === undefined) return undefined;
      if (!NAME.test(name)) {
        findings.report('C2009', use.mark, 'this does not name a fragment', {
          expected: 'fragments/<name>, without an ending',
          help: meantBy(name),
        });
        return undefined;
      }
      const file = directories.map((directory) => join(directory, `${name}.yaml`)).find((path) => existsSync(path));
      if (file === undefined) {
        const known = [...new Set(directories.flatMap(namesIn))];
        findings.report('C2001', use.mark, `there is no fragment ${keyName(name)}`, {
          help: oneOf(name, known, 'fragments'),
        });
        return undefined;
      }
      if (!read.has(file)) read.set(file, readFragment(file, name, findings));
      return read.get(file);
    },
  };
}
