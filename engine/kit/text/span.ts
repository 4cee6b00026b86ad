const MINUTE_MS = 60_000;
const UNITS = [
  ['day', 24 * 60],
  ['hour', 60],
  ['minute', 1],
] as const;

/** A span of milliseconds in its two largest units, rounded down: `2 days 3 hours`, `20 minutes`, `less than a minute`. */
export function formatSpan(ms: number): string {
  let left = Math.floor(ms / MINUTE_MS);
  const parts: string[] = [];
  for (const [unit, minutes] of UNITS) {
    const count = Math.floor(left / minutes);
    left -= count * minutes;
    if (count > 0) parts.push(`${count} ${unit}${count === 1 ? '' : 's'}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, 2).join(' ') || 'less than a minute';
}
