import { NUMBERS, SUMMED } from './usage-dimensions.ts';

/** A sum of usage that is not what the ledger comes to. */
export interface UsageDifference {
  /** Sums of hours are compared with the ledger, those of days with their hours. */
  readonly span: 'hour' | 'day';
  readonly start: Date;
  readonly user: string;
  readonly model: string;
  readonly upstream: string;
  /** The column, such as `requests` or `cost_nano_usd`. */
  readonly amount: string;
  /** What the sum is too large by; negative where it is too small. */
  readonly off_by: bigint;
}

const sums = (of: (column: string) => string) => SUMMED.map(of).join(', ');
const KEYS = Object.keys(NUMBERS) as (keyof typeof NUMBERS)[];
const named = KEYS.join(', ');
const numbered = Object.values(NUMBERS).join(', ');
const names = (of: string) =>
  KEYS.map(
    (key) => `left join usage_names named_${NUMBERS[key]} on named_${NUMBERS[key]}.id = ${of}.${NUMBERS[key]}`,
  ).join(' ');

/** Finds them, `most` at most, the largest first, each with the `total` of all. */
export const usageDifferencesSql = (most: number): string => `
with state as (
  select summed_from from usage_state
), hours as (
  select hour, ${named}, ${sums((column) => `sum(${column}) as ${column}`)}
  from (
    select hour, ${named}, ${sums((column) => `-${column} as ${column}`)} from usage_lines, state where settled_at >= summed_from
    union all
    select hour, ${named}, ${sums((column) => column)} from usage_waiting, state where settled_at >= summed_from
    union all
    select u.start, ${KEYS.map((key) => `named_${NUMBERS[key]}.name`).join(', ')}, ${sums((column) => `u.${column}`)}
    from usage_hours u ${names('u')}
  ) as told
  group by hour, ${named}
  having ${SUMMED.map((column) => `sum(${column}) <> 0`).join(' or ')}
), days as (
  select start, ${numbered}, ${sums((column) => `sum(${column}) as ${column}`)}
  from (
    select start, ${numbered}, ${sums((column) => column)} from usage_days
    union all
    select date_trunc('day', start, 'UTC'), ${numbered}, ${sums((column) => `-${column}`)} from usage_hours
  ) as told
  group by start, ${numbered}
  having ${SUMMED.map((column) => `sum(${column}) <> 0`).join(' or ')}
), found as (
  select 'hour' as span, hour as start, user_email, model, upstream, ${sums((column) => column)} from hours
  union all
  select 'day', d.start, named_user_n.name, named_model_n.name, named_upstream_n.name, ${sums((column) => `d.${column}`)}
  from days d ${names('d')}
)
select f.span, f.start, f.user_email as "user", f.model, f.upstream, a.amount, a.off_by::text as off_by, count(*) over () as total
from found f
cross join lateral (values ${sums((column) => `('${column}', f.${column})`)}) as a (amount, off_by)
where a.off_by <> 0
order by abs(a.off_by) desc, f.start, f.span, f.user_email, f.model, a.amount
limit ${most}`;
