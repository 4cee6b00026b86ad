import { type Dirent, readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Findings } from './findings.ts';
import { reportUnreadable } from './read-text.ts';

/** Most files and directories that are looked at below one directory: more means that it is the wrong one. */
const MAX_ENTRIES = 100_000;

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

function entriesIn(directory: string, findings: Findings): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    reportUnreadable(directory, error as NodeJS.ErrnoException, findings);
    return [];
  }
}

/**
 * The files that a path stands for: itself, or the YAML files below it in the order of their names; symbolic links are
 * followed, hidden directories are not. Reports a directory that is too large to search.
 */
export function filesAt(path: string, findings: Findings): string[] {
  if (statOf(path)?.isDirectory() !== true) return [path];
  const found: string[] = [];
  const seen = new Set<string>();
  let left = MAX_ENTRIES;
  const search = (directory: string): void => {
    const real = realpathSync(directory);
    // A link back up would never end.
    if (seen.has(real)) return;
    seen.add(real);
    for (const entry of entriesIn(directory, findings)) {
      left -= 1;
      if (left < 0) return;
      const file = join(directory, entry.name);
      const target = entry.isSymbolicLink() ? statOf(file) : entry;
      if (target?.isDirectory() === true) {
        if (!/^\.|^node_modules$/.test(entry.name)) search(file);
      } else if (/\.ya?ml$/.test(entry.name) && (target === undefined || target.isFile())) {
        // A link to nothing is reported when it is read.
        found.push(file);
      }
    }
  };
  search(path);
  if (left >= 0) return found;
  findings.report('C1018', { file: path }, `the directory holds more than ${MAX_ENTRIES} files and directories`, {
    help: 'name the directory of the configuration',
  });
  return [];
}

/** The YAML files in a directory that are no tests, sorted. Throws when it cannot be read. */
export function filesIn(directory: string): string[] {
  // Hidden files are an editor's: Emacs keeps a link to nowhere as ".#messages.yaml".
  const names = readdirSync(directory).filter((name) => /^[^.].*\.ya?ml$/.test(name) && !/\.test\.ya?ml$/.test(name));
  return names.toSorted().map((name) => join(directory, name));
}

/** Names of what stands beside a path, or of the directories there; none where that cannot be read. */
export function namesBeside(path: string, kind: 'all' | 'directories'): string[] {
  try {
    const entries = readdirSync(dirname(path), { withFileTypes: true });
    return entries.filter((entry) => kind === 'all' || entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}
