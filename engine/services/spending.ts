import type { SpendScope, Window } from '../api.ts';
import type { Database } from './database.ts';

/** What one kind of request cost since a window began. */
export interface SpendingRow {
  readonly user: string;
  readonly team: string | null;
  readonly project: string | null;
  /** Token group of the access token; `null` when the token is no longer known. */
  readonly token_group: string | null;
  readonly model: string;
  readonly upstream: string;
  readonly cost_nano_usd: number;
}

/** Sums the ledger of the current day or month, told apart by everything a spend rule may look at. Raises store_unavailable. */
export async function readSpending(
  database: Pick<Database, 'query'>,
  window: Window,
  time_zone: string,
): Promise<SpendingRow[]> {
  const rows = await database.query<Omit<SpendingRow, 'cost_nano_usd'> & { cost_nano_usd: string }>(
    'spending_since',
    `select l.user_email as "user", l.team, l.project, t.token_group, l.model, l.upstream,
       sum(l.cost_nano_usd)::text as cost_nano_usd
     from ledger l left join access_tokens t on t.id = l.token_id
     where l.settled_at >= window_start($1, now(), $2)
     group by 1, 2, 3, 4, 5, 6`,
    [window, time_zone],
  );
  return rows.map((row) => ({ ...row, cost_nano_usd: Number(row.cost_nano_usd) }));
}

/** What limits count for one user, team, project, model or upstream in its current day or month. */
export interface Counter {
  readonly scope: SpendScope;
  readonly key: string;
  readonly window: Window;
  readonly spent_nano_usd: number;
  readonly held_nano_usd: number;
}

/** The counters of the days and months that `at`, in milliseconds since the epoch, lies in. Raises store_unavailable. */
export async function readCounters(
  database: Pick<Database, 'query'>,
  at: number,
  time_zone: string,
): Promise<Counter[]> {
  const rows = await database.query<Record<keyof Counter, string>>(
    'counters_at',
    `select scope, key, window_kind as "window", spent_nano_usd::text, held_nano_usd::text
     from spend_counters
     where window_start = window_start(window_kind, to_timestamp($1::double precision / 1000), $2)`,
    [at, time_zone],
  );
  return rows.map(({ scope, key, window, spent_nano_usd, held_nano_usd }) => ({
    scope: scope as SpendScope,
    key,
    window: window as Window,
    spent_nano_usd: Number(spent_nano_usd),
    held_nano_usd: Number(held_nano_usd),
  }));
}
