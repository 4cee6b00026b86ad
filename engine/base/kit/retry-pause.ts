const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2000;

/** Exponential backoff shared by all callers that wait for the database, so that they retry as one batch. */
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
    /** Ends all pauses: callers that fail now stop retrying. */
    end() {
      over = true;
      wake();
    },
  };
}
