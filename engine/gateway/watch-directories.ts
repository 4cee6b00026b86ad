import { watch } from 'chokidar';
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
  const watched = new Set<string>();
  let timer: Timer | undefined;
  let first_event_at = 0;
  // What a directory holds at first is told like a change: it may have changed until its watch began.
  const watcher = watch([], { persistent: false, depth: 0, followSymlinks: false })
    .on('all', look)
    .on('unlinkDir', (directory) => watched.delete(directory))
    .on('error', (error) => {
      const { path: directory, code } = error as NodeJS.ErrnoException;
      log.warn({ directory, code }, 'this directory cannot be watched; after a change in it, send SIGHUP');
    });

  function watchNew(): void {
    for (const directory of directories()) {
      if (watched.has(directory)) continue;
      watched.add(directory);
      watcher.add(directory);
    }
  }

  function look(): void {
    if (watcher.closed) return;
    if (timer === undefined) {
      first_event_at = clock.monotonic();
      timer = clock.after(QUIET_MS, settle);
    } else if (clock.monotonic() - first_event_at < PATIENCE_MS) {
      timer.refresh();
    }
  }

  function settle(): void {
    timer = undefined;
    watchNew();
    onQuiet();
  }

  watchNew();
  return {
    look,
    close() {
      timer?.close();
      void watcher.close();
    },
  };
}
