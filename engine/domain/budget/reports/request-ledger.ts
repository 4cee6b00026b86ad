import type { Database } from '../../../base/store/database.ts';

interface RequestLedgerRow {
  readonly kind: 'request' | 'adjustment';
  readonly at: Date;
  readonly cost_nano_usd: bigint;
  /** Where the cost comes from, such as `upstream` or `estimate`. */
  readonly cost_from: string | null;
  readonly by: string | null;
}

/** The ledger rows of a request, the oldest first; none if it never reached an upstream. Raises store_unavailable. */
export async function readRequestLedger(
  database: Pick<Database, 'query'>,
  request_id: string,
): Promise<RequestLedgerRow[]> {
  const rows = await database.query<Omit<RequestLedgerRow, 'cost_nano_usd'> & { readonly cost_nano_usd: string }>(
    'request_ledger',
    `select kind, settled_at as at, cost_nano_usd::text as cost_nano_usd, provenance ->> 'cost' as cost_from,
       provenance ->> 'by' as by
     from ledger where request_id = $1 order by kind desc, settled_at`,
    [request_id],
  );
  return rows.map((row) => ({ ...row, cost_nano_usd: BigInt(row.cost_nano_usd) }));
}

/** An attempt of a request in the ledger. */
export interface RequestAttempt {
  readonly n: number;
  readonly upstream: string;
  readonly upstream_model: string;
  readonly certainty: string;
  readonly status: number | null;
  /** Row of the failover table; `answered` for the one that served. */
  readonly outcome: string;
  /** Key of ATTEMPT_REASONS. */
  readonly reason: string;
  readonly sends: number;
  /** Duration until its response or failure; null if its process ended before. */
  readonly ms: number | null;
  readonly upstream_request_id: string | null;
  readonly cost_nano_usd: number;
  readonly possibly_billed_nano_usd: number | null;
}

/** The attempts of a request in order; none where it has no row in the ledger. Raises store_unavailable. */
export function readRequestAttempts(
  database: Pick<Database, 'query'>,
  request_id: string,
): Promise<readonly RequestAttempt[]> {
  return database.query<RequestAttempt>(
    'request_attempts',
    `select n, upstream, upstream_model, certainty, status, outcome, reason, sends, ms, upstream_request_id,
            cost_nano_usd::float8 as cost_nano_usd, possibly_billed_nano_usd::float8 as possibly_billed_nano_usd
     from ledger_attempts where request_id = $1 order by n`,
    [request_id],
  );
}
