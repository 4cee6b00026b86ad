import { type Dirent, readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Findings } from './findings.ts';
import { reportUnreadable } from './read-text.ts';

/** Most files and directories that are looked at below one directory: more means that it is the wrong one. */
const MAX_ENTRIES = 100_000;

/** Whether a file name ends like configuration. */
function isYaml(name: string): boolean {
  return /\.ya?ml$/.test(name);
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

/** YAML files below a directory, in the order of their names; symbolic links are followed, hidden directories are not. */
class Search {
  private readonly findings: Findings;
  private readonly seen = new Set<string>();
  private left = MAX_ENTRIES;

  constructor(findings: Findings) {
    this.findings = findings;
  }

  get is_over(): boolean {
    return this.left <= 0;
  }

  below(directory: string): string[] {
    const real = realpathSync(directory);
    // A link back up would never end.
    if (this.seen.has(real)) return [];
    this.seen.add(real);
    const found: string[] = [];
    for (const entry of this.entries(directory)) {
      if (this.is_over) break;
      this.left -= 1;
      found.push(...this.at(join(directory, entry.name), entry));
    }
    return found;
  }

  private at(path: string, entry: Dirent): string[] {
    const target = entry.isSymbolicLink() ? statOf(path) : entry;
    const is_hidden = /^\.|^node_modules$/.test(entry.name);
    if (target?.isDirectory() === true) return is_hidden ? [] : this.below(path);
    // A link to nothing is reported when it is read.
    const is_readable = target === undefined || target.isFile();
    return is_readable && isYaml(entry.name) ? [path] : [];
  }

  private entries(directory: string): Dirent[] {
    try {
      return readdirSync(directory, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    } catch (error) {
      reportUnreadable(directory, error as NodeJS.ErrnoException, this.findings);
      return [];
    }
  }
}

/** The files that a path stands for: itself, or the YAML files below it. Reports a directory that is too large to search. */
export function filesAt(path: string, findings: Findings): string[] {
  if (statOf(path)?.isDirectory() !== true) return [path];
  const search = new Search(findings);
  const files = search.below(path);
  if (!search.is_over) return files;
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
