/** What `Retry-After` asks to wait from `now` on, in milliseconds: seconds or a date (RFC 9110 section 10.2.3). */
export function retryAfter(value: string | undefined, now: number): number | undefined {
  const text = value?.trim();
  if (text === undefined || text === '') return undefined;
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined;
}
