import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { pipelineFiles, SHIPPED_PIPELINES } from '../load/pipelines.ts';
import type { Loaded } from '../source/spec.ts';

/** What a configuration was, or would be, read from. */
export type ConfigurationParts = Pick<Loaded, 'files' | 'pipelines_directory'> &
  Partial<Pick<Loaded, 'policies_directory'>> & { readonly secret_files?: readonly string[] | undefined };

/** Files by absolute path, each with a digest of its content or `missing`. */
export type Digests = ReadonlyMap<string, string>;

/** Where the operator's pipelines, their fragments and policies are looked for. */
function directories({ pipelines_directory: own, policies_directory: policies }: ConfigurationParts): string[] {
  const pipelines = own === undefined ? [] : [own, join(own, 'fragments')];
  return policies === undefined ? pipelines : [...pipelines, policies];
}

/** The operator's own files, and those with secrets. What ships with the gateway changes by an upgrade, which needs a restart. */
function ownFiles(parts: ConfigurationParts): string[] {
  const shipped = SHIPPED_PIPELINES + sep;
  const all = [
    ...parts.files.filter((file) => !file.startsWith(shipped)),
    ...(parts.secret_files ?? []),
    ...directories(parts).flatMap(pipelineFiles),
  ];
  return [...new Set(all)];
}

function digestOf(file: string): string {
  try {
    // A pipe can be read once, and reading it again could wait for ever.
    if (!statSync(file).isFile()) return 'no file';
    return createHash('sha256').update(readFileSync(file)).digest('base64');
  } catch {
    return 'missing';
  }
}

/** What the files of a configuration hold now, those that a new one would find in its directories included. */
export function digestFiles(parts: ConfigurationParts): Digests {
  return new Map(ownFiles(parts).map((file) => [file, digestOf(file)]));
}

/** Files that differ between two moments, sorted: changed, added, removed. */
export function changedFiles(before: Digests, after: Digests): string[] {
  const files = new Set([...before.keys(), ...after.keys()]);
  return [...files].filter((file) => (before.get(file) ?? 'missing') !== (after.get(file) ?? 'missing')).toSorted();
}

function linkTarget(path: string): string | undefined {
  try {
    return resolve(dirname(path), readlinkSync(path));
  } catch {
    return undefined;
  }
}

function nearestExisting(directory: string): string {
  for (let at = directory; ; at = dirname(at)) if (existsSync(at) || at === dirname(at)) return at;
}

/**
 * The directories in which a change can change the configuration: those of its files and, where a part of a path is a
 * symbolic link, that of the link and that of its target. For one that is missing, the nearest above it.
 */
export function directoriesToWatch(parts: ConfigurationParts): ReadonlySet<string> {
  const found = new Set<string>();
  const followed = new Set<string>();
  const follow = (path: string) => {
    if (followed.has(path)) return;
    followed.add(path);
    found.add(nearestExisting(dirname(path)));
    for (let at = path; at !== dirname(at); at = dirname(at)) {
      const target = linkTarget(at);
      if (target === undefined) continue;
      found.add(dirname(at));
      follow(target);
    }
  };
  for (const directory of directories(parts)) found.add(nearestExisting(directory));
  for (const path of [...ownFiles(parts), ...directories(parts)]) follow(path);
  return found;
}
