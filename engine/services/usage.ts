import type { AuditRecord } from '../api.ts';
import type { Database } from './database.ts';

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

/** What usage can be told apart by. A day or month is that of the settlement. */
export const USAGE_DIMENSIONS = [
  'user',
  'team',
  'project',
  'model',
  'upstream',
  'surface',
  'token',
  'day',
  'month',
] as const;

/** One of them. */
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** What usage is told apart by unless somebody asks for something else. */
export const DEFAULT_DIMENSIONS: readonly UsageDimension[] = [
  'user',
  'team',
  'project',
  'model',
  'upstream',
  'surface',
];

/** Requests that are alike in some dimensions, summed up; `null` in a dimension stands for those that have none. */
export interface UsageRow extends Readonly<Partial<Record<UsageDimension, string | null>>> {
  readonly requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cost_nano_usd: bigint;
}

/** How usage is told apart, and in which time zone (IANA name, by default UTC) a day begins. */
export interface UsageGrouping {
  readonly by?: readonly UsageDimension[] | undefined;
  readonly time_zone?: string | undefined;
}

const DIMENSION_SQL: Readonly<Record<UsageDimension, string>> = {
  user: 'user_email',
  team: 'team',
  project: 'project',
  model: 'model',
  upstream: 'upstream',
  surface: 'surface',
  token: 'token_id',
  day: "to_char(settled_at at time zone $9::text, 'YYYY-MM-DD')",
  month: "to_char(settled_at at time zone $9::text, 'YYYY-MM')",
};

const isTime = (dimension: UsageDimension) => dimension === 'day' || dimension === 'month';

/**
 * Sums up the ledger, told apart by some dimensions: the dearest rows first or, with a day or month among them, the
 * oldest. Raises store_unavailable.
 */
export async function reportUsage(
  database: Pick<Database, 'query'>,
  filter: UsageFilter = {},
  { by = DEFAULT_DIMENSIONS, time_zone = 'UTC' }: UsageGrouping = {},
): Promise<UsageRow[]> {
  const positions = by.map((_, i) => i + 1);
  const times = positions.filter((position) => isTime(by[position - 1]!));
  const order = [...times, 'sum(cost_nano_usd) desc', ...positions.filter((position) => !times.includes(position))];
  const rows = await database.query<UsageRow & { readonly cost_nano_usd: string }>(
    `usage_by_${by.join('_')}`,
    `select ${by.map((dimension) => `${DIMENSION_SQL[dimension]} as "${dimension}"`).join(', ')},
       count(*) as requests,
       sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
       sum(cache_read_tokens)::bigint as cache_read_tokens,
       sum(cache_write_5m_tokens)::bigint as cache_write_5m_tokens,
       sum(cache_write_1h_tokens)::bigint as cache_write_1h_tokens, sum(cost_nano_usd)::text as cost_nano_usd
     from ledger
     where ($1::timestamptz is null or settled_at >= $1) and ($2::timestamptz is null or settled_at < $2)
       and ($3::text is null or user_email = $3) and ($4::text is null or team = $4)
       and ($5::text is null or project = $5) and ($6::text is null or model = $6)
       and ($7::text is null or upstream = $7) and ($8::text is null or surface = $8)
     group by ${positions.join(', ')}
     order by ${order.join(', ')}`,
    [
      filter.since ?? null,
      filter.until ?? null,
      filter.user?.toLowerCase() ?? null,
      filter.team ?? null,
      filter.project ?? null,
      filter.model ?? null,
      filter.upstream ?? null,
      filter.surface ?? null,
      ...(times.length > 0 ? [time_zone] : []),
    ],
  );
  return rows.map((row) => ({ ...row, cost_nano_usd: BigInt(row.cost_nano_usd) }));
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
