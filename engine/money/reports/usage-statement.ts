import { joinSql, momentSql, type SqlPart } from './long-report.ts';
import type { UsageCell, UsageCells } from './usage-cells.ts';
import {
  AMOUNTS,
  COLUMNS,
  COUNTS,
  FORMATS,
  isTime,
  NAMED,
  NUMBERS,
  SUMMED,
  type UsageDimension,
  type UsageFilter,
} from './usage-dimensions.ts';

/** A question about usage. */
interface Asked {
  readonly filter: UsageFilter;
  readonly by: readonly UsageDimension[];
  readonly time_zone: string;
}

/** A bound of a period as SQL; null without one. */
export function boundOf(moment: Date | string | undefined, time_zone: string): SqlPart {
  return moment === undefined ? sql('cast(null as timestamptz)') : momentSql(moment, time_zone);
}

/** The statement that adds up the sums of cells, the lines that wait for them, and what only the ledger tells. */
export function usageStatement(asked: Asked, cells: UsageCells): SqlPart {
  const { by } = asked;
  const sources = [waitingSql(asked, cells)];
  if (cells.days.length > 0) sources.push(sumsSql(asked, 'usage_days', cells.days));
  if (cells.hours.length > 0) sources.push(sumsSql(asked, 'usage_hours', cells.hours));
  if (cells.cuts.length > 0) sources.push(cutsSql(asked, cells));
  if (cells.summed_from !== '-infinity') sources.push(olderSql(asked, cells));

  const names = by.map((name) => `"${name}"`);
  const sums = [
    ...COUNTS.map((column) => `sum(${column})::bigint as ${column}`),
    ...AMOUNTS.map((column) => `sum(${column})::text as ${column}`),
  ];
  const positions = by.map((_, i) => i + 1);
  const times = positions.filter((position) => isTime(by[position - 1]!));
  const others = positions.filter((position) => !times.includes(position));
  return joined(
    sql(`select ${[...names, ...sums].join(', ')} from (`),
    joinSql(sources, ' union all '),
    sql(`) as used (${[...names, ...SUMMED].join(', ')})`),
    // What was taken back, or belongs to another day, leaves nothing.
    sql(`group by ${positions.join(', ') || '()'} having sum(lines) > 0`),
    sql(`order by ${[...times, 'sum(cost_nano_usd) desc', ...others].join(', ')}`),
  );
}

/** Sums of cells: grouped by numbers first, and told by names when there are few of them left. */
function sumsSql({ by, filter }: Asked, table: 'usage_days' | 'usage_hours', cells: readonly UsageCell[]): SqlPart {
  const slots = [...new Map(cells.map(({ times }) => [times.join(), times])).values()];
  const slotOf = new Map(slots.map((times, i) => [times.join(), String(i + 1)]));
  const wanted = joinSql([sql('true'), ...NAMED.flatMap((name) => numberedSql(name, filter[name]))], ' and ');
  const starts = cells.map(({ start }) => start).sort();
  // Days that are all told alike follow one another. Those of one person are found by index.
  const in_a_row = table === 'usage_days' && slots.length === 1 && filter.user === undefined;
  const rows = in_a_row
    ? joined(
        {
          text: `${table} u cross join (values (1, 1)) as c (sign, slot)
            where u.start between cast(? as timestamptz) and cast(? as timestamptz) and`,
          values: [starts[0]!, starts.at(-1)!],
        },
        wanted,
      )
    : joined(
        {
          text: `unnest(cast(? as timestamptz[]), cast(? as bigint[]), cast(? as integer[])) as c (start, sign, slot)
            join ${table} u on u.start = c.start
            where u.start between cast(? as timestamptz) and cast(? as timestamptz) and`,
          values: [
            cells.map(({ start }) => start),
            cells.map(({ sign }) => String(sign)),
            cells.map(({ times }) => slotOf.get(times.join())!),
            starts[0]!,
            starts.at(-1)!,
          ],
        },
        wanted,
      );
  const named = by.filter((name) => !isTime(name));
  const numbers = [...new Set(named.map((name) => NUMBERS[COLUMNS[name]]))];
  const sign = table === 'usage_days' ? '' : 'c.sign * ';
  const keys = ['c.slot', ...numbers.map((number) => `u.${number}`)].join(', ');
  const times = by.filter(isTime);
  const shown = by.map((name) => {
    if (!isTime(name)) return sql(name === 'token_group' ? 't.token_group' : `named_${NUMBERS[COLUMNS[name]]}.name`);
    return { text: '(cast(? as text[]))[g.slot]', values: [slots.map((slot) => slot[times.indexOf(name)]!)] };
  });
  const names = numbers.map((number) => `left join usage_names named_${number} on named_${number}.id = g.${number}`);
  const tokens = by.includes('token_group') ? 'left join access_tokens t on t.id = named_token_n.name' : '';
  return joined(
    sql('select'),
    joinSql([...shown, ...SUMMED.map((column) => sql(`g.${column}`))], ', '),
    sql(`from (select ${keys}, ${SUMMED.map((column) => `sum(${sign}u.${column}) as ${column}`).join(', ')} from`),
    rows,
    sql(`group by ${keys}) as g ${names.join(' ')} ${tokens}`),
  );
}

