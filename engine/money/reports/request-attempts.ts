import type { Database } from '../../store/database.ts';

/** What became of one attempt of a request that is in the ledger. */
export interface RequestAttempt {
  /** From 1. */
  readonly n: number;
  readonly upstream: string;
  readonly upstream_model: string;
  readonly certainty: string;
  readonly status: number | null;
  /** Row of the failover table; `answered` for the one that served. */
  readonly outcome: string;
  /** What happened then, and why: a word of ATTEMPT_REASONS. */
  readonly reason: string;
  /** How often it was sent. */
  readonly sends: number;
  /** From its beginning until it was answered or failed; null where its process ended before. */
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
