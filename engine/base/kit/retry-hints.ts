/**
 * Longest `retry-after` sent to clients of chat completions and Responses, in seconds. The coding CLI silently sleeps for any value,
 * the build CLI for up to two minutes. The SDKs and the Messages client ignore more than a minute. Limits by minute are within it,
 * limits by day are not.
 */
const SHORT_WAIT_SECONDS = 60;

/** `retry-after` of a concurrency limit, in seconds: responses take many, and some clients retry only once. */
export const CONCURRENCY_RETRY_SECONDS = 3;

/** Whether a `retry-after` is short enough to wait for: whole or decimal seconds, up to a minute. */
export function isShortWait(retry_after: string): boolean {
  return /^\d+(?:\.\d+)?$/.test(retry_after) && Number(retry_after) <= SHORT_WAIT_SECONDS;
}
