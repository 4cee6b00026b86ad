import type { Window } from '../../contract/config.ts';
import type { CounterName, CounterStatus, LimitUnit, LimitWindow } from '../../contract/services.ts';
import type { Database } from '../../store/database.ts';
import type { LedgerStore } from '../ledger/ledger-statements.ts';
import { readForLong } from './long-report.ts';

/** What one kind of request cost since a window began. */
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
 * Sums the ledger of the current day, week or month, grouped by everything a spend rule may look at. It takes as long as
 * it needs. Its errors are pg's own.
 */
export async function readSpending(
  database: Pick<Database, 'knex'>,
  window: Window,
  time_zone: string,
): Promise<SpendingRow[]> {
  const rows = await readForLong(database, (read) =>
    read<Omit<SpendingRow, 'cost_nano_usd'> & { readonly cost_nano_usd: string }>(
      `select l.user_email as "user", l.team, l.project, l.token_id, t.token_group, l.model, l.upstream,
         sum(l.cost_nano_usd)::text as cost_nano_usd
       from ledger_lines l left join access_tokens t on t.id = l.token_id
       where l.settled_at >= window_start(?, now(), ?)
       group by 1, 2, 3, 4, 5, 6, 7`,
      [window, time_zone],
    ),
  );
  return rows.map((row) => ({ ...row, cost_nano_usd: Number(row.cost_nano_usd) }));
}

/** What counts against limits under one name in its current window; numbers in its unit. */
export interface Counter extends CounterName {
  readonly spent: number;
  readonly reserved: number;
  readonly most: number;
  readonly in_flight: number;
}

/** The counters of the windows that `at`, in milliseconds since the epoch, lies in. Raises store_unavailable. */
export async function readCounters(
  database: Pick<Database, 'query'>,
  at: number,
  time_zone: string,
): Promise<Counter[]> {
  const rows = await database.query<Record<keyof Counter, string>>(
    'counters_at',
    `select scope, key, window_kind as "window", unit, spent::text, reserved::text, most::text, in_flight::text
     from spend_counters
     where window_start = window_start(window_kind, to_timestamp($1::double precision / 1000), $2)`,
    [at, time_zone],
  );
  return rows.map(({ scope, key, window, unit, spent, reserved, most, in_flight }) => ({
    scope,
    key,
    window: window as LimitWindow,
    unit: unit as LimitUnit,
    spent: Number(spent),
    reserved: Number(reserved),
    most: Number(most),
    in_flight: Number(in_flight),
  }));
}

/** A limit that was set at run time, in the unit of its counter; when and by whom. */
export interface LimitSet extends CounterName {
  readonly amount: number;
  /** `at` in milliseconds since the epoch. */
  readonly changed: { readonly at: number; readonly by: string };
}

/** Room that was granted until a moment, in milliseconds since the epoch. */
export interface LimitGranted extends LimitSet {
  readonly expires_at: number;
}

/** The limits set at run time and the grants that are active at a moment, in milliseconds since the epoch. Raises store_unavailable. */
export async function readRunTimeLimits(
  database: Pick<Database, 'query'>,
  at: number,
): Promise<{ readonly settings: LimitSet[]; readonly grants: LimitGranted[] }> {
  type Row = Record<keyof CounterName | 'amount' | 'expires_at' | 'at' | 'by', string | null>;
  const rows = await database.query<Row>(
    'run_time_limits_at',
    `select scope, key, window_kind as "window", unit, amount::text, null as expires_at,
       (extract(epoch from set_at) * 1000)::text as at, set_by as by
     from limit_settings
     union all
     select scope, key, window_kind, unit, amount::text, (extract(epoch from expires_at) * 1000)::text,
       (extract(epoch from granted_at) * 1000)::text, granted_by
     from limit_grants
     where revoked_at is null and granted_at <= to_timestamp($1::double precision / 1000) and to_timestamp($1::double precision / 1000) < expires_at`,
    [at],
  );
  const limits = rows.map(({ scope, key, window, unit, amount, expires_at, at, by }) => ({
    scope: scope!,
    key: key!,
    window: window as LimitWindow,
    unit: unit as LimitUnit,
    amount: Number(amount),
    changed: { at: Math.floor(Number(at)), by: by! },
    expires_at: expires_at === null ? undefined : Number(expires_at),
  }));
  return {
    settings: limits.filter(({ expires_at }) => expires_at === undefined),
    grants: limits.flatMap(({ expires_at, ...limit }) => (expires_at === undefined ? [] : { ...limit, expires_at })),
  };
}

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
