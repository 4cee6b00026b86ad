import { NUMBERS, SUMMED } from './usage-dimensions.ts';

/** A sum of usage that is not what the ledger comes to. */
export interface UsageDifference {
  /** Sums of hours are compared with the ledger, those of days with their hours. */
  readonly span: 'hour' | 'day';
  readonly start: Date;
  /** `null` where sums have a number that is no name's; the next two as well. */
  readonly user: string | null;
  readonly model: string | null;
  readonly upstream: string | null;
  /** The column, such as `requests` or `cost_nano_usd`; `seconds_to_last_settlement` where an hour ends too early in the ledger. */
  readonly amount: string;
  /** What the sum is too large by; negative where it is too small. */
  readonly off_by: bigint;
}

const sums = (of: (column: string) => string) => SUMMED.map(of).join(', ');
const KEYS = Object.keys(NUMBERS) as (keyof typeof NUMBERS)[];
const named = KEYS.join(', ');
const numbered = Object.values(NUMBERS).join(', ');
/** A report that cuts an hour reads the ledger up to the last settlement that sums know of. */
const LATER = 'seconds_to_last_settlement';
const names = (of: string) =>
  KEYS.map((key) => `left join known named_${NUMBERS[key]} on named_${NUMBERS[key]}.id = ${of}.${NUMBERS[key]}`).join(
    ' ',
  );

/** Finds them, `most` at most, the largest first, each with the `total` of all. */
export const usageDifferencesSql = (most: number): string => `
with state as (
  select summed_from from usage_state
), known as materialized (
  select id, name from usage_names where digest = name_digest(name)
), hours as (
  select hour, ${named}, ${sums((column) => `sum(${column}) as ${column}`)},
         greatest(ceil(extract(epoch from max(settled_at) - max(settled_until))), 0) as ${LATER}
  from (
    select hour, ${named}, ${sums((column) => `-${column} as ${column}`)}, settled_at, null::timestamptz as settled_until
    from usage_lines, state where settled_at >= summed_from
    union all
    select hour, ${named}, ${sums((column) => column)}, null, settled_at from usage_waiting, state where settled_at >= summed_from
    union all
    select u.start, ${KEYS.map((key) => `named_${NUMBERS[key]}.name`).join(', ')}, ${sums((column) => `u.${column}`)}, null, u.settled_until
    from usage_hours u ${names('u')}
  ) as told
  group by hour, ${named}
  having ${SUMMED.map((column) => `sum(${column}) <> 0`).join(' or ')} or max(settled_at) > max(settled_until)
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
  select 'hour' as span, hour as start, user_email, model, upstream, ${sums((column) => column)}, -${LATER} as ${LATER} from hours
  union all
  select 'day', d.start, named_user_n.name, named_model_n.name, named_upstream_n.name, ${sums((column) => `d.${column}`)}, 0
  from days d ${names('d')}
)
select f.span, f.start, f.user_email as "user", f.model, f.upstream, a.amount, a.off_by::text as off_by, count(*) over () as total
from found f
cross join lateral (values ${sums((column) => `('${column}', f.${column})`)}, ('${LATER}', f.${LATER})) as a (amount, off_by)
where a.off_by <> 0
order by abs(a.off_by) desc, f.start, f.span, f.user_email, f.model, a.amount
limit ${most}`;
