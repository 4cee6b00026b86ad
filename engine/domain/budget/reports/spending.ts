import type { CounterName, CounterStatus, LimitChanges } from '../../../base/contract/services.ts';
import { isSpendWindow, type SpendWindow } from '../../../base/contract/windows.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Balance, Counted } from '../limits/headroom.ts';
import { readForLong } from './long-report.ts';

/** Cost of requests that are alike since the beginning of a window. */
export interface SpendingRow {
  readonly user: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly token_id: string | null;
  /** Token group of the access token; `null` when the token is no longer known. */
  readonly token_group: string | null;
  readonly model: string;
  readonly upstream: string;
  readonly cost_nano_usd: number;
}

/**
 * Sums the ledger of the current calendar window, grouped by all facts of spend rules. Without a timeout. Errors are pg's own.
 */
export async function readSpending(
  database: Pick<Database, 'knex'>,
  window: SpendWindow,
  time_zone: string,
): Promise<SpendingRow[]> {
  const rows = await readForLong(database, (read) =>
    read<Omit<SpendingRow, 'cost_nano_usd'> & { readonly cost_nano_usd: string }>(
      `select l.user_email as "user", l.team, l.project, l.token_id, t.token_group, l.model, l.upstream,
         sum(l.cost_nano_usd)::text as cost_nano_usd
       from usage_lines l left join access_tokens t on t.id = l.token_id
       where l.settled_at >= window_start(?, now(), ?)
       group by 1, 2, 3, 4, 5, 6, 7`,
      [window, time_zone],
    ),
  );
  return rows.map((row) => ({ ...row, cost_nano_usd: Number(row.cost_nano_usd) }));
}

interface Reasoned {
  readonly reason: string | null;
}

/** Run-time changes as `changed_limit` of the database returns them, in the unit of the counter. */
export interface ChangesInForce {
  readonly set: (NonNullable<LimitChanges['set']> & Reasoned) | null;
  readonly grants: readonly (LimitChanges['grants'][number] & Reasoned)[];
}

/** Only administrators may read reasons. */
export function withoutReasons({ set, grants }: ChangesInForce): LimitChanges {
  const without = <Change extends Reasoned>({ reason: _, ...change }: Change) => change;
  return { set: set && without(set), grants: grants.map((grant) => without(grant)) };
}

/**
 * Reads the balances of the windows at a moment (milliseconds since the epoch), with the limits and grants in force then. Raises
 * store_unavailable.
 */
export async function readCounted(database: Pick<Database, 'query'>, at: number, time_zone: string): Promise<Counted> {
  const moment = new Date(at);
  const balances = await database.query<Balance>(
    'counters_at',
    `select scope, key, window_kind as "window", unit, spent::float8 as spent, reserved::float8 as reserved,
       most::float8 as most, in_flight
     from spend_counters where window_start = window_start(window_kind, $1, $2)`,
    [moment, time_zone],
  );
  const changed = await database.query<CounterName & { readonly changes: ChangesInForce }>(
    'changed_limits_at',
    `select c.scope, c.key, c.window_kind as "window", c.unit, l.changes
     from changed_counters($1) as c cross join lateral changed_limit(c.scope, c.key, c.window_kind, c.unit, $1) as l`,
    [moment],
  );
  return { balances, changed: changed.map((each) => ({ ...each, changes: withoutReasons(each.changes) })) };
}

/** Whether a status is of a window without a limit, which may have no counter. */
export function isUncounted({ scope, window, limit }: Pick<CounterStatus, 'scope' | 'window' | 'limit'>): boolean {
  return scope === 'user' && window !== 'day' && isSpendWindow(window) && limit === null;
}

/**
 * Adds the spending of users in longer windows without a limit: the sum of their days, which always count. Errors are the
 * database's.
 * @param now `null` for the database's own clock
 */
export async function addSpentByDay(
  statuses: readonly CounterStatus[],
  { database, now, time_zone }: { database: Pick<Database, 'query'>; now: Date | null; time_zone: string },
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
