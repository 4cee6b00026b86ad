import { StageError } from '../contract/errors.ts';
import type { Clock } from '../contract/services.ts';
import { isUnavailable, StoreTimeout } from './store-errors.ts';

const PAUSE_MS = 1000;

/** What a breaker needs of its store. */
export interface StoreBreakerOptions {
  readonly clock: Clock;
  readonly onMended: () => void;
  /** Asks the store something that waits for nothing but the store itself; rejects where it does not answer. */
  readonly probe: () => Promise<unknown>;
}

/** Creates a breaker that takes the store to work. */
export function createStoreBreaker({ clock, onMended, probe: probeStore }: StoreBreakerOptions) {
  let failure: StageError | undefined;
  /** When somebody last asked again in vain, in monotonic milliseconds. */
  let in_vain_at: number | undefined;
  let probe: Promise<void> | undefined;
  /** Askings are numbered, so that one which began before the store was mended says nothing about it. */
  let asked = 0;
  let mended_at = 0;
  /** The last asking before the store was found slow; undefined while it is not, or known to be busy. */
  let slow_since: number | undefined;

  /** Who asked before the store was found slow waits for the same thing. Who asked later and waits in vain shows that it is away. */
  const mayBeBusy = (number: number): boolean => {
    if (slow_since !== undefined) return number <= slow_since;
    slow_since = asked;
    probeStore().then(
      () => {
        slow_since = undefined;
      },
      () => {},
    );
    return true;
  };
  const mended = () => {
    mended_at = asked;
    slow_since = undefined;
    if (failure === undefined) return;
    failure = undefined;
    in_vain_at = undefined;
    onMended();
  };
  const tell = async <T>(ask: () => Promise<T>): Promise<T> => {
    const number = ++asked;
    try {
      const answer = await ask();
      mended();
      return answer;
    } catch (error) {
      const is_busy = () => error instanceof StoreTimeout && mayBeBusy(number);
      if (isUnavailable(error) && number > mended_at && !is_busy()) failure = error;
      throw error;
    }
  };
  const askAgain = async <T>(ask: () => Promise<T>): Promise<T> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    probe = promise;
    try {
      return await tell(ask);
    } finally {
      if (failure !== undefined) in_vain_at = clock.monotonic();
      probe = undefined;
      resolve();
    }
  };

  return {
    /** Whether the store was away when it was last asked. */
    get broken(): boolean {
      return failure !== undefined;
    },
    /**
     * Asks the store. While it is away one caller at a time does, and not within a second of the last one that failed; the
     * others get store_unavailable at once. A `patient` one waits for the first caller that asks again, because one lost
     * connection is no outage.
     */
    async run<T>(ask: () => Promise<T>, patient: boolean): Promise<T> {
      if (failure === undefined) return tell(ask);
      if (probe !== undefined && patient && in_vain_at === undefined) await probe;
      if (failure === undefined) return tell(ask);
      const pausing = in_vain_at !== undefined && clock.monotonic() - in_vain_at < PAUSE_MS;
      if (probe === undefined && !pausing) return askAgain(ask);
      throw new StageError('store_unavailable', failure.message, { cause: failure.cause });
    },
    /** Says that the store was found to work. */
    mended,
  };
}

/**
 * A circuit breaker for the store: spares callers the wait for one that is known to be away. One that is busy, as behind a long
 * statement, is not away: it is waited for.
 */
export type StoreBreaker = ReturnType<typeof createStoreBreaker>;
