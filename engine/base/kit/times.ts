const UNIT_MS: Readonly<Record<string, number>> = {
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
};

/** Milliseconds of a duration such as `90m`, `12h`, `30d` or `2w`; `undefined` for other texts. */
export function parseDuration(text: string): number | undefined {
  const parts = /^([1-9]\d{0,5})([mhdw])$/.exec(text);
  return parts === null ? undefined : Number(parts[1]) * UNIT_MS[parts[2]!]!;
}

/** Parses a date (`2027-01-31`, midnight UTC) or a time with its zone (`2027-01-31T18:00:00Z`); `undefined` for other texts. */
export function parseDate(text: string): Date | undefined {
  if (!/^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text)) return undefined;
  const date = new Date(text);
  // JavaScript rolls the 31st of a shorter month over into the next one.
  const rolled_over = new Date(`${text.slice(0, 10)}T00:00:00Z`).toJSON()?.slice(0, 10) !== text.slice(0, 10);
  return Number.isNaN(date.getTime()) || rolled_over ? undefined : date;
}
