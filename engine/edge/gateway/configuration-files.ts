import { createHash } from 'node:crypto';
import { existsSync, type FSWatcher, readFileSync, readlinkSync, statSync, watch } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { Clock, Log, Timer } from '../../base/contract/services.ts';
import type { Loaded } from '../../base/source/spec.ts';
import { pipelineFiles, SHIPPED_PIPELINES } from '../../pipeline/load/pipelines.ts';

export type ConfigurationParts = Pick<Loaded, 'files' | 'pipelines_directory'> &
  Partial<Pick<Loaded, 'policies_directory'>> & { readonly secret_files?: readonly string[] | undefined };

/** Digests of files by absolute path, or `missing`. */
type Digests = ReadonlyMap<string, string>;

function directories({ pipelines_directory: own, policies_directory: policies }: ConfigurationParts): string[] {
  const pipelines = own === undefined ? [] : [own, join(own, 'fragments')];
  return policies === undefined ? pipelines : [...pipelines, policies];
}

/** Own files and secret files. Shipped files change only with an upgrade, which needs a restart. */
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
    // Reading a pipe again could block forever.
    if (!statSync(file).isFile()) return 'no file';
    return createHash('sha256').update(readFileSync(file)).digest('base64');
  } catch {
    return 'missing';
  }
}

/** Digests of all files of a configuration, including new files in its directories. */
export function digestFiles(parts: ConfigurationParts): Digests {
  return new Map(ownFiles(parts).map((file) => [file, digestOf(file)]));
}

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

/** Directories to watch: of files, of links in a path and their targets; of a missing one, its nearest existing parent. */
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

/** Debounce interval: editors write a file in several steps. */
const QUIET_MS = 100;
/** Longest debounce, for directories with constant writes. */
const DEBOUNCE_MAX_MS = 1000;

/**
 * Watches directories, as files may be replaced, and calls `onQuiet` after a debounced event.
 * @param options.directories called at the start and before each `onQuiet`
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

  /** Opens new watchers: a watcher stays on its directory even if another one takes its name. */
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
        log.warn({ directory, code }, 'cannot watch this directory; send SIGHUP after changes in it');
      }
      return undefined;
    }
  }

  function look(): void {
    if (closed) return;
    if (timer === undefined) {
      first_event_at = clock.monotonic();
      timer = clock.after(QUIET_MS, settle);
    } else if (clock.monotonic() - first_event_at < DEBOUNCE_MAX_MS) {
      timer.refresh();
    }
  }

  function settle(): void {
    timer = undefined;
    // Before the caller reads the files, so that no change is missed.
    open();
    onQuiet();
  }

  open();
  return {
    /** Checks again soon, as after an event. */
    look,
    close(): void {
      closed = true;
      timer?.close();
      for (const watcher of watchers) watcher.close();
    },
  };
}

export type DirectoryWatch = ReturnType<typeof watchDirectories>;
