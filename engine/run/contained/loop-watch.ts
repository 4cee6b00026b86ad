/** Names stages whose code keeps everything else in the process waiting. */
import type { Log } from '../../contract/services.ts';

/** Longest that code may run without a pause before it is named, in milliseconds. */
export const BLOCKING_MS = 200;
const TICK_MS = 50;

/** Stages whose hooks run now, and those whose hooks ended since the last tick, by id. */
const running = new Map<object, string>();
const ended = new Set<string>();
let timer: NodeJS.Timeout | undefined;
let ticked_at = 0;

function tick(log: Log): void {
  const now = performance.now();
  const late_ms = Math.round(now - ticked_at - TICK_MS);
  ticked_at = now;
  const stages = [...new Set([...running.values(), ...ended])];
  ended.clear();
  if (late_ms < BLOCKING_MS || stages.length === 0) return;
  const fields = { stages, blocked_ms: late_ms };
  log.warn(fields, 'code of a stage kept all requests waiting; give long work to a worker thread, or break it up');
}

/**
 * Notes that a hook of a stage runs until the returned function is called. A timer that comes late tells that something has kept
 * the process from everything else meanwhile, before or after the hook has waited for something.
 */
export function watchHook(id: string, log: Log): () => void {
  if (timer === undefined) {
    ticked_at = performance.now();
    timer = setInterval(() => tick(log), TICK_MS).unref();
  }
  const key = {};
  running.set(key, id);
  return () => {
    running.delete(key);
    ended.add(id);
  };
}
