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

/** Hooks that run now. */
const running = new Set<Hook>();
/** Stages whose hooks ended since the last tick, by log. */
const ended = new Map<Log, Set<string>>();
let timer: NodeJS.Timeout | undefined;
let ticked_at = 0;

function noteEnded({ id, log }: Hook): void {
  const ids = ended.get(log) ?? new Set();
  ended.set(log, ids.add(id));
}

function tick(): void {
  const now = performance.now();
  const late_ms = Math.round(now - ticked_at - TICK_MS);
  ticked_at = now;
  if (late_ms >= BLOCKING_MS) {
    for (const hook of running) noteEnded(hook);
    for (const [log, ids] of ended) {
      const fields = { stages: [...ids], blocked_ms: late_ms };
      log.warn(fields, 'code of a stage kept all requests waiting; give long work to a worker thread, or break it up');
    }
  }
  ended.clear();
}

/**
 * Notes that a hook of a stage runs until the returned function is called. A timer that comes late tells that something has kept
 * the process from everything else meanwhile, before or after the hook has waited for something.
 */
export function watchHook(id: string, log: Log): () => void {
  if (timer === undefined) {
    ticked_at = performance.now();
    timer = setInterval(tick, TICK_MS).unref();
  }
  const hook = { id, log };
  running.add(hook);
  return () => {
    running.delete(hook);
    noteEnded(hook);
  };
}
