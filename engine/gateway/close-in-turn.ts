import type { Log } from '../contract/services.ts';

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
