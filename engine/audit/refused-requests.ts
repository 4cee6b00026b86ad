import type { Database } from '../store/database.ts';

/** How many requests the gateway refused or gave up, by the code of its error. */
export interface RefusedRequests {
  readonly error: string;
  readonly requests: number;
  readonly people: number;
}

/**
 * Requests that ended with an error of the gateway since a moment, the most frequent error first. What an upstream answered is
 * none of them. Raises store_unavailable.
 */
export function refusedRequests(database: Pick<Database, 'query'>, since: Date): Promise<RefusedRequests[]> {
  return database.query<RefusedRequests>(
    'refused_requests',
    `select record ->> 'error' as error, count(*) as requests, count(distinct record ->> 'user') as people
     from audit_log
     where at >= $1 and left(record ->> 'status', 1) in ('4', '5') and record ->> 'error' is not null
     group by 1 order by 2 desc, 1`,
    [since],
  );
}
