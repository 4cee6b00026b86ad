import { FAILOVER_TABLE, type FailoverRow } from '../failover-table.ts';
import type { FailedAttempt } from './failed-attempt.ts';

/** Longest wait that an upstream can ask for before it is asked again, in seconds. */
const LIMITED_MAX = 2;
const OVERLOADED_MAX = 5;

/** The wait where it asks for none, in milliseconds: so long and up to so much more by chance. */
const LEAST_MS = 500;
const JITTER_MS = 1000;

/** How long to wait, in milliseconds, before the same upstream is asked again; `undefined` where it is not. */
export function waitBeforeRepeat(
  { outcome, retry_after_seconds }: FailedAttempt,
  how: {
    /** Whether there is no other upstream to go to. */
    readonly is_lone: boolean;
    /** What the client says of its own retries. */
    readonly retry_count: string | readonly string[] | undefined;
    /** From 0 up to 1. */
    readonly random: () => number;
  },
): number | undefined {
  const { again }: FailoverRow = FAILOVER_TABLE[outcome];
  if (Number(how.retry_count ?? 0) > 0) return undefined;
  if (again === 'after_wait_lone') {
    const is_short = how.is_lone && retry_after_seconds !== undefined && retry_after_seconds <= LIMITED_MAX;
    return is_short ? retry_after_seconds * 1000 : undefined;
  }
  if (again !== 'after_wait') return undefined;
  if (retry_after_seconds === undefined) return LEAST_MS + how.random() * JITTER_MS;
  return retry_after_seconds <= OVERLOADED_MAX ? retry_after_seconds * 1000 : undefined;
}
