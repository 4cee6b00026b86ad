const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const STEP = 1024;

/** A size for people: `512 MiB`, `1.5 GiB`. */
export function sizeText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= STEP && unit < UNITS.length - 1) {
    value /= STEP;
    unit++;
  }
  const shown = value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1);
  return `${shown} ${UNITS[unit]}`;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A span of time for people: `45 s`, `12 min`, `5 h`, `3 days`. */
export function spanText(seconds: number): string {
  const span = Math.abs(seconds);
  if (span < 2 * MINUTE) return `${span < 10 ? Number(span.toFixed(1)) : Math.round(span)} s`;
  if (span < 2 * HOUR) return `${Math.round(span / MINUTE)} min`;
  return span < 2 * DAY ? `${Math.round(span / HOUR)} h` : `${Math.round(span / DAY)} days`;
}

/** How many of something: `1 file`, `2 files`. */
export function counted(many: number, one: string): string {
  return `${many} ${one}${many === 1 ? '' : 's'}`;
}