/** What sums have to be of, where something is wanted. */
function numberedSql(name: (typeof NAMED)[number], wanted: string | undefined): SqlPart[] {
  if (wanted === undefined) return [];
  const number = `u.${NUMBERS[COLUMNS[name]]}`;
  if (name === 'token_group') {
    const text = `${number} = any (array(
      select k.id from access_tokens t join usage_names k on k.digest = name_digest(t.id) where t.token_group = ?))`;
    return [{ text, values: [wanted] }];
  }
  const text = `${number} = coalesce((select k.id from usage_names k where k.digest = name_digest(?)), -1)`;
  return [{ text, values: [name === 'user' ? wanted.toLowerCase() : wanted] }];
}

function waitingSql(asked: Asked, { cuts, summed_from }: UsageCells): SqlPart {
  return joined(
    selectSql(asked, timesAt(asked, 'l.hour')),
    sql('from usage_waiting l'),
    whereSql(
      asked,
      { text: 'l.settled_at >= cast(? as timestamptz)', values: [summed_from] },
      { text: 'l.hour <> all (cast(? as timestamptz[]))', values: [cuts.map(({ start }) => start)] },
      ...periodSql(asked, 'l.hour'),
    ),
  );
}

function cutsSql(asked: Asked, { cuts, summed_from }: UsageCells): SqlPart {
  const known = cuts.filter(({ settled_until }) => settled_until !== null);
  return joined(
    selectSql(asked, timesAt(asked, 'l.forwarded_at')),
    {
      text: `from unnest(cast(? as timestamptz[]), cast(? as timestamptz[])) as c (start, settled_until)
        cross join lateral lines_of_hour(c.start, cast(? as timestamptz), c.settled_until) as l`,
      values: [known.map(({ start }) => start), known.map(({ settled_until }) => settled_until!), summed_from],
    },
    whereSql(asked, ...periodSql(asked, 'l.forwarded_at')),
  );
}

/** What was settled before the sums began, as long as they work backwards. */
function olderSql(asked: Asked, { summed_from }: UsageCells): SqlPart {
  // Nothing is settled before it was forwarded: months before need not be read.
  const { since } = asked.filter;
  const settled = since === undefined ? [] : [joined(sql('l.settled_at >='), momentSql(since, asked.time_zone))];
  return joined(
    selectSql(asked, timesAt(asked, 'l.forwarded_at')),
    sql('from usage_lines l'),
    whereSql(
      asked,
      { text: 'l.settled_at < cast(? as timestamptz)', values: [summed_from] },
      ...settled,
      ...periodSql(asked, 'l.forwarded_at'),
    ),
  );
}

/** The dimensions and what is summed up; `times` gives the times, by their places among the times. */
function selectSql({ by }: Asked, times: (i: number) => SqlPart): SqlPart {
  const dimensions = by.map((name) => (isTime(name) ? times(by.filter(isTime).indexOf(name)) : sql(lineOf(name))));
  return joined(sql('select'), joinSql([...dimensions, ...SUMMED.map((column) => sql(`l.${column}`))], ', '));
}

function timesAt({ by, time_zone }: Asked, moment: string): (i: number) => SqlPart {
  const formats = by.filter(isTime).map((time) => FORMATS[time]);
  return (i) => ({ text: `to_char(${moment} at time zone ?, ?)`, values: [time_zone, formats[i]!] });
}

function whereSql({ by, filter }: Asked, ...more: SqlPart[]): SqlPart {
  const conditions: SqlPart[] = [sql('true'), ...more];
  for (const name of NAMED) {
    const wanted = name === 'user' ? filter.user?.toLowerCase() : filter[name];
    if (wanted !== undefined) conditions.push({ text: `${lineOf(name)} = ?`, values: [wanted] });
  }
  const needs_tokens = by.includes('token_group') || filter.token_group !== undefined;
  const tokens = needs_tokens ? 'left join access_tokens t on t.id = l.token_id ' : '';
  return joined(sql(`${tokens}where`), joinSql(conditions, ' and '));
}

function periodSql({ filter: { since, until }, time_zone }: Asked, moment: string): SqlPart[] {
  return [
    ...(since === undefined ? [] : [joined(sql(`${moment} >=`), momentSql(since, time_zone))]),
    ...(until === undefined ? [] : [joined(sql(`${moment} <`), momentSql(until, time_zone))]),
  ];
}

/** A dimension of a line. */
function lineOf(name: keyof typeof COLUMNS): string {
  return name === 'token_group' ? 't.token_group' : `l.${COLUMNS[name]}`;
}

function sql(text: string): SqlPart {
  return { text, values: [] };
}

function joined(...parts: SqlPart[]): SqlPart {
  return joinSql(parts, ' ');
}
