import type { Clock } from '../contract/services.ts';

/** Waits; rejects with the signal's reason when that comes first. */
export function pause(clock: Clock, milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      timer.close();
      reject(signal!.reason);
    };
    const timer = clock.after(milliseconds, () => {
      signal?.removeEventListener('abort', stop);
      resolve();
    });
    if (signal?.aborted === true) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}
