import type { UpstreamConfig } from '../../../base/contract/config.ts';
import type { AttemptOrigin, Seen } from '../../../base/contract/forwarding.ts';

export type BreakerSettings = Omit<UpstreamConfig['breaker'], 'mode'>;

export interface BreakerSurroundings {
  /** The number of the last attempt that began; numbers rise by one. */
  readonly latest: () => number;
  readonly random: () => number;
  /** Called when the breaker opens. @param failing_ms time without success @param is_first whether it was closed before */
  readonly onOpen?: (until: number, failing_ms: number, is_first: boolean, last: string | undefined) => void;
  readonly onClose?: (open_ms: number) => void;
  readonly successes_to_close?: number;
}

interface Alone {
  readonly whose: 'caller' | 'request';
  readonly request: number;
  readonly breaker: Breaker;
}

/**
 * An incident reported by another process. It is ignored after a later success here, while this breaker is open, and for a while
 * after a wrong report, as the other process may have a network problem.
 */
export interface Heeded {
  readonly until: number;
  readonly last: string | undefined;
  readonly failing_ms: number;
}

/** Time for which reports of other processes are ignored after a wrong one. */
const DISBELIEF_MS = 300_000;
const SLOW_START_MS = 10_000;
const SHARE_MIN = 0.1;
const JITTER = 0.2;
/** `retry-after` for a caller while another request is the probe. */
const WHILE_ONE_TRIES_MS = 1000;

