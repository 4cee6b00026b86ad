import { OperationError } from '../../contract/operation-error.ts';
import type { AuditRecord } from '../../contract/services.ts';
import type { Database } from '../../store/database.ts';
import { type ReportRead, readForLong } from './long-report.ts';
import { findCells } from './usage-cells.ts';
import { FORMATS, isTime, type UsageDimension, type UsageFilter } from './usage-dimensions.ts';
import { boundOf, usageStatement } from './usage-statement.ts';

export { isTime, USAGE_DIMENSIONS, type UsageDimension, type UsageFilter } from './usage-dimensions.ts';

/** What usage is grouped by unless somebody asks for something else. */
export const DEFAULT_DIMENSIONS: readonly UsageDimension[] = [
  'user',
  'team',
  'project',
  'model',
  'upstream',
  'protocol',
];

/** Requests that are alike in some dimensions, summed up; `null` in a dimension stands for those that have none. */
export interface UsageRow extends Readonly<Partial<Record<UsageDimension, string | null>>> {
  readonly requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  /** What it cost, as far as is known: adjustments are in it. */
  readonly cost_nano_usd: bigint;
  /** How much of it are adjustments; negative where the first price was too high. */
  readonly adjusted_nano_usd: bigint;
  /** What upstreams may bill for attempts that failed, beyond the cost. */
  readonly possibly_billed_nano_usd: bigint;
  /** How much of the cost is what upstreams may bill for attempts that failed, under `reserve: worst_case`. */
  readonly possible_nano_usd: bigint;
}

/** How usage is grouped, and in which time zone (IANA name, by default UTC) a day begins. */
export interface UsageGrouping {
  readonly by?: readonly UsageDimension[] | undefined;
  readonly time_zone?: string | undefined;
}

/** How much a report may take; nothing bounds one of the command line. */
export interface UsageBounds {
  /** Of each of its statements. */
  readonly patience_ms?: number | undefined;
  readonly most_rows?: number | undefined;
}

/**
 * Sums up usage, grouped by some dimensions: the most expensive rows first or, with a time among them, the oldest. It is what
 * the ledger comes to, by the sums of hours and days; the ledger itself is read where a period cuts an hour. Its errors are
 * pg's own; OperationError for more rows than there may be.
 */
export function reportUsage(
  database: Pick<Database, 'knex'>,
  filter: UsageFilter = {},
  { by = DEFAULT_DIMENSIONS, time_zone = 'UTC' }: UsageGrouping = {},
  { patience_ms, most_rows }: UsageBounds = {},
): Promise<UsageRow[]> {
  const report = async (read: ReportRead): Promise<UsageRow[]> => {
    const cells = await findCells(read, {
      since: boundOf(filter.since, time_zone),
      until: boundOf(filter.until, time_zone),
      time_zone,
      formats: by.filter(isTime).map((time) => FORMATS[time]),
      by_hour: by.includes('hour'),
    });
    // There are always fewer groups than PostgreSQL expects: it would sort all sums, on the disk, instead of hashing them, and
    // take two processes for dearer than one, which need half the time.
    await read(
      `select set_config('enable_sort', 'off', true), set_config('parallel_setup_cost', '0', true),
         set_config('parallel_tuple_cost', '0', true), set_config('max_parallel_workers_per_gather', '2', true)`,
      [],
    );
    const { text, values } = usageStatement({ filter, by, time_zone }, cells);
    const rows = await (most_rows === undefined
      ? read<UsageRow>(text, values)
      : read<UsageRow>(`${text} limit ?`, [...values, most_rows + 1]));
    if (most_rows !== undefined && rows.length > most_rows) {
      throw new OperationError(
        `that is more than ${most_rows} rows to add up: ask for a shorter time, for days instead of hours, or by less`,
      );
    }
    return rows.map((row) => ({
      ...row,
      cost_nano_usd: BigInt(row.cost_nano_usd),
      adjusted_nano_usd: BigInt(row.adjusted_nano_usd),
      possibly_billed_nano_usd: BigInt(row.possibly_billed_nano_usd),
      possible_nano_usd: BigInt(row.possible_nano_usd),
    }));
  };
  return readForLong(database, report, patience_ms);
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
