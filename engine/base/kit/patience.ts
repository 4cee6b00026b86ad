/**
 * Longest `retry-after` that clients of chat completions and Responses are told, in seconds. The coding CLI sleeps out
 * whatever it is told without saying so, the build CLI two minutes; the SDKs, and the Messages client, take more than a minute for
 * no answer. Windows of a minute are within it, those of a day are not.
 */
const SHORT_WAIT_SECONDS = 60;

/**
 * How long a caller is told to wait where requests under way must end first, in seconds. There are clients that try again only once or
 * five times after it, and answers of coding clients take many seconds.
 */
export const NEXT_ROOM_SECONDS = 3;

/** Whether a `retry-after` is one to sit out: whole or decimal seconds, and not many. */
export function isShortWait(retry_after: string): boolean {
  return /^\d+(?:\.\d+)?$/.test(retry_after) && Number(retry_after) <= SHORT_WAIT_SECONDS;
}
