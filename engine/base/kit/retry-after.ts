/** Retry hints of servers: `retry-after` and similar headers, and `retryDelay` in errors. @module */

type AnswerHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Larger numbers are times since the epoch, in seconds and in milliseconds. */
const EPOCH_SECONDS_MIN = 1e9;
const EPOCH_MS_MIN = 1e12;

const NUMBER = /^\d+(?:\.\d+)?$/;

/** For example 6m0s, 20ms or 2m59.56s. */
const DURATION = /^(?:\d+(?:\.\d+)?\s*(?:ms|d|h|m|s)\s*)+$/i;
const DURATION_PART = /(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)/gi;
const UNIT_SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };

/** The three date formats of RFC 9110 section 5.6.7, and that of RFC 3339. The oldest format has no zone. */
const HTTP_DATE = /^[a-z]{3,9}, .* GMT$/i;
const OLDEST_DATE = /^[a-z]{3} [a-z]{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$/i;
const ISO_DATE = /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)$/i;

function dateOf(text: string): number {
  if (OLDEST_DATE.test(text)) return Date.parse(`${text} GMT`);
  return HTTP_DATE.test(text) || ISO_DATE.test(text) ? Date.parse(text) : Number.NaN;
}

/**
 * Seconds from `now` (milliseconds since the epoch) until the time in a text: a number of seconds, a date (RFC 9110 section 10.2.3), a
 * duration with units, or a time since the epoch. 0 for a past time, `undefined` for other texts.
 */
export function secondsUntil(text: string, now: number): number | undefined {
  const hint = text.trim();
  if (NUMBER.test(hint)) {
    const number = Number(hint);
    if (number < EPOCH_SECONDS_MIN) return number;
    return Math.max(0, (number < EPOCH_MS_MIN ? number : number / 1000) - now / 1000);
  }
  if (hint.length <= 40 && DURATION.test(hint)) {
    const parts = [...hint.matchAll(DURATION_PART)];
    return parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNIT_SECONDS[unit!.toLowerCase()]!, 0);
  }
  const date = dateOf(hint);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}

const textOf = (value: AnswerHeaders[string]): string | undefined => (typeof value === 'string' ? value : value?.[0]);

/** Retry hint in the error bodies of Google's APIs (google.rpc.RetryInfo). */
const RETRY_INFO = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?s)"/;

/** The retry hint of a response, in seconds; `undefined` without one. @param body of an error */
export function retryAfterSeconds(headers: AnswerHeaders, now: number, body = ''): number | undefined {
  const ms = textOf(headers['retry-after-ms'])?.trim();
  if (ms !== undefined && NUMBER.test(ms)) return Number(ms) / 1000;
  const hint = textOf(headers['retry-after']) ?? RETRY_INFO.exec(body)?.[1];
  const seconds = hint === undefined ? undefined : secondsUntil(hint, now);
  return seconds ?? resetSeconds(headers, now);
}

/** Seconds until the last exhausted limit resets: `x-ratelimit-reset-tokens` with `x-ratelimit-remaining-tokens: 0`. */
function resetSeconds(headers: AnswerHeaders, now: number): number | undefined {
  let last: number | undefined;
  for (const name in headers) {
    if (!name.includes('ratelimit') || !name.includes('reset')) continue;
    const remaining = textOf(headers[name.replace('reset', 'remaining')])?.trim();
    const seconds =
      remaining !== undefined && /^0+$/.test(remaining) ? secondsUntil(textOf(headers[name])!, now) : undefined;
    if (seconds !== undefined) last = Math.max(last ?? 0, seconds);
  }
  return last;
}

/** One day: with more, clients give up at once. */
const WHOLE_SECONDS_MAX = 86_400;

/** A `retry-after` value that every client understands: whole seconds, rounded up. */
export function retryAfterText(seconds: number): string {
  return String(Math.min(WHOLE_SECONDS_MAX, Math.max(0, Math.ceil(seconds))));
}
