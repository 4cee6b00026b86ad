import { type FSWatcher, watch } from 'node:fs';
import type { Clock, Log, Timer } from '../contract/services.ts';

/** Directories under watch. */
export interface DirectoryWatch {
  /** Looks again soon, as after an event. */
  look(): void;
  close(): void;
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
}): DirectoryWatch {
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
    look,
    close() {
      closed = true;
      timer?.close();
      for (const watcher of watchers) watcher.close();
    },
  };
}
