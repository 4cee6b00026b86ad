import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Directories of golden files, the simpler inputs first. */
const GOLDENS = ['diagnostics', 'check'].map((name) => join(import.meta.dirname, '..', '..', 'test', 'golden', name));

/** What `check` prints for one mistake of each code, by code: the first golden file that has it. */
export function printedDiagnostics(): Readonly<Record<string, string>> {
  const printed: Record<string, string> = {};
  for (const directory of GOLDENS) {
    for (const name of readdirSync(directory).toSorted()) {
      if (!name.endsWith('.txt')) continue;
      const [, said = ''] = readFileSync(join(directory, name), 'utf8').split(/^-{80}\n/m);
      const [found, code] = /^(?:error|warning)\[(\w+)\]/m.exec(said) ?? [];
      // A finding ends at an empty line; after it `check` counts them.
      if (code !== undefined) printed[code] ??= said.slice(said.indexOf(found!)).split('\n\n')[0]!.trimEnd();
    }
  }
  return Object.fromEntries(Object.entries(printed).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
