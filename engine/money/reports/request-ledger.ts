import type { Database } from '../../store/database.ts';

/** A row of the ledger about a request: what it was charged, or by how much that was put right later. */
export interface RequestLedgerRow {
  readonly kind: 'request' | 'adjustment';
  readonly at: Date;
  readonly cost_nano_usd: bigint;
  /** Where the cost comes from, such as `upstream` or `estimate`. */
  readonly cost_from: string | null;
  /** Who put the price right. */
  readonly by: string | null;
}

/** The ledger rows of a request, the oldest first; none where it never reached an upstream. Raises store_unavailable. */
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
