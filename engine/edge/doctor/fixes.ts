import { StartError } from '../../base/contract/start-error.ts';
import { BrokenFile } from '../client-files/broken-file.ts';
import type { Draft } from '../client-files/clients.ts';
import { isKeyAnywhere } from './clients/credential-text.ts';
import type { Desk, Diagnosis, Fix } from './desk.ts';

const OTHERS = 0o077;

/** What would put a desk right. */
export interface ComposedFixes {
  /** A change for each file that is not as it should be. */
  readonly changes: readonly Draft[];
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
  const texts = changes.flatMap(({ before = '', after }) => [before, after]);
  return { changes, hides: [...fixes.flatMap(({ hides = [] }) => hides), ...texts.flatMap(keysIn)], failures };
}

/** Why a file stays as it is. */
function reasonOf(error: unknown, path: string): string {
  if (error instanceof BrokenFile) return `${path}: ${error.message}`;
  if (error instanceof StartError) return error.message;
  if (error instanceof RangeError) return `${path}: it is nested too deeply to be changed; mend it by hand`;
  throw error;
}

function changeOf(desk: Pick<Desk, 'read' | 'rights'>, path: string, fixes: readonly Fix[]): Draft | undefined {
  const before = desk.read(path);
  const after = fixes.reduce((text, fix) => fix.change(text), before ?? '');
  const secret = fixes.some((fix) => fix.secret);
  const is_open = secret && ((desk.rights(path) ?? 0) & OTHERS) !== 0;
  return after === (before ?? '') && !is_open ? undefined : { path, before, after, secret };
}

/** Texts in quotes that can be nothing but keys, wherever somebody put them. */
function keysIn(text: string): string[] {
  return [...text.matchAll(/"([^"\n]{8,})"|'([^'\n]{8,})'/g)].map(([, a, b]) => a ?? b!).filter(isKeyAnywhere);
}
