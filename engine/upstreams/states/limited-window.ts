const FIRST_MS = 1000;
const LAST_MS = 30_000;
/** However long an upstream asks for, it is asked again after this. */
const LONGEST_MS = 3_600_000;

/** The time in which an upstream has no room for the account of the gateway: not a failure, and nothing is retried by it. */
export interface LimitedWindow {
  /** Whether nothing is known of a limit. */
  readonly is_quiet: boolean;
  /** Until when; `undefined` when it has room as far as anybody knows. */
  until(now: number): number | undefined;
  /**
   * Trial `n` got 429.
   * @returns until when, if nothing was known of a limit before.
   */
  limit(
    n: number,
    now: number,
    detail: string | undefined,
    retry_after_seconds: number | undefined,
  ): number | undefined;
  /** Takes what another process was told. */
  limitUntil(until: number, now: number, last: string | undefined): void;
  /**
   * Trial `n` was served.
   * @returns whether that ended it.
   */
  succeed(n: number): boolean;
  readonly last: string | undefined;
}

/** Without a time told by the upstream it lasts 1 s, and doubles up to 30 s for as long as nothing is served. */
export function createLimitedWindow(latest: () => number): LimitedWindow {
  let ends = 0;
  let next_ms = FIRST_MS;
  /** Trials up to this one began before the limit was known. */
  let known_after = 0;
  let is_limited = false;
  let last: string | undefined;
  return {
    get is_quiet() {
      return !is_limited;
    },
    until: (now) => (is_limited && now < ends ? ends : undefined),
    limit(n, now, detail, retry_after_seconds) {
      const told_ms = retry_after_seconds === undefined ? undefined : Math.max(retry_after_seconds, 0) * 1000;
      // Fifty requests that were under way together tell one thing, not fifty.
      const is_news = !is_limited || n > known_after;
      if (told_ms === undefined && !is_news) return undefined;
      const first = !is_limited;
      ends = Math.max(ends, now + Math.min(told_ms ?? next_ms, LONGEST_MS));
      if (told_ms === undefined) next_ms = Math.min(next_ms * 2, LAST_MS);
      is_limited = true;
      last = detail;
      known_after = latest();
      return first ? ends : undefined;
    },
    limitUntil(until, now, why) {
      if (until <= Math.max(now, ends)) return;
      ends = until;
      is_limited = true;
      last = why;
      known_after = latest();
    },
    succeed(n) {
      if (!is_limited || n <= known_after) return false;
      is_limited = false;
      ends = 0;
      next_ms = FIRST_MS;
      return true;
    },
    get last() {
      return last;
    },
  };
}
