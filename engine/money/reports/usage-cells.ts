import type { ReportRead, SqlPart } from './long-report.ts';

/** A day or hour of UTC (ISO 8601) whose sums count, or are to be taken off where a day counts that it does not belong to. */
export interface UsageCell {
  readonly start: string;
  readonly sign: 1 | -1;
  /** The times it is told under, such as 2026-03 and 2026-03-10: one for each time that a report is grouped by. */
  readonly times: readonly string[];
}

/** An hour that a period or a local day begins in: the ledger says what is on which side. */
export interface CutHour {
  readonly start: string;
  /** The last settlement of what was forwarded in it; `null` when nothing was. */
  readonly settled_until: string | null;
}

/** From where a report gets what was used in a period. */
export interface UsageCells {
  readonly days: readonly UsageCell[];
  readonly hours: readonly UsageCell[];
  readonly cuts: readonly CutHour[];
  /** Only the ledger has what was settled before; `-infinity` once the sums have everything. */
  readonly summed_from: string;
}

/** What is asked of a report, as far as it is about time. */
export interface CellWish {
  /** As SQL, of timestamps or null. */
  readonly since: SqlPart;
  readonly until: SqlPart;
  readonly time_zone: string;
  /** Formats of `to_char` for the times that a report is grouped by. */
  readonly formats: readonly string[];
  /** Whether days are too long for it. */
  readonly by_hour: boolean;
}

interface FoundCell {
  readonly span: 'day' | 'hour' | 'cut';
  readonly start: string;
  readonly sign: 1 | -1;
  readonly times: readonly string[];
  readonly settled_until: string | null;
}

/**
 * Finds which sums make up a period. Those of days of UTC, as they are few; a local day consists of the day of UTC whose noon it
 * has, without hours that belong to another, and with its own hours of other days.
 */
export async function findCells(
  read: ReportRead,
  { since, until, time_zone, formats, by_hour }: CellWish,
): Promise<UsageCells> {
  const [state] = await read<{ summed_from: string }>('select summed_from::text from usage_state', []);
  const times = (moment: string): SqlPart => ({
    text: `array[${formats.map(() => `to_char(${moment} at time zone ?, ?)`).join(', ')}]::text[]`,
    values: formats.flatMap((format) => [time_zone, format]),
  });
  const [first, last] = [times('h.start'), times(`(h.start + interval '1 hour' - interval '1 microsecond')`)];
  const found = await read<FoundCell>(
    `with asked as (
       select ${since.text} as since, ${until.text} as until
     ), known as (
       select since, until,
              date_trunc('day', greatest(since, least(
                (select min(start) from usage_hours), (select min(hour) from usage_waiting))), 'UTC') as first,
              least(until, greatest(
                (select max(start) from usage_hours), (select max(hour) from usage_waiting)) + interval '1 hour') as last
       from asked
     ), hours as materialized (
       select h.start, date_trunc('day', h.start, 'UTC') as day, ${first.text} as times,
              coalesce(h.start >= since, true) and coalesce(h.start + interval '1 hour' <= until, true)
                and ${first.text} = ${last.text} as is_whole,
              h.start + interval '1 hour' <= since or h.start >= until as is_outside
       from known
       cross join generate_series(first, date_trunc('day', last, 'UTC') + interval '23 hours', interval '1 hour') as h (start)
     ), days as (
       select day, times from hours
       where is_whole and extract(hour from start at time zone 'UTC') = 12 and not ?::boolean
     )
     select 'day' as span, ${isoOf('day')} as start, 1 as sign, times, null as settled_until from days
     union all
     select 'hour', ${isoOf('h.start')}, c.sign, c.times, null
     from hours h left join days d on d.day = h.day
     cross join lateral (values (1, case when h.is_whole then h.times end), (-1, d.times)) as c (sign, times)
     where c.times is not null and case when h.is_whole then h.times end is distinct from d.times
     union all
     select 'cut', ${isoOf('h.start')}, 1, '{}', greatest(
       (select max(u.settled_until) from usage_hours u where u.start = h.start),
       (select max(w.settled_at) from usage_waiting w where w.hour = h.start))::text
     from hours h where not h.is_whole and h.is_outside is not true`,
    [...since.values, ...until.values, ...first.values, ...first.values, ...last.values, by_hour],
  );
  const of = (span: FoundCell['span']) => found.filter((cell) => cell.span === span);
  return { days: of('day'), hours: of('hour'), cuts: of('cut'), summed_from: state!.summed_from };
}

function isoOf(moment: string): string {
  return `to_char(${moment} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;
}
