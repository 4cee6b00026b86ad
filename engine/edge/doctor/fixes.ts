import { StartError } from '../../base/contract/start-error.ts';
import { BrokenFile } from '../client-files/broken-file.ts';
import type { Draft } from '../client-files/clients.ts';
import { isKeyAnywhere } from './clients/sources.ts';
import type { Diagnosis, Fix, Workstation } from './workstation.ts';

const OTHERS = 0o077;

/** Combines all fixes of a file, in their order, into one change. One fix that fails leaves its file unchanged. */
export function composeFixes(
  workstation: Pick<Workstation, 'read' | 'rights'>,
  diagnoses: readonly Pick<Diagnosis, 'fixes'>[],
) {
  const fixes = diagnoses.flatMap((diagnosis) => diagnosis.fixes ?? []);
  const paths = [...new Set(fixes.map(({ path }) => path))];
  const failures: string[] = [];
  const changes = paths.flatMap((path) => {
    try {
      const own = fixes.filter((fix) => fix.path === path);
      return changeOf(workstation, path, own) ?? [];
    } catch (error) {
      failures.push(reasonOf(error, path));
      return [];
    }
  });
  const texts = changes.flatMap(({ before = '', after }) => [before, after]);
  return { changes, hides: [...fixes.flatMap(({ hides = [] }) => hides), ...texts.flatMap(keysIn)], failures };
}

function reasonOf(error: unknown, path: string): string {
  if (error instanceof BrokenFile) return `${path}: ${error.message}`;
  if (error instanceof StartError) return error.message;
  if (error instanceof RangeError) return `${path}: nested too deeply to change automatically; edit it by hand`;
  throw error;
}

function changeOf(
  workstation: Pick<Workstation, 'read' | 'rights'>,
  path: string,
  fixes: readonly Fix[],
): Draft | undefined {
  const before = workstation.read(path);
  const after = fixes.reduce((text, fix) => fix.change(text), before ?? '');
  const secret = fixes.some((fix) => fix.secret);
  const is_open = secret && ((workstation.rights(path) ?? 0) & OTHERS) !== 0;
  return after === (before ?? '') && !is_open ? undefined : { path, before, after, secret };
}

function keysIn(text: string): string[] {
  return [...text.matchAll(/"([^"\n]{8,})"|'([^'\n]{8,})'/g)].map(([, a, b]) => a ?? b!).filter(isKeyAnywhere);
}
