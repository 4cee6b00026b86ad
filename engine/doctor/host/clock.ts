import type { IncomingHttpHeaders } from 'node:http';
import type { Diagnosis } from '../diagnosis.ts';
import { spanText } from './sizes.ts';

/** How far the clock of somebody else is ahead of the one here. */
export interface ClockReading {
  readonly of: string;
  readonly ahead_ms: number;
}

/** What an answer over HTTP says of the clock of whoever made it; nothing where it was kept somewhere on the way. */
export function clockIn({ date, age }: IncomingHttpHeaders, now: number): number | undefined {
  const at = date === undefined || age !== undefined ? Number.NaN : Date.parse(date);
  // The header has whole seconds, so the middle of that second is the best guess.
  return Number.isNaN(at) ? undefined : at + 500 - now;
}

/** Clocks that are further apart than this are wrong: those that are set over the network are within milliseconds. */
const APART_MS = 5000;
const FAR_MS = 60_000;

/** Whether the clock here agrees with those of everybody who was asked anyway. */
export function examineClock(readings: readonly ClockReading[], clock_skew_seconds: number | undefined): Diagnosis {
  const base = { id: 'host.clock', title: 'clock of this machine' };
  if (readings.length === 0) {
    return { ...base, verdict: 'skipped', found: 'nobody answered whose clock it could be compared with' };
  }
  const details = readings.map(({ of, ahead_ms }) => `${of}: ${tell(ahead_ms)}`);
  const off = readings.filter(({ ahead_ms }) => Math.abs(ahead_ms) > APART_MS);
  if (off.length === 0) {
    return { ...base, verdict: 'ok', found: `agrees with ${readings.map(({ of }) => of).join(', ')}`, details };
  }
  const sorted = off.map(({ ahead_ms }) => ahead_ms).toSorted((a, b) => a - b);
  const agree = Math.max(...sorted) - Math.min(...sorted) <= 2 * APART_MS;
  const median = sorted[Math.floor(sorted.length / 2)]!;
  const remedy = 'have the clocks set over the network (timedatectl set-ntp true; chronyc tracking)';
  if (off.length === readings.length && readings.length > 1 && agree) {
    const skew =
      clock_skew_seconds === undefined
        ? ''
        : `; beyond ${clock_skew_seconds} s (auth.oidc.clock_skew_seconds) nobody can sign in`;
    const found = `it is ${spanText(median / 1000)} ${median > 0 ? 'behind' : 'ahead of'} all others that were asked${skew}`;
    return { ...base, verdict: Math.abs(median) > FAR_MS ? 'failed' : 'warning', found, remedy, details };
  }
  const named = off.map(({ of, ahead_ms }) => `${of} (${tell(ahead_ms)})`).join(', ');
  const whose =
    readings.length === 1
      ? "which of the two is wrong can't be told"
      : 'the others agree with the one here, or not with each other';
  return { ...base, verdict: 'warning', found: `it differs from that of ${named}: ${whose}`, remedy, details };
}

function tell(ahead_ms: number): string {
  if (Math.abs(ahead_ms) < 1000) return 'the same';
  return `${spanText(ahead_ms / 1000)} ${ahead_ms > 0 ? 'ahead' : 'behind'}`;
}
