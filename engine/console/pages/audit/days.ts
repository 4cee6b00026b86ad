const MINUTE_MS = 60_000;

/** How far a time zone is ahead of UTC at a moment, in milliseconds. */
function aheadOf(at: number, time_zone: string): number {
  // "sv-SE" writes 2027-01-31 18:00:00.
  const local = new Date(at).toLocaleString('sv-SE', { timeZone: time_zone });
  return Math.round((Date.parse(`${local.replace(' ', 'T')}Z`) - at) / MINUTE_MS) * MINUTE_MS;
}

/**
 * The moment at which a day (2027-01-31) begins in a time zone, some days later where `days` says so, as ISO 8601 in UTC.
 * What is no day stays as it is: a link may name a moment.
 */
export function beginningOf(day: string | undefined, time_zone: string, days = 0): string | undefined {
  if (day === undefined || !/^\d{4}-\d\d-\d\d$/.test(day)) return day;
  const midnight = Date.parse(`${day}T00:00:00Z`);
  if (Number.isNaN(midnight)) return day;
  const wanted = midnight + days * 24 * 60 * MINUTE_MS;
  // Once more, as the clock may be put on or back between the two.
  const near = wanted - aheadOf(wanted, time_zone);
  return new Date(wanted - aheadOf(near, time_zone)).toISOString();
}
