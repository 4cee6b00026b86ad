import { closeSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import type { Log } from '../../base/contract/services.ts';
import { currentStageId } from '../../base/kit/unhandled-errors.ts';
import { asError } from '../../pipeline/run/contained/result.ts';

export interface ShutdownStep {
  readonly name: string;
  readonly seconds: number;
  close(): Promise<void>;
}

/** Runs the shutdown sequence in order; logs a step that fails or times out, and continues. */
export async function runShutdown(steps: readonly ShutdownStep[], log: Log): Promise<void> {
  for (const step of steps) {
    const timeout = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => timeout.reject(new Error(`not closed after ${step.seconds} s`)),
      step.seconds * 1000,
    );
    try {
      await Promise.race([step.close(), timeout.promise]);
    } catch (err) {
      log.error({ err, part: step.name }, 'a part of the gateway did not close');
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A process that runs until a signal. */
export interface Closable {
  close(signal?: NodeJS.Signals): Promise<void>;
  /** Handles SIGHUP; absent: SIGHUP stops the process like the other signals. Never rejects. */
  reload?(): Promise<void>;
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** A second signal within this time is a duplicate: Ctrl-C reaches the whole process group, and npm forwards it. */
const SAME_SIGNAL_MS = 500;
const LEFTOVER_MS = 500;

function canOpen(path: string): boolean {
  try {
    closeSync(openSync(path, 'r'));
    return true;
  } catch {
    return false;
  }
}

/** Whether the controlling terminal has closed. Windows sends SIGHUP only for a closed window. */
function watchTerminal(): () => boolean {
  if (process.platform === 'win32') return () => true;
  // Not standard input: nohup leaves it a terminal on some systems.
  const had_terminal = (isatty(1) || isatty(2)) && canOpen('/dev/tty');
  return () => had_terminal && !canOpen('/dev/tty');
}

/**
 * Runs until SIGINT or SIGTERM, then closes. A second signal exits at once. SIGHUP reloads, or stops if it cannot or the terminal has
 * closed. An unhandled error stops the process, unless a custom stage raised it. @returns exit code: 0, or 1 after such an error
 */
export async function runUntilSignal(
  start: () => Promise<Closable>,
  log: Log,
  terminalGone = watchTerminal(),
): Promise<number> {
  const stop = Promise.withResolvers<number>();
  let running: Closable | undefined;
  let reload_wanted = false;
  let first_at: number | undefined;
  let stop_signal: NodeJS.Signals | undefined;
  const onHangup = (signal: NodeJS.Signals) => {
    if (terminalGone() || (running !== undefined && running.reload === undefined)) onSignal(signal);
    else if (running === undefined) reload_wanted = true;
    else void running.reload?.();
  };
  let is_stopped = false;
  const onSignal = (signal: NodeJS.Signals) => {
    // Keeps a listener: a late duplicate would kill the process, which is about to exit with its own code.
    if (is_stopped) return;
    if (first_at !== undefined && performance.now() - first_at > SAME_SIGNAL_MS) {
      process.exit(128 + constants.signals[signal]);
    }
    if (first_at === undefined) log.info({ signal }, 'stopping; a second signal stops at once');
    first_at ??= performance.now();
    stop_signal ??= signal;
    stop.resolve(0);
  };
  const onCrash = (err: unknown) => {
    const stage = currentStageId();
    if (stage !== undefined) {
      log.error({ err: asError(err), stage }, 'a stage failed in the background');
      return;
    }
    log.error({ err }, 'unhandled error; stopping');
    stop.resolve(1);
  };
  const others = { SIGHUP: onHangup, uncaughtException: onCrash, unhandledRejection: onCrash };
  for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  for (const [event, listener] of Object.entries(others)) process.on(event, listener);
  try {
    running = await start();
    if (reload_wanted) onHangup('SIGHUP');
    const exit_code = await stop.promise;
    await running.close(stop_signal);
    is_stopped = true;
    log.info({}, 'stopped');
    // Exit even if something keeps the process alive.
    setTimeout(() => process.exit(exit_code), LEFTOVER_MS).unref();
    return exit_code;
  } finally {
    if (!is_stopped) for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
    for (const [event, listener] of Object.entries(others)) process.off(event, listener);
  }
}