export function createBreaker(
  initial: BreakerSettings,
  { latest, random, onOpen, onClose, successes_to_close = 2 }: BreakerSurroundings,
) {
  let settings = initial;
  let outcomes = createOutcomes(settings.window_seconds * 1000);
  const failing = new FailureRun();
  /** Consecutive responses that broke off; their beginning does not count as success. */
  const breaking = new FailureRun();
  /** Callers whose probes failed since the breaker opened. */
  const tried = new Set<string>();
  const open_for = new Map<string, Alone>();
  let is_failing = false;
  let failing_since = 0;
  let succeeded_at = Number.NEGATIVE_INFINITY;
  let is_heeded = false;
  let disbelieving_until = 0;
  let open_until: number | undefined;
  let open_ms = 0;
  let openings = 0;
  let opened_at = 0;
  let closed_at: number | undefined;
  let successes = 0;
  /** Trials up to this number began before the last change of state; their results are stale. */
  let changed_after = 0;
  let trying = 0;
  let trying_since = 0;
  let last: string | undefined;

  const isTrying = (now: number) => trying !== 0 && now - trying_since < open_ms;

  function forget(): void {
    is_failing = false;
    failing.clear();
    breaking.clear();
    tried.clear();
    open_for.clear();
  }

  function startOpen(until: number, now: number): void {
    if (openings === 0) opened_at = now;
    open_ms = until - now;
    open_until = until;
    openings += 1;
    successes = 0;
    forget();
    trying = 0;
    outcomes.clear();
    changed_after = latest();
  }

  function open(now: number): void {
    const { open_seconds, open_seconds_max } = settings;
    const seconds = open_seconds * 2 ** openings * (1 - JITTER + 2 * JITTER * random());
    const first = openings === 0;
    const failing_ms = now - (first ? failing_since : Math.max(open_until!, succeeded_at));
    const until = now + Math.min(seconds, Math.max(open_seconds_max, open_seconds)) * 1000;
    is_heeded = false;
    startOpen(until, now);
    onOpen?.(until, failing_ms, first, last);
  }

  function close(now: number): void {
    open_until = undefined;
    openings = 0;
    closed_at = now;
    changed_after = latest();
    if (is_heeded) disbelieving_until = now + DISBELIEF_MS;
    is_heeded = false;
    onClose?.(now - opened_at);
  }

  /** Finds the source of failures: the upstream, one caller, one request, or unknown. */
  function judge(now: number, origin: AttemptOrigin | undefined): 'upstream' | Alone['whose'] | undefined {
    const { failures, failure_percent, requests_min } = settings;
    const { all, failed, failed_of_one } = outcomes.count(now);
    const isTooMuch = (less: number) =>
      all - less >= requests_min && (failed - less) * 100 >= failure_percent * (all - less);
    if (failing.shows(failures) || breaking.shows(failures) || isTooMuch(failed_of_one)) return 'upstream';
    if (origin === undefined) return undefined;
    return failing.faultOf(origin, failures) ?? breaking.faultOf(origin, failures);
  }

  function aloneOf({ caller, request }: Seen): Alone | undefined {
    const alone = open_for.get(caller);
    return alone?.whose === 'request' && alone.request !== request ? undefined : alone;
  }

  function failAlone(origin: AttemptOrigin, whose: Alone['whose'], n: number, now: number): void {
    let alone = aloneOf(origin);
    if (alone === undefined) {
      const own = { ...settings, failures: 1, requests_min: Number.POSITIVE_INFINITY };
      const breaker = createBreaker(own, { latest, random });
      alone = { whose, request: origin.request, breaker };
      open_for.set(origin.caller, alone);
    }
    alone.breaker.fail(n, now, last);
  }

  function fail(n: number, now: number, detail: string | undefined, origin?: AttemptOrigin): void {
    if (n <= changed_after) return;
    last = detail;
    if (open_until === undefined) {
      if (!is_failing) failing_since = now;
      is_failing = true;
      failing.add(origin, settings.failures);
      outcomes.add(false, now, origin?.caller);
      const fault = judge(now, origin);
      if (fault === 'upstream') open(now);
      else if (fault !== undefined) failAlone(origin!, fault, n, now);
    } else if (now >= open_until) {
      if (origin !== undefined) tried.add(origin.caller);
      if (origin === undefined || tried.size > 1) open(now);
      else failAlone(origin, 'caller', n, now);
    }
  }

  return {
    /** Fast path: whether the breaker has been closed for long. */
    get is_quiet(): boolean {
      return open_until === undefined && closed_at === undefined && open_for.size === 0;
    },
    phase(now: number): 'closed' | 'open' | 'half_open' {
      if (open_until === undefined) return 'closed';
      return now < open_until ? 'open' : 'half_open';
    },
    /** Like `until`, for the requests of one caller or for one request. */
    untilFor(by: Seen, now: number): { readonly until: number; readonly whose: Alone['whose'] } | undefined {
      const alone = aloneOf(by);
      const until = alone?.breaker.until(now);
      return until === undefined ? undefined : { until, whose: alone!.whose };
    },
    callersRefused: (now: number): number =>
      [...open_for.values()].filter(({ breaker }) => breaker.phase(now) === 'open').length,
    /** The end of the open time; `undefined` when a request may pass. */
    until(now: number): number | undefined {
      if (open_until === undefined) return undefined;
      if (now < open_until) return open_until;
      return isTrying(now) ? now + WHILE_ONE_TRIES_MS : undefined;
    },
    /** Request `n` begins; in a half-open breaker it becomes the probe, unless there is one. */
    begin(n: number, now: number, origin?: AttemptOrigin): void {
      if (origin !== undefined) aloneOf(origin)?.breaker.begin(n, now);
      if (open_until === undefined || now < open_until || isTrying(now)) return;
      trying = n;
      trying_since = now;
    },
    succeed(n: number, now: number): void {
      if (n <= changed_after) return;
      succeeded_at = now;
      open_for.clear();
      tried.clear();
      if (open_until === undefined) {
        is_failing = false;
        failing.clear();
        outcomes.add(true, now);
        if (closed_at !== undefined && now - closed_at >= SLOW_START_MS) closed_at = undefined;
        return;
      }
      // The last candidate is tried even while the breaker is open; its success ends the wait.
      open_until = Math.min(open_until, now);
      successes += 1;
      if (successes >= successes_to_close) close(now);
    },
    fail,
    complete(): void {
      breaking.clear();
    },
    /** A response broke off after its start had been reported as a success. */
    breakOff(n: number, now: number, detail: string | undefined, origin?: AttemptOrigin): void {
      breaking.add(origin, settings.failures);
      fail(n, now, detail, origin);
    },
    release(n: number): void {
      for (const { breaker } of open_for.values()) breaker.release(n);
      if (trying === n) trying = 0;
    },
    /** Opens because the breaker of another process opened; see `Heeded`. */
    heed({ until, last: why, failing_ms }: Heeded, now: number): void {
      if (until <= now || now < disbelieving_until || (open_until !== undefined && now < open_until)) return;
      if (now - succeeded_at <= failing_ms) return;
      const first = openings === 0;
      last = why ?? last;
      is_heeded = true;
      startOpen(until, now);
      if (first) onOpen?.(until, failing_ms, true, last);
    },
    /** Slow start: rises from `SHARE_MIN` to 1 in the `SLOW_START_MS` after closing. */
    share(now: number): number {
      if (closed_at === undefined) return 1;
      const share = (now - closed_at) / SLOW_START_MS;
      if (share >= 1) closed_at = undefined;
      return Math.min(Math.max(share, SHARE_MIN), 1);
    },
    use(next: BreakerSettings): void {
      if (next.window_seconds !== settings.window_seconds) outcomes = createOutcomes(next.window_seconds * 1000);
      settings = next;
    },
    get last(): string | undefined {
      return last;
    },
  };
}

/**
 * A circuit breaker. Closed: all requests pass. Open: none should. Half-open, after the open time: one probe at a time, and two
 * successes close the breaker. Failures of only one caller open it for that caller, until any request succeeds. All times are
 * milliseconds of a monotonic clock.
 */
export type Breaker = ReturnType<typeof createBreaker>;

const PARTS = 10;

