import { createHash } from 'node:crypto';
import { existsSync, type FSWatcher, readFileSync, readlinkSync, statSync, watch } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { Clock, Log, Timer } from '../../base/contract/services.ts';
import type { Loaded } from '../../base/source/spec.ts';
import { pipelineFiles, SHIPPED_PIPELINES } from '../../pipeline/load/pipelines.ts';

/** What a configuration was, or would be, read from. */
export type ConfigurationParts = Pick<Loaded, 'files' | 'pipelines_directory'> &
  Partial<Pick<Loaded, 'policies_directory'>> & { readonly secret_files?: readonly string[] | undefined };

/** Files by absolute path, each with a digest of its content or `missing`. */
type Digests = ReadonlyMap<string, string>;

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

/** Editors write a file in several steps; they count as one when no more than this lies between them. */
const QUIET_MS = 100;
/** Longest a change waits for quiet, in a directory where something else is written all the time. */
const PATIENCE_MS = 1000;

/**
 * Watches directories, not files: a file that is replaced or removed and made anew is still found there. Calls
 * `onQuiet` when what happened in them is over; whether any of it matters is for the caller to find out.
 * @param options.directories asked at the beginning and before each call, so that they can change
 */
export function watchDirectories(options: {
  directories(): ReadonlySet<string>;
  onQuiet(): void;
  readonly clock: Clock;
  readonly log: Log;
}) {
  const { directories, onQuiet, clock, log } = options;
  const refused = new Set<string>();
  let watchers: FSWatcher[] = [];
  let timer: Timer | undefined;
  let first_event_at = 0;
  let closed = false;

  /** A watcher sticks to the directory it was opened on, even when another one has taken its name. */
  function open(): void {
    const old = watchers;
    watchers = [...directories()].flatMap((directory) => openOne(directory) ?? []);
    for (const watcher of old) watcher.close();
  }

  function openOne(directory: string): FSWatcher | undefined {
    try {
      return watch(directory, { persistent: false }, look).on('error', look);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && !refused.has(directory)) {
        refused.add(directory);
        log.warn({ directory, code }, 'this directory cannot be watched; after a change in it, send SIGHUP');
      }
      return undefined;
    }
  }

  function look(): void {
    if (closed) return;
    if (timer === undefined) {
      first_event_at = clock.monotonic();
      timer = clock.after(QUIET_MS, settle);
    } else if (clock.monotonic() - first_event_at < PATIENCE_MS) {
      timer.refresh();
    }
  }

  function settle(): void {
    timer = undefined;
    // Before the caller looks at the files, so that no change falls in between.
    open();
    onQuiet();
  }

  open();
  return {
    /** Looks again soon, as after an event. */
    look,
    close(): void {
      closed = true;
      timer?.close();
      for (const watcher of watchers) watcher.close();
    },
  };
}

/** Directories under watch. */
export type DirectoryWatch = ReturnType<typeof watchDirectories>;
