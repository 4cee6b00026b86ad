import { closeSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import type { Log } from '../../base/contract/services.ts';
import { strayStage } from '../../base/kit/strays.ts';
import { asError } from '../../pipeline/run/contained/result.ts';

/** One thing to close, and how long that may take. */
export interface ClosingStep {
  readonly name: string;
  readonly seconds: number;
  close(): Promise<void>;
}

/** Closes one after the other; a step that fails or takes too long is logged and doesn't keep the others from closing. */
export async function closeInTurn(steps: readonly ClosingStep[], log: Log): Promise<void> {
  for (const step of steps) {
    const patience = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => patience.reject(new Error(`not closed after ${step.seconds} s`)),
      step.seconds * 1000,
    );
    try {
      await Promise.race([step.close(), patience.promise]);
    } catch (err) {
      log.error({ err, part: step.name }, 'a part of the gateway did not close');
    } finally {
      clearTimeout(timer);
    }
  }
}

/** What runs until a signal ends it. */
export interface Closable {
  close(signal?: NodeJS.Signals): Promise<void>;
  /** What SIGHUP asks for; without it SIGHUP ends what runs, like the other signals. Never rejects. */
  reload?(): Promise<void>;
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/**
 * A signal this soon after the first is the same one: a terminal gives Ctrl-C to the whole process group, and npm and the
 * launcher pass theirs on as well.
 */
const SAME_SIGNAL_MS = 500;
/** How long what was not closed may outlive what was. */
const LEFTOVER_MS = 500;

function canOpen(path: string): boolean {
  try {
    closeSync(openSync(path, 'r'));
    return true;
  } catch {
    return false;
  }
}

/**
 * Tells, whenever asked, whether the terminal this process was started from has gone; a process that was started without
 * one has none to lose. Windows sends SIGHUP for a window that closes and for nothing else.
 */
function watchTerminal(): () => boolean {
  if (process.platform === 'win32') return () => true;
  // Not standard input: nohup leaves it a terminal on some systems.
  const had_terminal = (isatty(1) || isatty(2)) && canOpen('/dev/tty');
  return () => had_terminal && !canOpen('/dev/tty');
}

/**
 * Starts something, waits for the first SIGINT or SIGTERM, closes it. A second signal ends the process at once. SIGHUP
 * reloads it, unless it can't be reloaded or its terminal has gone: then it counts as one of the others.
 * An exception nobody caught is logged and closes it as well, unless it comes from a stage of the operator's own.
 * @returns the exit code: 0, or 1 after such an exception. Raises what `start` raises.
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
  let asked_by: NodeJS.Signals | undefined;
  const onHangup = (signal: NodeJS.Signals) => {
    if (terminalGone() || (running !== undefined && running.reload === undefined)) onSignal(signal);
    else if (running === undefined) reload_wanted = true;
    else void running.reload?.();
  };
  let is_stopped = false;
  const onSignal = (signal: NodeJS.Signals) => {
    // Without a listener, one that comes again after all is closed would kill the process, which is about to end well.
    if (is_stopped) return;
    if (first_at !== undefined && performance.now() - first_at > SAME_SIGNAL_MS) {
      process.exit(128 + constants.signals[signal]);
    }
    if (first_at === undefined) log.info({ signal }, 'stopping; a second signal stops at once');
    first_at ??= performance.now();
    asked_by ??= signal;
    stop.resolve(0);
  };
  const onCrash = (err: unknown) => {
    const stage = strayStage();
    if (stage !== undefined) {
      log.error({ err: asError(err), stage }, 'a stage failed in something it left running');
      return;
    }
    log.error({ err }, 'an unexpected error; stopping');
    stop.resolve(1);
  };
  for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  process.on('SIGHUP', onHangup);
  process.on('uncaughtException', onCrash);
  process.on('unhandledRejection', onCrash);
  try {
    running = await start();
    // One that came too early.
    if (reload_wanted) onHangup('SIGHUP');
    const exit_code = await stop.promise;
    await running.close(asked_by);
    is_stopped = true;
    log.info({}, 'stopped');
    // Should anything be left that keeps the process alive, it ends all the same.
    setTimeout(() => process.exit(exit_code), LEFTOVER_MS).unref();
    return exit_code;
  } finally {
    if (!is_stopped) for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
    process.off('SIGHUP', onHangup);
    process.off('uncaughtException', onCrash);
    process.off('unhandledRejection', onCrash);
  }
}
