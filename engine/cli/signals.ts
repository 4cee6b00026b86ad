import { constants } from 'node:os';
import type { Log } from '../api.ts';

/** What runs until a signal ends it. */
export interface Closable {
  close(): Promise<void>;
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * A signal this soon after the first is the same one: a terminal gives Ctrl-C to the whole process group, and npm and the
 * launcher pass theirs on as well.
 */
const SAME_SIGNAL_MS = 500;
/** How long what was not closed may outlive what was. */
const LEFTOVER_MS = 500;

/**
 * Starts something, waits for the first SIGINT, SIGTERM or SIGHUP, closes it. A second signal ends the process at once.
 * An exception nobody caught is logged and closes it as well.
 * @returns the exit code: 0, or 1 after such an exception. Raises what `start` raises.
 */
export async function runUntilSignal(start: () => Promise<Closable>, log: Log): Promise<number> {
  const stop = Promise.withResolvers<number>();
  let first_at: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (first_at !== undefined && performance.now() - first_at > SAME_SIGNAL_MS) {
      process.exit(128 + constants.signals[signal]);
    }
    if (first_at === undefined) log.info({ signal }, 'stopping; a second signal stops at once');
    first_at ??= performance.now();
    stop.resolve(0);
  };
  const onCrash = (err: unknown) => {
    log.error({ err }, 'an unexpected error; stopping');
    stop.resolve(1);
  };
  for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  process.on('uncaughtException', onCrash);
  process.on('unhandledRejection', onCrash);
  try {
    const running = await start();
    const exit_code = await stop.promise;
    await running.close();
    log.info({}, 'stopped');
    // Should anything be left that keeps the process alive, it ends all the same.
    setTimeout(() => process.exit(exit_code), LEFTOVER_MS).unref();
    return exit_code;
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
    process.off('uncaughtException', onCrash);
    process.off('unhandledRejection', onCrash);
  }
}
