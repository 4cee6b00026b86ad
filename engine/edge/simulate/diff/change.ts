import { relative, sep } from 'node:path';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { type Fields, isFields } from '../../../base/kit/json/fields.ts';
import { secretFile, secretInFile } from '../../../base/kit/secret-names.ts';
import type { PipelineSpec, Policy } from '../../../base/source/spec.ts';

/** A configuration without errors. */
export interface Usable {
  readonly config: GatewayConfig;
  readonly pipelines: readonly PipelineSpec[];
  readonly policies: readonly Policy[];
  /** Directory of gateway.yaml, to which paths are relative. */
  readonly directory: string;
}

/** One difference between two configurations, by its effect. */
export interface Change {
  readonly section:
    | 'models'
    | 'access'
    | 'policies'
    | 'routes'
    | 'prices'
    | 'limits'
    | 'upstreams'
    | 'pipelines'
    | 'settings'
    | 'requests';
  /** Subject: `group interns`, `coder-1`, `defaults.user_daily_usd`. */
  readonly subject: string;
  readonly change: string;
  readonly details?: readonly string[];
  readonly requests?: number;
  readonly people?: readonly { readonly person: string; readonly requests: number }[];
}

/** Names in both, only in the old, and only in the new list, in order of appearance. */
export function compareNames(old_names: Iterable<string>, new_names: Iterable<string>) {
  const before = new Set(old_names);
  const after = new Set(new_names);
  return {
    kept: [...before].filter((name) => after.has(name)),
    lost: [...before].filter((name) => !after.has(name)),
    gained: [...after].filter((name) => !before.has(name)),
  };
}

/** A change from its lines, of which the first is the change and the rest are details; empty without lines. */
export function asChange(
  section: Change['section'],
  subject: string,
  [change, ...details]: readonly string[],
): Change[] {
  if (change === undefined) return [];
  return [{ section, subject, change, ...(details.length > 0 && { details }) }];
}

/** Removed, added and changed entries of named things, in this order. */
export function diffByName<T>(
  section: Change['section'],
  [before, after]: readonly [ReadonlyMap<string, T>, ReadonlyMap<string, T>],
  words: { gone(old: T): string; added(added: T): string; changed(old: T, now: T): readonly string[] },
  subject = (name: string) => name,
): Change[] {
  const { kept, lost, gained } = compareNames(before.keys(), after.keys());
  return [
    ...lost.flatMap((name) => asChange(section, subject(name), [words.gone(before.get(name)!)])),
    ...gained.flatMap((name) => asChange(section, subject(name), [words.added(after.get(name)!)])),
    ...kept.flatMap((name) => asChange(section, subject(name), words.changed(before.get(name)!, after.get(name)!))),
  ];
}

/** Removed and added entries of a list, as parts of a sentence. */
export function lossAndGain(before: readonly string[], after: readonly string[]): string[] {
  const { lost, gained } = compareNames(before, after);
  return [
    ...(lost.length === 0 ? [] : [`loses ${lost.join(', ')}`]),
    ...(gained.length === 0 ? [] : [`gains ${gained.join(', ')}`]),
  ];
}

/** Deep equality of plain values, ignoring the order of keys. */
export function isSame(a: unknown, b: unknown): boolean {
  return ordered(a) === ordered(b);
}

function ordered(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    isFields(item) ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1))) : item,
  );
}

/** Makes paths below a directory relative, so that a copy elsewhere is no difference. */
export function relativePaths(value: unknown, directory: string): unknown {
  return JSON.parse(JSON.stringify(value), (_key, item: unknown) =>
    typeof item === 'string' ? relativePath(item, directory) : item,
  );
}

function relativePath(text: string, directory: string): string {
  const file = secretFile(text);
  if (file !== undefined) return secretInFile(relativePath(file, directory));
  return text.startsWith(directory + sep) ? relative(directory, text) : text;
}

/** The innermost differing values, as `300 -> 60` with keys joined by dots; of long lists, removed and added items. */
export function compareValues(
  before: unknown,
  after: unknown,
  path = '',
): { readonly path: string; readonly change: string }[] {
  if (isFields(before) && isFields(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    // Settings may have names of Object.prototype.
    const own = (value: Fields, key: string) => (Object.hasOwn(value, key) ? value[key] : undefined);
    return [...keys].flatMap((key) =>
      compareValues(own(before, key), own(after, key), path === '' ? key : `${path}.${key}`),
    );
  }
  if (isSame(before, after)) return [];
  const change = Array.isArray(before) && Array.isArray(after) ? compareLists(before, after) : undefined;
  return [{ path, change: change ?? `${shown(before)} -> ${shown(after)}` }];
}

const FEW_ITEMS = 12;

/** Removed and added items of a long list; `undefined` for a short list, or if only the order changed. */
function compareLists(before: readonly unknown[], after: readonly unknown[]): string | undefined {
  const parts = lossAndGain(before.map(ordered), after.map(ordered));
  return before.length + after.length <= FEW_ITEMS || parts.length === 0 ? undefined : parts.join('; ');
}

/** A value in a sentence. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  // A multi-line text would look like several changes.
  return typeof value === 'string' && !/[\n\r\t]/.test(value) ? value : JSON.stringify(value);
}
