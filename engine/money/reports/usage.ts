import type { AuditRecord } from '../../contract/services.ts';
import type { Database } from '../../store/database.ts';
import { joinSql, momentSql, readForLong, type SqlPart } from './long-report.ts';

/** Which ledger rows a report counts; every field that is present must match. */
export interface UsageFilter {
  /** Forwarded at or after; a date (YYYY-MM-DD) is midnight in the time zone of the report. */
  readonly since?: Date | string | undefined;
  /** Forwarded before; a date is midnight as well. */
  readonly until?: Date | string | undefined;
  /** E-mail address, any case. */
  readonly user?: string | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  readonly model?: string | undefined;
  readonly upstream?: string | undefined;
  readonly upstream_model?: string | undefined;
  readonly protocol?: string | undefined;
  /** Id of an access token or session. */
  readonly token?: string | undefined;
  readonly token_group?: string | undefined;
  /** Model that answered, where it is not the one asked for; service tier and speed, where they are not the ordinary ones. */
  readonly answered_model?: string | undefined;
  readonly service_tier?: string | undefined;
  readonly speed?: string | undefined;
}

/** The dimensions that are texts of a row, by which it can be looked for. */
const NAMED = [
  'user',
  'team',
  'project',
  'model',
  'upstream',
  'upstream_model',
  'protocol',
  'token',
  'token_group',
  'answered_model',
  'service_tier',
  'speed',
] as const;

/**
 * What usage can be grouped by. An hour, day, week (ISO 8601) or month is that in which it was forwarded, as limits count
 * it; `status` is a class such as `2xx`; `estimated` is `yes` where the upstream did not say what was used, and `clamped`
 * where it said more than is possible.
 */
export const USAGE_DIMENSIONS = [...NAMED, 'status', 'estimated', 'hour', 'day', 'week', 'month'] as const;

/** One of them. */
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

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

/** When it was forwarded, as limits count it: a request that is over after midnight is of the day before. */
const FORWARDED = 'l.forwarded_at at time zone ?';

const DIMENSION_SQL: Readonly<Record<UsageDimension, string>> = {
  user: 'l.user_email',
  team: 'l.team',
  project: 'l.project',
  model: 'l.model',
  upstream: 'l.upstream',
  upstream_model: 'l.upstream_model',
  protocol: 'l.protocol',
  token: 'l.token_id',
  token_group: 't.token_group',
  answered_model: "l.billed ->> 'model'",
  service_tier: "l.billed ->> 'service_tier'",
  speed: "l.billed ->> 'speed'",
  status: "left(l.status::text, 1) || 'xx'",
  // An adjustment goes with what it adjusts.
  estimated: "case l.cost_from when 'upstream' then 'no' when 'clamped' then 'clamped' else 'yes' end",
  hour: `to_char(${FORWARDED}, 'YYYY-MM-DD"T"HH24:00')`,
  day: `to_char(${FORWARDED}, 'YYYY-MM-DD')`,
  week: `to_char(${FORWARDED}, 'IYYY-"W"IW')`,
  month: `to_char(${FORWARDED}, 'YYYY-MM')`,
};

/** Whether a dimension is a time. */
export const isTime = (dimension: UsageDimension): boolean => /^(?:hour|day|week|month)$/.test(dimension);

/**
 * Sums up the ledger, grouped by some dimensions: the most expensive rows first or, with a time among them, the oldest. It
 * takes as long as it needs. Its errors are pg's own.
 */
export function reportUsage(
  database: Pick<Database, 'knex'>,
  filter: UsageFilter = {},
  { by = DEFAULT_DIMENSIONS, time_zone = 'UTC' }: UsageGrouping = {},
): Promise<UsageRow[]> {
  const columns = by.map((dimension) => ({
    text: `${DIMENSION_SQL[dimension]} as "${dimension}"`,
    values: isTime(dimension) ? [time_zone] : [],
  }));
  const positions = by.map((_, i) => i + 1);
  const times = positions.filter((position) => isTime(by[position - 1]!));
  const order = [...times, 'sum(l.cost_nano_usd) desc', ...positions.filter((position) => !times.includes(position))];
  const { text, values } = joinSql(
    [
      { text: 'select', values: [] },
      joinSql(columns, ', '),
      { text: `, ${SUMS} from ledger_lines l ${tokensOf(by, filter)} where`, values: [] },
      joinSql(conditionsOf(filter, time_zone), ' and '),
      { text: `group by ${positions.join(', ')} order by ${order.join(', ')}`, values: [] },
    ],
    ' ',
  );
  return readForLong(database, async (read) =>
    (await read<UsageRow>(text, values)).map((row) => ({
      ...row,
      cost_nano_usd: BigInt(row.cost_nano_usd),
      adjusted_nano_usd: BigInt(row.adjusted_nano_usd),
      possibly_billed_nano_usd: BigInt(row.possibly_billed_nano_usd),
      possible_nano_usd: BigInt(row.possible_nano_usd),
    })),
  );
}

/** Of `ledger_lines`, what upstreams may bill for attempts that failed: beyond the cost, and what is in it. */
export const POSSIBLY_BILLED = {
  beyond: `coalesce(sum(possibly_billed_nano_usd) filter (where cost_from is distinct from 'possible'), 0)::text`,
  in_cost: `coalesce(sum(possibly_billed_nano_usd) filter (where cost_from = 'possible'), 0)::text`,
};

const SUMS = `count(*) filter (where l.kind = 'request') as requests,
  sum(l.input_tokens)::bigint as input_tokens, sum(l.output_tokens)::bigint as output_tokens,
  sum(l.cache_read_tokens)::bigint as cache_read_tokens,
  sum(l.cache_write_5m_tokens)::bigint as cache_write_5m_tokens,
  sum(l.cache_write_1h_tokens)::bigint as cache_write_1h_tokens, sum(l.cost_nano_usd)::text as cost_nano_usd,
  coalesce(sum(l.cost_nano_usd) filter (where l.kind = 'adjustment'), 0)::text as adjusted_nano_usd,
  ${POSSIBLY_BILLED.beyond} as possibly_billed_nano_usd, ${POSSIBLY_BILLED.in_cost} as possible_nano_usd`;

function tokensOf(by: readonly UsageDimension[], { token_group }: UsageFilter): string {
  const needed = by.includes('token_group') || token_group !== undefined;
  return needed ? 'left join access_tokens t on t.id = l.token_id' : '';
}

function conditionsOf(filter: UsageFilter, time_zone: string): SqlPart[] {
  const { since, until } = filter;
  const conditions: SqlPart[] = [{ text: 'true', values: [] }];
  const add = (parts: readonly SqlPart[]) => conditions.push(joinSql(parts, ' '));
  // Nothing is settled before it was forwarded: months before need not be read.
  if (since !== undefined) add([{ text: 'l.settled_at >=', values: [] }, momentSql(since, time_zone)]);
  if (since !== undefined) add([{ text: 'l.forwarded_at >=', values: [] }, momentSql(since, time_zone)]);
  if (until !== undefined) add([{ text: 'l.forwarded_at <', values: [] }, momentSql(until, time_zone)]);
  for (const name of NAMED) {
    const wanted = name === 'user' ? filter.user?.toLowerCase() : filter[name];
    if (wanted !== undefined) add([{ text: `${DIMENSION_SQL[name]} = ?`, values: [wanted] }]);
  }
  return conditions;
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
