/** When a limit is used up if spending goes on as it did. */
import { formatSpan } from '../../kit/text/span.ts';

/** What a counter shows of its own past. Amounts are in its unit, times in milliseconds since the epoch. */
export interface Past {
  readonly spent: number;
  /** The limit in force. */
  readonly limit: number;
  /** When its window began and when that ends. */
  readonly since: number;
  readonly resets_at: number;
  readonly now: number;
  /** What was spent in the windows before, which have all ended, and how many those are. */
  readonly before: number;
  readonly windows_before: number;
  readonly window: 'day' | 'week' | 'month';
}

/** How long a limit lasts, and by which assumption. */
export interface Forecast {
  /** `none_left`: nothing is left now. `ends`: it is used up before it resets. `lasts`: it is not. */
  readonly outcome: 'none_left' | 'ends' | 'lasts';
  /** When nothing is left, in milliseconds since the epoch; absent when it lasts. */
  readonly ends_at?: number;
  /** A sentence, with what it assumes. */
  readonly words: string;
}

/** So much of a window must be over before its own pace says anything. */
const TOLD_FROM = 1 / 12;
const PLURALS = { day: 'days', week: 'weeks', month: 'months' } as const;

/**
 * When a limit in money is used up: by the pace of this window and by that of those before it, whichever is sooner. The pace
 * of a window that has hardly begun counts for nothing where there are others to go by.
 */
export function forecastOf(past: Past): Forecast {
  const { spent, limit, since, resets_at, now, windows_before, window } = past;
  if (spent >= limit) {
    return {
      outcome: 'none_left',
      ends_at: now,
      words: `Nothing is left until it resets, in ${formatSpan(resets_at - now)}.`,
    };
  }
  const elapsed = Math.max(now - since, 1);
  const own = { pace: spent / elapsed, assuming: `as since the ${window} began` };
  const usual = {
    pace: windows_before === 0 ? 0 : past.before / windows_before / (resets_at - since),
    assuming:
      windows_before === 1 ? `as in the ${window} before` : `as in the ${windows_before} ${PLURALS[window]} before`,
  };
  const is_telling = elapsed >= (resets_at - since) * TOLD_FROM;
  const paces = [...(is_telling || windows_before === 0 ? [own] : []), ...(windows_before === 0 ? [] : [usual])];
  const [fastest] = paces.toSorted((a, b) => b.pace - a.pace);
  const { pace, assuming } = fastest!;
  const ends_at = now + (limit - spent) / pace;
  if (ends_at < resets_at) {
    const [left, early] = [formatSpan(ends_at - now), formatSpan(resets_at - ends_at)];
    const words = `If it goes on ${assuming}, nothing is left in ${left}, ${early} before it resets.`;
    return { outcome: 'ends', ends_at: Math.round(ends_at), words };
  }
  const share = Math.round(((spent + pace * (resets_at - now)) / limit) * 100);
  return { outcome: 'lasts', words: `If it goes on ${assuming}, ${share} % is used when it resets.` };
}
