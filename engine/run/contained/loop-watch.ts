/** Names stages whose code keeps everything else in the process waiting. */
import type { Log } from '../../contract/services.ts';

/** Longest that code may run without a pause before it is named, in milliseconds. */
export const BLOCKING_MS = 200;
const TICK_MS = 50;

interface Hook {
  readonly id: string;
  /** A process may have several gateways, each with a log of its own. */
  readonly log: Log;
}

type Names = Map<Log, Set<string>>;

/** Hooks that run now. */
const running = new Set<Hook>();
/** Stages whose hooks ended since the last tick: any of them may have been it. */
const ended: Names = new Map();
/** Those whose code was seen to run too long since then. */
const blocking: Names = new Map();
let timer: NodeJS.Timeout | undefined;
let ticked_at = 0;

function note(names: Names, { id, log }: Hook): void {
  const ids = names.get(log) ?? new Set();
  names.set(log, ids.add(id));
}

function tick(): void {
  const now = performance.now();
  const late_ms = Math.round(now - ticked_at - TICK_MS);
  ticked_at = now;
  if (late_ms >= BLOCKING_MS) {
    for (const hook of running) note(ended, hook);
    for (const [log, ids] of blocking.size > 0 ? blocking : ended) {
      const fields = { stages: [...ids], blocked_ms: late_ms };
      log.warn(fields, 'code of a stage kept all requests waiting; give long work to a worker thread, or break it up');
    }
  }
  ended.clear();
  blocking.clear();
}

/**
 * Notes that a hook of a stage runs until the returned function is called. A timer that comes late tells that something has kept
 * the process from everything else meanwhile, before or after the hook has waited for something.
 * @param pauses whether it may wait for something; code that does not is known to be it by its own time.
 */
export function watchHook(id: string, log: Log, pauses: boolean): () => void {
  const began_at = performance.now();
  if (timer === undefined) {
    ticked_at = began_at;
    timer = setInterval(tick, TICK_MS).unref();
  }
  const hook = { id, log };
  running.add(hook);
  return () => {
    running.delete(hook);
    note(ended, hook);
    if (!pauses && performance.now() - began_at >= BLOCKING_MS) note(blocking, hook);
  };
}
