import { structuredPatch } from 'diff';
import type { KeptFile, KeptRule } from '../../audit/config-loads.ts';

/** How one file differs between two versions. */
export interface FileDiff {
  readonly name: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** `null` where only digests are kept, or where too much differs to be told in lines. */
  readonly hunks: readonly Hunk[] | null;
}

/** Lines that belong together: those that differ, with three around them. */
export interface Hunk {
  readonly old_line: number;
  readonly new_line: number;
  readonly lines: readonly { readonly kind: 'same' | 'removed' | 'added'; readonly text: string }[];
}

const CONTEXT_LINES = 3;
/** Two texts that have little in common take long to compare. */
const PATIENCE_MS = 250;
const LINES_MAX = 5000;

/** Files that differ, in the order of their names. */
export function diffFiles(before: readonly KeptFile[], after: readonly KeptFile[]): FileDiff[] {
  const old_files = new Map(before.map((file) => [file.name, file]));
  const new_files = new Map(after.map((file) => [file.name, file]));
  const names = [...new Set([...old_files.keys(), ...new_files.keys()])].toSorted();
  return names.flatMap((name) => {
    const [old_file, new_file] = [old_files.get(name), new_files.get(name)];
    if (old_file?.text === new_file?.text && old_file?.digest === new_file?.digest) return [];
    const change = old_file === undefined ? 'added' : new_file === undefined ? 'removed' : 'changed';
    const is_text = [old_file, new_file].every((file) => file === undefined || file.text !== null);
    return [{ name, change, hunks: is_text ? hunksOf(old_file?.text ?? '', new_file?.text ?? '') : null }];
  });
}

function hunksOf(before: string, after: string): readonly Hunk[] | null {
  const patch = structuredPatch('', '', before, after, '', '', { context: CONTEXT_LINES, timeout: PATIENCE_MS });
  if (patch === undefined) return null;
  if (patch.hunks.reduce((sum, { lines }) => sum + lines.length, 0) > LINES_MAX) return null;
  return patch.hunks.map(({ oldStart, newStart, lines }) => ({
    old_line: oldStart,
    new_line: newStart,
    lines: lines.filter((line) => !line.startsWith('\\')).map((line) => ({ kind: kindOf(line), text: line.slice(1) })),
  }));
}

function kindOf(line: string): Hunk['lines'][number]['kind'] {
  return line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : 'same';
}

/** Rules that differ between two versions, as they were and as they are: `null` for one that was not there, or is gone. */
export function diffRules(
  before: readonly KeptRule[],
  after: readonly KeptRule[],
): { readonly before: KeptRule | null; readonly after: KeptRule | null }[] {
  const keyOf = ({ kind, name }: KeptRule) => JSON.stringify([kind, name]);
  const old_rules = Map.groupBy(before, keyOf);
  const new_rules = Map.groupBy(after, keyOf);
  const keys = new Set([...old_rules.keys(), ...new_rules.keys()]);
  return [...keys].flatMap((key) => {
    const [was, is] = [old_rules.get(key) ?? [], new_rules.get(key) ?? []];
    // Several rules may have one name, such as the limits of one entry: those that are the same on both sides are left out.
    const gone = was.filter((rule) => !is.some((other) => saysTheSame(rule, other)));
    const made = is.filter((rule) => !was.some((other) => saysTheSame(rule, other)));
    const count = Math.max(gone.length, made.length);
    return Array.from({ length: count }, (_, i) => ({ before: gone[i] ?? null, after: made[i] ?? null }));
  });
}

function saysTheSame(a: KeptRule, b: KeptRule): boolean {
  return a.text === b.text && a.effect === b.effect && a.mode === b.mode;
}
