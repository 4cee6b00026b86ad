const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2000;

/** A pause that everybody waiting for the store shares, so that they come back as one batch; longer each time. */
export function createRetryPause() {
  let next_ms = FIRST_RETRY_MS;
  let pause: Promise<void> | undefined;
  let wake = () => {};
  let over = false;
  return {
    get over() {
      return over;
    },
    reset() {
      next_ms = FIRST_RETRY_MS;
    },
    /** Pauses, unless it is over. */
    async wait(): Promise<void> {
      if (over) return;
      pause ??= new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, next_ms);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
        next_ms = Math.min(next_ms * 2, LAST_RETRY_MS);
      }).finally(() => {
        pause = undefined;
      });
      return pause;
    },
    /** No more pauses: whoever fails now gives up. */
    end() {
      over = true;
      wake();
    },
  };
}
