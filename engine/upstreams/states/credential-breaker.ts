import { type BreakerSurroundings, DISBELIEF_MS, type Heeded } from './breaker.ts';

/** Keeps requests from an address that refused the credential they would take there. */
export interface CredentialBreaker {
  /** Whether it is closed: there is nothing to ask it. */
  readonly is_quiet: boolean;
  phase(now: number): 'closed' | 'open' | 'half_open';
  /** Until when it should not be used; `undefined` when a request may. */
  until(now: number): number | undefined;
  begin(n: number, now: number): void;
  succeed(n: number, now: number): void;
  /** `credential`: it is not accepted, or its account can't pay. `permission`: it may not do this (403). */
  refuse(n: number, now: number, effect: 'credential' | 'permission', detail: string | undefined): void;
  release(n: number): void;
  /** Opens because another process did; see `Heeded`. */
  heed(seen: Heeded, now: number): void;
  readonly last: string | undefined;
}

const OPEN_MS = 60_000;
const WHILE_ONE_TRIES_MS = 1000;
/** A credential that worked so lately is not at fault because one request was forbidden. */
const WORKED_LATELY_MS = 30_000;
const FORBIDDEN_IN_A_ROW = 3;

/** Makes one for a credential nothing is known of. */
export function createCredentialBreaker({ latest, ...tell }: Omit<BreakerSurroundings, 'random'>): CredentialBreaker {
  let open_until: number | undefined;
  let opened_at = 0;
  let worked_at: number | undefined;
  let forbidden = 0;
  /** Whether it is open because another process said so. */
  let is_heeded = false;
  let disbelieving_until = 0;
  let changed_after = 0;
  let trying = 0;
  let trying_since = 0;
  let last: string | undefined;

  const isTrying = (now: number) => trying !== 0 && now - trying_since < OPEN_MS;

  function open(until: number, now: number, again: (until: number, failing_ms: number) => void): void {
    const first = open_until === undefined;
    if (first) opened_at = now;
    open_until = until;
    trying = 0;
    forbidden = 0;
    changed_after = latest();
    if (first) tell.onOpen(until, last, 0);
    else again(until, 0);
  }

  return {
    get is_quiet() {
      return open_until === undefined;
    },
    phase(now) {
      if (open_until === undefined) return 'closed';
      return now < open_until ? 'open' : 'half_open';
    },
    until(now) {
      if (open_until === undefined) return undefined;
      if (now < open_until) return open_until;
      return isTrying(now) ? now + WHILE_ONE_TRIES_MS : undefined;
    },
    begin(n, now) {
      if (open_until === undefined || now < open_until || isTrying(now)) return;
      trying = n;
      trying_since = now;
    },
    succeed(n, now) {
      if (n <= changed_after) return;
      worked_at = now;
      forbidden = 0;
      if (open_until === undefined) return;
      open_until = undefined;
      changed_after = latest();
      if (is_heeded) disbelieving_until = now + DISBELIEF_MS;
      is_heeded = false;
      tell.onClose(now - opened_at);
    },
    refuse(n, now, effect, detail) {
      if (n <= changed_after) return;
      if (effect === 'permission' && open_until === undefined) {
        forbidden += 1;
        const worked_lately = worked_at !== undefined && now - worked_at <= WORKED_LATELY_MS;
        if (worked_lately && forbidden < FORBIDDEN_IN_A_ROW) return;
      }
      last = detail;
      is_heeded = false;
      open(now + OPEN_MS, now, tell.onReopen);
    },
    release(n) {
      if (trying === n) trying = 0;
    },
    heed({ until, last: why, failing_ms }, now) {
      if (until <= now || now < disbelieving_until || (open_until !== undefined && now < open_until)) return;
      if (worked_at !== undefined && now - worked_at <= failing_ms) return;
      last = why ?? last;
      is_heeded = true;
      open(until, now, () => {});
    },
    get last() {
      return last;
    },
  };
}
