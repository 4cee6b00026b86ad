import { BrokenFile } from '../client-files/broken-file.ts';
import type { FileChange } from '../client-files/user-file.ts';
import { StartError } from '../contract/start-error.ts';
import { PRIVATE_FILE } from '../kit/files/user-files.ts';
import { isKeyAnywhere } from './clients/credential-text.ts';
import type { Desk } from './desk.ts';
import type { Diagnosis, Fix } from './diagnosis.ts';

const OTHERS = 0o077;

/** What would put a desk right. */
export interface ComposedFixes {
  /** A change for each file that is not as it should be. */
  readonly changes: readonly FileChange[];
  /** What must not be shown of them. */
  readonly hides: readonly string[];
  /** Why a file can't be changed, with its path. */
  readonly failures: readonly string[];
}

/** Makes one change of each file out of all fixes for it, in their order. A file that can't be changed stays as it is, as a whole. */
export function composeFixes(
  desk: Pick<Desk, 'read' | 'rights'>,
  diagnoses: readonly Pick<Diagnosis, 'fixes'>[],
): ComposedFixes {
  const fixes = diagnoses.flatMap((diagnosis) => diagnosis.fixes ?? []);
  const paths = [...new Set(fixes.map(({ path }) => path))];
  const failures: string[] = [];
  const changes = paths.flatMap((path) => {
    try {
      return (
        changeOf(
          desk,
          path,
          fixes.filter((fix) => fix.path === path),
        ) ?? []
      );
    } catch (error) {
      failures.push(reasonOf(error, path));
      return [];
    }
  });
  const texts = changes.flatMap(({ before = '', after = '' }) => [before, after]);
  return { changes, hides: [...fixes.flatMap(({ hides = [] }) => hides), ...texts.flatMap(keysIn)], failures };
}

/** Why a file stays as it is. */
function reasonOf(error: unknown, path: string): string {
  if (error instanceof BrokenFile) return `${path}: ${error.message}`;
  if (error instanceof StartError) return error.message;
  if (error instanceof RangeError) return `${path}: it is nested too deeply to be changed; mend it by hand`;
  throw error;
}

function changeOf(desk: Pick<Desk, 'read' | 'rights'>, path: string, fixes: readonly Fix[]): FileChange | undefined {
  const before = desk.read(path);
  const after = fixes.reduce((text, fix) => fix.change(text), before);
  const secret = fixes.some((fix) => fix.secret);
  const is_open = secret && after !== undefined && ((desk.rights(path) ?? 0) & OTHERS) !== 0;
  return after === before && !is_open ? undefined : { path, before, after, secret };
}

/** Texts in quotes that can be nothing but keys, wherever somebody put them. */
function keysIn(text: string): string[] {
  return [...text.matchAll(/"([^"\n]{8,})"|'([^'\n]{8,})'/g)].map(([, a, b]) => a ?? b!).filter(isKeyAnywhere);
}

/** What is mended may show what was hidden behind it; more often than this it is not. */
const ROUNDS_MAX = 5;

/**
 * Like `composeFixes`, and looks again at the files as they would be, until there is nothing more to mend: so that what is
 * offered once is all there is.
 */
export function composeAllFixes(
  desk: Pick<Desk, 'read' | 'rights'>,
  diagnoses: readonly Pick<Diagnosis, 'fixes'>[],
  lookAgain: (files: Pick<Desk, 'read' | 'rights'>) => readonly Pick<Diagnosis, 'fixes'>[],
): ComposedFixes {
  let all = composeFixes(desk, diagnoses);
  for (let round = 1; round < ROUNDS_MAX; round += 1) {
    const mended = deskAfter(desk, all.changes);
    const more = composeFixes(mended, lookAgain(mended));
    if (more.changes.length === 0) break;
    all = {
      changes: joined(desk, [...all.changes, ...more.changes]),
      hides: [...all.hides, ...more.hides],
      failures: [...new Set([...all.failures, ...more.failures])],
    };
  }
  return all;
}

/** The files of a desk as they would be. */
function deskAfter(desk: Pick<Desk, 'read' | 'rights'>, changes: readonly FileChange[]): Pick<Desk, 'read' | 'rights'> {
  const changed = new Map(changes.map((change) => [change.path, change]));
  return {
    read(path) {
      const change = changed.get(path);
      return change === undefined ? desk.read(path) : change.after;
    },
    rights(path) {
      const change = changed.get(path);
      if (change === undefined || change.after === undefined)
        return change === undefined ? desk.rights(path) : undefined;
      return change.secret || change.before === undefined ? PRIVATE_FILE : desk.rights(path);
    },
  };
}

/** One change of each file, from what it is to what it is in the end. */
function joined(desk: Pick<Desk, 'read'>, changes: readonly FileChange[]): FileChange[] {
  const by_path = Map.groupBy(changes, ({ path }) => path);
  return [...by_path].map(([path, own]) => ({
    path,
    before: desk.read(path),
    after: own.at(-1)!.after,
    secret: own.some(({ secret }) => secret),
  }));
}
