import { isUtf8 } from 'node:buffer';
import { type Dirent, readdirSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Findings } from './findings.ts';
import type { Mark } from './node.ts';

const MAX_FILE_BYTES = 4 * 1024 * 1024;

const NEWLINE = 0x0a;
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a directory',
  ENOENT: 'it does not exist',
  ENOTDIR: 'it is not a directory',
  ELOOP: 'its symbolic links form a cycle',
  ENAMETOOLONG: 'its name is too long',
};

/** Why an existing file or directory cannot be read. */
export function whyUnreadable({ code = 'unknown reason' }: NodeJS.ErrnoException): string {
  return REASONS[code] ?? code;
}

function reportUnreadable(file: string, error: NodeJS.ErrnoException, findings: Findings): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
    findings.report('C1001', { file }, 'the file does not exist');
  } else {
    findings.report('C1002', { file }, `the file cannot be read: ${whyUnreadable(error)}`);
  }
}

function readBytes(file: string, findings: Findings): Buffer | undefined {
  try {
    const stats = statSync(file);
    // Reading a pipe or a device may never end.
    if (!stats.isFile() && !stats.isDirectory()) {
      findings.report('C1002', { file }, 'the file cannot be read: it is a pipe, a socket or a device');
      return undefined;
    }
    if (stats.size > MAX_FILE_BYTES) {
      findings.report('C1003', { file }, `the file is too large: ${stats.size} bytes`, {
        expected: `at most ${MAX_FILE_BYTES} bytes`,
      });
      return undefined;
    }
    return readFileSync(file);
  } catch (error) {
    return reportUnreadable(file, error as NodeJS.ErrnoException, findings);
  }
}

/** Position of the first byte that is not UTF-8; `undefined` for a binary file. */
function invalidByte(file: string, bytes: Buffer): Mark | undefined {
  if (bytes.includes(0)) return undefined;
  let line = 1;
  for (let start = 0; start < bytes.length; line += 1) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline + 1;
    const text = bytes.subarray(start, end);
    if (!isUtf8(text)) {
      const column = new TextDecoder('utf-8').decode(text).indexOf('\uFFFD') + 1;
      return { file, line, column, length: 1, pointer: '' };
    }
    start = end;
  }
  return undefined;
}

/** The text of a file, without a byte order mark; `undefined` after reporting an error. */
export function readText(file: string, findings: Findings): string | undefined {
  const bytes = readBytes(file, findings);
  if (bytes === undefined) return undefined;
  const text = new TextDecoder('utf-8').decode(bytes);
  if (isUtf8(bytes)) return text;
  const position = invalidByte(file, bytes);
  if (position !== undefined) findings.read(file, text);
  findings.report('C1004', position ?? { file }, 'the file is not UTF-8 text', { help: 'save the file as UTF-8' });
  return undefined;
}

/** Control characters: invisible in editors, active in terminals. Tabs and line breaks are allowed. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it matches control characters
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** Offset of the first control character. */
export function controlCharacter(text: string): number | undefined {
  const at = text.search(CONTROL);
  return at < 0 ? undefined : at;
}

/** A character in Unicode notation: `U+0000`. */
export function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

/** Most entries searched below one directory; with more it is the wrong directory. */
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

/** The file at a path, or the YAML files below it, sorted by name. Follows links, skips hidden directories, bounds the search. */
export function filesAt(path: string, findings: Findings): string[] {
  if (statOf(path)?.isDirectory() !== true) return [path];
  const found: string[] = [];
  const seen = new Set<string>();
  let left = MAX_ENTRIES;
  const search = (directory: string): void => {
    const real = realpathSync(directory);
    // A link to a parent would never end.
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
        // A dangling link is reported when it is read.
        found.push(file);
      }
    }
  };
  search(path);
  if (left >= 0) return found;
  findings.report('C1018', { file: path }, `the directory contains more than ${MAX_ENTRIES} files and directories`, {
    help: 'name the directory of the configuration',
  });
  return [];
}

/** The YAML files of a directory except tests, sorted. Throws if it cannot be read. */
export function filesIn(directory: string): string[] {
  // Hidden files belong to editors: Emacs keeps a dangling link named ".#messages.yaml".
  const names = readdirSync(directory).filter((name) => /^[^.].*\.ya?ml$/.test(name) && !/\.test\.ya?ml$/.test(name));
  return names.toSorted().map((name) => join(directory, name));
}

/** Names of the entries beside a path, or of the directories only; empty if unreadable. */
export function namesBeside(path: string, kind: 'all' | 'directories'): string[] {
  try {
    const entries = readdirSync(dirname(path), { withFileTypes: true });
    return entries.filter((entry) => kind === 'all' || entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}
