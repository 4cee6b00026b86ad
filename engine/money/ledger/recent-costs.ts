import type { Clock } from '../../contract/services.ts';
import { databaseTime, type LedgerStore } from './ledger-statements.ts';

/** What a request cost. */
export interface RecentCost {
  readonly user: string;
  readonly model: string;
  readonly cost_nano_usd: number;
}

const MAX_ROWS = 20_000;

/**
 * What requests of the last 24 hours cost, as far as they cost anything and the upstream said so; the latest 20,000, the
 * earliest of them first.
 * Raises store_unavailable.
 */
export async function readRecentCosts(database: LedgerStore, clock: Clock): Promise<RecentCost[]> {
  const rows = await database.query<RecentCost>(
    'recent_costs',
    `select user_email as "user", model, cost_nano_usd from ledger
     where settled_at > coalesce($1::timestamptz, now()) - interval '1 day'
       and kind = 'request' and provenance ->> 'cost' = 'upstream' and cost_nano_usd > 0
     order by settled_at desc limit ${MAX_ROWS}`,
    [databaseTime(clock)],
  );
  return rows.reverse();
}
