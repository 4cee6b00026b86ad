import type { AuditRecord } from '../api.ts';
import type { Database } from './database.ts';
import { nanoToUsd } from './money.ts';

/** Which ledger rows a report counts; every field that is present must match. */
export interface UsageFilter {
  /** Settled at or after. */
  readonly since?: Date | undefined;
  /** Settled before. */
  readonly until?: Date | undefined;
  readonly user?: string | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  readonly model?: string | undefined;
  readonly upstream?: string | undefined;
  readonly surface?: string | undefined;
}

/** Requests of one user, team, project, model, upstream and surface, summed up. */
export interface UsageRow {
  readonly user: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly model: string;
  readonly upstream: string;
  readonly surface: string;
  readonly requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cost_usd: number;
}

type SummedRow = Omit<UsageRow, 'cost_usd'> & { readonly cost_nano_usd: string };

/** Sums up the ledger, dearest rows first. Raises store_unavailable. */
export async function reportUsage(database: Pick<Database, 'query'>, filter: UsageFilter = {}): Promise<UsageRow[]> {
  const rows = await database.query<SummedRow>(
    'usage_report',
    `select user_email as "user", team, project, model, upstream, surface, count(*) as requests,
       sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
       sum(cache_read_tokens)::bigint as cache_read_tokens,
       sum(cache_write_5m_tokens)::bigint as cache_write_5m_tokens,
       sum(cache_write_1h_tokens)::bigint as cache_write_1h_tokens, sum(cost_nano_usd)::text as cost_nano_usd
     from ledger
     where ($1::timestamptz is null or settled_at >= $1) and ($2::timestamptz is null or settled_at < $2)
       and ($3::text is null or user_email = $3) and ($4::text is null or team = $4)
       and ($5::text is null or project = $5) and ($6::text is null or model = $6)
       and ($7::text is null or upstream = $7) and ($8::text is null or surface = $8)
     group by 1, 2, 3, 4, 5, 6
     order by sum(cost_nano_usd) desc, 1, 2, 3, 4, 5, 6`,
    [
      filter.since ?? null,
      filter.until ?? null,
      filter.user?.toLowerCase() ?? null,
      filter.team ?? null,
      filter.project ?? null,
      filter.model ?? null,
      filter.upstream ?? null,
      filter.surface ?? null,
    ],
  );
  return rows.map(({ cost_nano_usd, ...row }) => ({ ...row, cost_usd: nanoToUsd(BigInt(cost_nano_usd)) }));
}

/** One row of the audit log. */
export interface AuditRow {
  /** Grows in the order in which rows become visible: a reader who asks for what came after misses nothing. */
  readonly id: number;
  readonly at: Date;
  readonly request_id: string | null;
  readonly record: AuditRecord;
}

/** Audit records, oldest first: the first after an id, or the latest of all without one. Raises store_unavailable. */
export async function auditTail(
  database: Pick<Database, 'query'>,
  { after, limit }: { readonly after?: number | undefined; readonly limit: number },
): Promise<AuditRow[]> {
  if (after === undefined) {
    const latest = await database.query<AuditRow>(
      'audit_latest',
      'select id, at, request_id, record from audit_log order by id desc limit $1',
      [limit],
    );
    return latest.reverse();
  }
  return database.query<AuditRow>(
    'audit_after',
    'select id, at, request_id, record from audit_log where id > $1 order by id limit $2',
    [after, limit],
  );
}

/** The audit record of one request; `undefined` when the log has none. Raises store_unavailable. */
export async function findAuditRecord(
  database: Pick<Database, 'query'>,
  request_id: string,
): Promise<AuditRecord | undefined> {
  const [row] = await database.query<{ record: AuditRecord }>(
    'audit_record',
    'select record from audit_log where request_id = $1 order by id desc limit 1',
    [request_id],
  );
  return row?.record;
}
