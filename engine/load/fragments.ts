import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { didYouMean, listed } from '../diagnostics/suggest.ts';
import { keyName } from './describe.ts';
import type { Findings } from './findings.ts';
import { type MapNode, type Node, textOf } from './node.ts';
import { FRAGMENT_SCHEMA } from './schemas.ts';
import { readSource } from './source.ts';
import { validate } from './validate.ts';

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

/** Reads and checks one fragment file by itself. */
export function readFragment(file: string, name: string, findings: Findings): Fragment | undefined {
  const root = readSource(file, findings);
  if (root === undefined || !validate(FRAGMENT_SCHEMA, root, dirname(file), findings).ok) return undefined;
  return { name, file, root };
}

/** @param directories where `fragments/` is looked for, in order. */
export function createFragmentLibrary(directories: readonly string[], findings: Findings): FragmentLibrary {
  const read = new Map<string, Fragment | undefined>();
  return {
    find(use) {
      const name = textOf(use);
      if (name === undefined || !NAME.test(name)) {
        findings.report('C2009', use.mark, 'this does not name a fragment', {
          expected: 'fragments/<name>, without an ending',
        });
        return undefined;
      }
      const file = directories.map((directory) => join(directory, `${name}.yaml`)).find((path) => existsSync(path));
      if (file === undefined) {
        const known = [...new Set(directories.flatMap(namesIn))];
        const none = known.length === 0 ? 'there are no fragments' : `fragments: ${listed(known)}`;
        findings.report('C2001', use.mark, `there is no fragment ${keyName(name)}`, {
          help: didYouMean(name, known, none) ?? none,
        });
        return undefined;
      }
      if (!read.has(file)) read.set(file, readFragment(file, name, findings));
      return read.get(file);
    },
  };
}
