const KIBI = 1024;

/** How many of a key's own unit another unit is: `bytes` -> `mb`. Bytes of a configuration are counted in binary. */
const UNITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  bytes: {
    b: 1,
    k: KIBI,
    kb: KIBI,
    kib: KIBI,
    m: KIBI ** 2,
    mb: KIBI ** 2,
    mib: KIBI ** 2,
    g: KIBI ** 3,
    gb: KIBI ** 3,
    gib: KIBI ** 3,
  },
  seconds: { ms: 0.001, s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86_400 },
  minutes: { s: 1 / 60, m: 1, min: 1, h: 60, d: 1440 },
  usd: { usd: 1, $: 1 },
  percent: { '%': 1 },
  weight: { '%': 1 },
};

/**
 * The number that was probably meant by a text: without quotes, digit separators and currency, in the unit that the
 * key's name ends with. `undefined` when that is anybody's guess.
 */
export function numberMeant(text: string, key: string): number | undefined {
  const [, sign = '', digits = '', unit = ''] = /^\s*(-?)\$?\s*([\d_]*\.?\d+)\s*([a-z$%]*);?\s*$/i.exec(text) ?? [];
  const number = Number(sign + digits.replaceAll('_', ''));
  if (digits === '' || !Number.isFinite(number)) return undefined;
  if (unit === '') return number;
  const units = UNITS[key.slice(key.lastIndexOf('_') + 1)] ?? UNITS.usd;
  const factor = units?.[unit.toLowerCase()];
  return factor === undefined ? undefined : number * factor;
}
