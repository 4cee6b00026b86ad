import type { Database } from '../store/database.ts';

/** How often a limit of gateway.yaml decided over requests. */
export interface LimitRefusals {
  /** Name of its rule. */
  readonly rule: string;
  /** Requests it refused, and how many people sent those. */
  readonly refused: number;
  readonly refused_people: number;
  /** Requests it would have refused if it were enforced. */
  readonly would_refuse: number;
}

/**
 * What limits refused since a moment, by the audit records, and what those in shadow mode would have refused since the hour
 * it lies in. Raises store_unavailable.
 */
export function limitRefusals(database: Pick<Database, 'query'>, since: Date): Promise<LimitRefusals[]> {
  return database.query<LimitRefusals>(
    'limit_refusals',
    `with enforced as (
       select record ->> 'spend_rule' as rule, count(*)::integer as refused,
         count(distinct record ->> 'user')::integer as refused_people
       from audit_log
       -- Told this way too, because there is an index of what did not go well.
       where at >= $1 and left(record ->> 'status', 1) in ('4', '5')
         and record ->> 'error' in ('spend_limit_exceeded', 'rate_limit_exceeded')
       group by 1
     ), shadow as (
       select substr(name, length('spend:') + 1) as rule, sum(requests)::integer as would_refuse from shadow_hours
       where hour >= date_trunc('hour', $1::timestamptz, 'UTC') and starts_with(name, 'spend:')
       group by 1
     )
     select rule, coalesce(refused, 0) as refused, coalesce(refused_people, 0) as refused_people,
       coalesce(would_refuse, 0) as would_refuse
     from enforced full join shadow using (rule) where rule is not null`,
    [since],
  );
}
