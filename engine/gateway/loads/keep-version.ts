import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, extname, relative, resolve, sep } from 'node:path';
import type { KeptFile, KeptFinding, KeptRule } from '../../audit/config-loads.ts';
import { PACKAGE_ROOT } from '../../kit/package-root.ts';
import type { Diagnostic } from '../../source/diagnostics/diagnostic.ts';
import { shownPath } from '../../source/diagnostics/render.ts';
import type { Loaded } from '../../source/spec.ts';
import { blockAround, blockEnd } from './blocks.ts';

/** A configuration as it is kept. */
export interface KeptConfiguration {
  /** 12 hexadecimal digits that stand for all of its files; `null` where none could be read. */
  readonly version: string | null;
  readonly files: readonly KeptFile[];
  readonly findings: readonly KeptFinding[];
  /** `null` where it has errors. */
  readonly rules: readonly KeptRule[] | null;
}

/** A rule with the path of its file. */
export type RuleInWords = Omit<KeptRule, 'first_line' | 'last_line'>;

/** More text than this of one file, and of all together, is not kept: nobody reads it, and each version would hold it. */
const FILE_CHARS_MAX = 262_144;
const CHARS_MAX = 4_194_304;
const FINDINGS_MAX = 100;
/** A sentence that is longer has a hostile name in it. */
const WORDS_MAX = 2000;
const DIGITS = 12;
const CODE = ['.ts', '.mts', '.js', '.mjs', '.cjs'];

/** How the path of a file is told: below the directory of gateway.yaml, or below the program, where it ships. */
export function fileNamer(config_file: string): (file: string) => string {
  const directory = dirname(resolve(config_file));
  const shipped = PACKAGE_ROOT + sep;
  return (file) => {
    const path = resolve(directory, file);
    const own = shownPath(path, directory);
    if (own !== path || !path.startsWith(shipped)) return own;
    return `appscli/${relative(PACKAGE_ROOT, path).replaceAll(sep, '/')}`;
  };
}

type KeptParts = Pick<Loaded, 'files' | 'sources' | 'of_machine'>;

/**
 * What is kept of a configuration that was loaded, or could not be. Secrets are blanked out of it, and what is of one machine:
 * replicas that differ in that alone have one version.
 */
export function keepVersion(
  config_file: string,
  loaded: KeptParts & Pick<Loaded, 'diagnostics'>,
  rules: readonly RuleInWords[] | null,
): KeptConfiguration {
  const nameOf = fileNamer(config_file);
  const files = keepFiles(loaded, nameOf);
  const is_read = files.some(({ text, digest }) => text !== null || digest !== null);
  const texts = new Map([...loaded.sources].map(([path, text]) => [nameOf(path), text.split('\n')]));
  return {
    version: is_read ? hashOf(JSON.stringify(files)) : null,
    files,
    findings: loaded.diagnostics.slice(0, FINDINGS_MAX).map((finding) => keepFinding(finding, nameOf)),
    rules:
      rules?.map(({ kind, name, mode, text, effect, file, line }) => {
        const named = nameOf(file);
        const lines = texts.get(named) ?? [];
        // The condition of a stage is a part of its entry.
        const is_part = kind === 'guard' || kind === 'on_error';
        const block = is_part ? blockAround(lines, line) : { first_line: line, last_line: blockEnd(lines, line) };
        return { kind, name, mode, text: short(text), effect: short(effect), file: named, line, ...block };
      }) ?? null,
  };
}

function keepFiles({ files, sources, of_machine }: KeptParts, nameOf: (path: string) => string) {
  let chars = 0;
  const theirs = new Set(of_machine.map(({ mark, value }) => resolve(dirname(mark.file), value)));
  const shared = files.filter((path) => sources.has(path) || !theirs.has(path));
  const kept = shared.map((path): KeptFile => {
    const name = nameOf(path);
    const text = blankMachine(path, sources.get(path), of_machine);
    if (text === undefined) return { name, text: null, digest: CODE.includes(extname(path)) ? digestOf(path) : null };
    chars += text.length;
    if (text.length > FILE_CHARS_MAX || chars > CHARS_MAX) return { name, text: null, digest: hashOf(text) };
    return { name, text, digest: null };
  });
  // The operator's own first; the order they were read in says nothing.
  const ships = ({ name }: KeptFile) => Number(name.startsWith('appscli/'));
  return kept.toSorted((a, b) => ships(a) - ships(b) || (a.name < b.name ? -1 : 1));
}

const OF_MACHINE = "<each machine's own>";

function blankMachine(path: string, text: string | undefined, of_machine: Loaded['of_machine']): string | undefined {
  const marks = of_machine.flatMap(({ mark }) => (mark.file === path ? mark : []));
  if (text === undefined || marks.length === 0) return text;
  const lines = text.split('\n');
  // From the right: several may stand on one line.
  for (const { line, column, length } of marks.toSorted((a, b) => b.column - a.column)) {
    const before = lines[line - 1] ?? '';
    lines[line - 1] = before.slice(0, column - 1) + OF_MACHINE + before.slice(column - 1 + length);
  }
  return lines.join('\n');
}

function digestOf(path: string): string | null {
  try {
    return hashOf(readFileSync(path));
  } catch {
    return null;
  }
}

function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex').slice(0, DIGITS);
}

function keepFinding(finding: Diagnostic, nameOf: (path: string) => string): KeptFinding {
  const { code, severity, message, file, line, found, expected, help } = finding;
  const words = (text: string | undefined) => (text === undefined ? null : short(text));
  return {
    code,
    severity,
    message: short(message),
    file: nameOf(file),
    line: line ?? null,
    found: words(found),
    expected: words(expected),
    help: words(help),
  };
}

function short(text: string): string {
  return text.length > WORDS_MAX ? `${text.slice(0, WORDS_MAX)}...` : text;
}
