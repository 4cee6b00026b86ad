import { type ProcessUsage, resetPeakOf } from './process-usage.ts';

/** A question from the bench to one of its processes. */
export interface Ask {
  readonly ask: string;
  readonly argument?: unknown;
}

/** The response to the one outstanding query. */
export interface Reply {
  readonly value?: unknown;
  readonly error?: string;
}

function usage(): ProcessUsage {
  const { user, system } = process.cpuUsage();
  return { cpu_us: user + system, peak_rss_bytes: process.resourceUsage().maxRSS * 1024 };
}

/**
 * Makes this process a child of the bench: sends `ready`, serves queries one at a time, and ends with its parent.
 * Ctrl-C reaches every process of the group, so it is the parent alone that acts on it.
 */
export function serveParent(
  ready: unknown,
  responses: Record<string, (argument: unknown) => Promise<unknown> | unknown>,
  stop: () => Promise<void>,
): void {
  const known: typeof responses = { usage, reset_peak: () => resetPeakOf('self'), ...responses };
  const end = () => stop().finally(() => process.exit(0));
  process.on('SIGINT', () => {});
  process.on('SIGTERM', end);
  process.on('disconnect', end);
  process.on('message', async (message: Ask) => {
    if (message.ask === 'stop') return end();
    try {
      const value = await known[message.ask]?.(message.argument);
      process.send?.({ value } satisfies Reply);
    } catch (error) {
      process.send?.({ error: String(error) } satisfies Reply);
    }
  });
  // The parent may have ended while this process was still starting.
  if (process.connected) process.send?.({ value: ready } satisfies Reply);
  else void end();
}
