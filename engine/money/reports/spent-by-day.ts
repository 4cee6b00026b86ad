import type { CounterStatus } from '../../contract/services.ts';
import type { LedgerStore } from '../ledger/ledger-statements.ts';

/** Whether somebody's spending in a window is told although nothing limits it, so that it may not be counted either. */
export function isUncounted({ scope, window, limit }: Pick<CounterStatus, 'scope' | 'window' | 'limit'>): boolean {
  return scope === 'user' && (window === 'week' || window === 'month') && limit === null;
}

/**
 * Statuses with what users have spent in weeks and months that nothing limits: the sum of their days, which are counted
 * for everybody. Errors are the database's.
 * @param now `null` for the database's own clock
 */
export async function addSpentByDay(
  statuses: readonly CounterStatus[],
  { database, now, time_zone }: { database: LedgerStore; now: Date | null; time_zone: string },
): Promise<CounterStatus[]> {
  const uncounted = statuses.filter(isUncounted);
  if (uncounted.length === 0) return [...statuses];
  const rows = await database.query<{ spent: string }>(
    'ledger_spent_by_day',
    `select coalesce(sum(d.spent), 0)::text as spent
     from (select coalesce($1::timestamptz, now()) as at) as m
     cross join unnest($3::text[], $4::text[]) with ordinality as c (key, kind, position)
     left join spend_counters d on d.scope = 'user' and d.key = c.key and d.window_kind = 'day' and d.unit = 'nano_usd'
       and d.window_start >= window_start(c.kind, m.at, $2) and d.window_start <= window_start('day', m.at, $2)
     group by c.position order by c.position`,
    [now, time_zone, uncounted.map(({ key }) => key), uncounted.map(({ window }) => window)],
  );
  const by_day = new Map(uncounted.map((limit_status, i) => [limit_status, Number(rows[i]!.spent)]));
  return statuses.map((limit_status) => ({
    ...limit_status,
    spent: Math.max(limit_status.spent, by_day.get(limit_status) ?? 0),
  }));
}
