import type { Database } from '../store/database.ts';

/** How often a limit of gateway.yaml decided over requests. */
export interface LimitRefusals {
  /** Name of its rule. */
  readonly rule: string;
  /** Requests it refused, and how many people sent those. */
  readonly refused: number;
  readonly refused_people: number;
  /** Requests it would have refused if it were enforced, and how many people sent those. */
  readonly would_refuse: number;
  readonly would_refuse_people: number;
}

/** What limits refused since a moment, by the audit records. Raises store_unavailable. */
export function limitRefusals(database: Pick<Database, 'query'>, since: Date): Promise<LimitRefusals[]> {
  return database.query<LimitRefusals>(
    'limit_refusals',
    `select rule, (count(*) filter (where not is_shadow))::integer as refused,
       (count(distinct who) filter (where not is_shadow))::integer as refused_people,
       (count(*) filter (where is_shadow))::integer as would_refuse,
       (count(distinct who) filter (where is_shadow))::integer as would_refuse_people
     from (
       select record ->> 'spend_rule' as rule, record ->> 'user' as who, false as is_shadow from audit_log
       where at >= $1 and record ->> 'error' in ('spend_limit_exceeded', 'rate_limit_exceeded')
       union all
       select substr(mark, length('spend:') + 1), record ->> 'user', true
       from audit_log cross join lateral jsonb_array_elements_text(record -> 'shadow') as mark
       where at >= $1 and record ? 'shadow' and starts_with(mark, 'spend:')
     ) as decided
     where rule is not null group by rule`,
    [since],
  );
}
