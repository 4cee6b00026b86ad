import { join } from 'node:path';
import { type ClientNames, clientNames } from '../../engine/edge/client-files/names.ts';
import { composeFixes } from '../../engine/edge/doctor/fixes.ts';
import type { Diagnosis, Workstation } from '../../engine/edge/doctor/workstation.ts';

export const HOME = '/home/ada';
export const FOLDER = '/home/ada/project';
export const NOW = Date.parse('2026-11-23T09:00:00Z');

export interface FakeWorkstation {
  /** Texts by path; `~/` is the home directory. */
  readonly files?: Readonly<Record<string, string>>;
  /** Permission bits by path; those of other files are 600. */
  readonly rights?: Readonly<Record<string, number>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly programs?: readonly string[];
  readonly names?: ClientNames;
  readonly platform?: NodeJS.Platform;
}

const pathOf = (path: string) => (path.startsWith('~/') ? join(HOME, path.slice(2)) : path);

function byPath<T>(input: Readonly<Record<string, T>> = {}): Map<string, T> {
  return new Map(Object.entries(input).map(([path, value]) => [pathOf(path), value]));
}

export function workstationWith(input: FakeWorkstation = {}): Workstation {
  const [files, rights] = [byPath(input.files), byPath(input.rights)];
  const { env = {}, programs = [], names = clientNames(undefined), platform = 'linux' } = input;
  return {
    env: { HOME, ...env },
    platform,
    folder: FOLDER,
    names,
    read: (path) => files.get(path),
    rights: (path) => (files.has(path) && platform !== 'win32' ? (rights.get(path) ?? 0o600) : undefined),
    find: (program) => (programs.includes(program) ? `/usr/bin/${program}` : undefined),
    now: () => NOW,
  };
}

/** The same workstation after everything was mended that can be. */
export function mended(input: FakeWorkstation, diagnoses: readonly Pick<Diagnosis, 'fixes'>[]): FakeWorkstation {
  const { changes } = composeFixes(workstationWith(input), diagnoses);
  const [files, rights] = [byPath(input.files), byPath(input.rights)];
  for (const { path, after, secret } of changes) {
    files.set(path, after);
    if (secret) rights.set(path, 0o600);
  }
  return { ...input, files: Object.fromEntries(files), rights: Object.fromEntries(rights) };
}
