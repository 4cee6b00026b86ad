import { StageError } from '../contract/errors.ts';
import type { Clock } from '../contract/services.ts';
import { isUnavailable, StoreTimeout } from './store-errors.ts';

const PAUSE_MS = 1000;

/**
 * Creates a closed circuit breaker.
 * @param options `probe`: a cheap statement without locks; rejects if the database does not respond.
 */
export function createStoreBreaker(options: {
  readonly clock: Clock;
  readonly onRecovered: () => void;
  readonly probe: () => Promise<unknown>;
}) {
  const { clock, onRecovered, probe: probeStore } = options;
  let failure: StageError | undefined;
  /** Time of the last failed half-open probe, in monotonic milliseconds. */
  let probe_failed_at: number | undefined;
  let probe: Promise<void> | undefined;
  /** Calls are numbered: a call from before a recovery is no evidence of the state after it. */
  let calls = 0;
  let recovered_at = 0;
  /** Number of the last call before the database was found slow; undefined while it is not. */
  let slow_since: number | undefined;

  /** Calls from before the slow phase wait for the same lock. A later call that times out shows that the database is unavailable. */
  const mayBeBusy = (number: number): boolean => {
    if (slow_since !== undefined) return number <= slow_since;
    slow_since = calls;
    probeStore().then(
      () => {
        slow_since = undefined;
      },
      () => {},
    );
    return true;
  };
  const recover = () => {
    recovered_at = calls;
    slow_since = undefined;
    if (failure === undefined) return;
    failure = undefined;
    probe_failed_at = undefined;
    onRecovered();
  };
  const observe = async <T>(ask: () => Promise<T>): Promise<T> => {
    const number = ++calls;
    try {
      const result = await ask();
      recover();
      return result;
    } catch (error) {
      const is_busy = () => error instanceof StoreTimeout && mayBeBusy(number);
      if (isUnavailable(error) && number > recovered_at && !is_busy()) failure = error;
      throw error;
    }
  };
  const probeWith = async <T>(ask: () => Promise<T>): Promise<T> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    probe = promise;
    try {
      return await observe(ask);
    } finally {
      if (failure !== undefined) probe_failed_at = clock.monotonic();
      probe = undefined;
      resolve();
    }
  };

  return {
    get broken(): boolean {
      return failure !== undefined;
    },
    /**
     * Calls the database. While the breaker is open, one caller at a time probes, at most once a second; others get
     * store_unavailable at once. A `patient` caller waits for the first probe, because one lost connection is no outage.
     */
    async run<T>(ask: () => Promise<T>, patient: boolean): Promise<T> {
      if (failure === undefined) return observe(ask);
      if (probe !== undefined && patient && probe_failed_at === undefined) await probe;
      if (failure === undefined) return observe(ask);
      const pausing = probe_failed_at !== undefined && clock.monotonic() - probe_failed_at < PAUSE_MS;
      if (probe === undefined && !pausing) return probeWith(ask);
      throw new StageError('store_unavailable', failure.message, { cause: failure.cause });
    },
    recover,
  };
}

/**
 * A circuit breaker for the database: calls fail fast during an outage. A busy database, such as behind a long lock, does not open
 * it: callers wait.
 */
export type StoreBreaker = ReturnType<typeof createStoreBreaker>;