interface Part {
  number: number;
  all: number;
  failed: number;
  readonly failed_of: Map<string, number>;
}

function createOutcomes(window_ms: number) {
  const part_ms = window_ms / PARTS;
  const parts = Array.from({ length: PARTS }, (): Part => {
    return { number: Number.NEGATIVE_INFINITY, all: 0, failed: 0, failed_of: new Map() };
  });
  return {
    add(ok: boolean, now: number, caller?: string): void {
      const number = Math.floor(now / part_ms);
      const part = parts[number % PARTS]!;
      if (part.number !== number) {
        part.number = number;
        part.all = 0;
        part.failed = 0;
        part.failed_of.clear();
      }
      part.all += 1;
      if (ok) return;
      part.failed += 1;
      if (caller !== undefined) part.failed_of.set(caller, (part.failed_of.get(caller) ?? 0) + 1);
    },
    /** Requests in the window, failures among them, and the most failures of one caller. */
    count(now: number) {
      const oldest = Math.floor(now / part_ms) - PARTS + 1;
      const failed_of = new Map<string, number>();
      let [all, failed, failed_of_one] = [0, 0, 0];
      for (const part of parts) {
        if (part.number < oldest) continue;
        all += part.all;
        failed += part.failed;
        for (const [caller, count] of part.failed_of) {
          const sum = (failed_of.get(caller) ?? 0) + count;
          failed_of.set(caller, sum);
          failed_of_one = Math.max(failed_of_one, sum);
        }
      }
      return { all, failed, failed_of_one };
    },
    clear(): void {
      for (const part of parts) part.number = Number.NEGATIVE_INFINITY;
    },
  };
}

/**
 * Consecutive failures by caller and request. A request that breaks an upstream fails in every retry, so it counts once, and one
 * caller counts for at most half of the threshold. A failure of unknown origin counts as one of another caller.
 */
class FailureRun {
  readonly #of = new Map<string, Map<number, number>>();
  #of_unknown = 0;

  /** @param most bound on the requests counted separately for one caller */
  add(origin: AttemptOrigin | undefined, most: number): void {
    if (origin === undefined) {
      this.#of_unknown += 1;
      return;
    }
    const { caller, request } = origin;
    const of_caller = this.#of.get(caller) ?? new Map<number, number>();
    this.#of.set(caller, of_caller);
    const times = of_caller.get(request);
    if (times !== undefined || of_caller.size < most) of_caller.set(request, (times ?? 0) + 1);
  }

  clear(): void {
    this.#of.clear();
    this.#of_unknown = 0;
  }

  /** Whether the upstream is at fault: `failures` of them, from at least two callers. */
  shows(failures: number): boolean {
    if (this.#of.size === 1 && this.#of_unknown === 0) return false;
    const most_of_one = Math.ceil(failures / 2);
    let sum = this.#of_unknown;
    for (const requests of this.#of.values()) sum += Math.min(requests.size, most_of_one);
    return sum >= failures;
  }

  /** The source of as many failures: the requests of one caller, or one request. */
  faultOf({ caller, request }: AttemptOrigin, failures: number): 'caller' | 'request' | undefined {
    const of_caller = this.#of.get(caller);
    if (of_caller === undefined) return undefined;
    if (of_caller.size >= failures) return 'caller';
    return of_caller.get(request)! >= failures ? 'request' : undefined;
  }
}

/** A credential breaker: one rejection opens it for a minute. */
const SETTINGS: BreakerSettings = {
  failures: 1,
  window_seconds: 60,
  failure_percent: 100,
  requests_min: Number.POSITIVE_INFINITY,
  open_seconds: 60,
  open_seconds_max: 60,
};
/** Time after a success in which one 403 does not open the breaker. */
const WORKED_LATELY_MS = 30_000;
const FORBIDDEN_IN_A_ROW = 3;

/** Creates a circuit breaker for an address that rejected the credential. */
export function createCredentialBreaker(surroundings: BreakerSurroundings) {
  const breaker = createBreaker(SETTINGS, { ...surroundings, random: () => 0.5, successes_to_close: 1 });
  const { succeed } = breaker;
  let worked_at = Number.NEGATIVE_INFINITY;
  let forbidden = 0;
  return Object.assign(breaker, {
    succeed(n: number, now: number) {
      worked_at = now;
      forbidden = 0;
      succeed(n, now);
    },
    /** `credential`: rejected, or its account cannot pay. `permission`: 403. */
    refuse(n: number, now: number, effect: 'credential' | 'permission', detail: string | undefined) {
      if (effect === 'permission' && breaker.phase(now) === 'closed') {
        forbidden += 1;
        if (now - worked_at <= WORKED_LATELY_MS && forbidden < FORBIDDEN_IN_A_ROW) return;
      }
      forbidden = 0;
      breaker.fail(n, now, detail);
    },
  });
}

export type CredentialBreaker = ReturnType<typeof createCredentialBreaker>;
