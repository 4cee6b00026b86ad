/** What a report on usage says, by the rows of the ledger alone: as slow as they are many, and right. */
import type { UsageDimension, UsageFilter, UsageGrouping, UsageRow } from '../../../engine/money/reports/usage.ts';
import type { Database } from '../../../engine/store/database.ts';

const FORWARDED = 'l.forwarded_at at time zone :zone';

const DIMENSIONS: Readonly<Record<UsageDimension, string>> = {
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
  estimated: "case l.cost_from when 'upstream' then 'no' when 'clamped' then 'clamped' else 'yes' end",
  hour: `to_char(${FORWARDED}, 'YYYY-MM-DD"T"HH24":00"')`,
  day: `to_char(${FORWARDED}, 'YYYY-MM-DD')`,
  week: `to_char(${FORWARDED}, 'IYYY-"W"IW')`,
  month: `to_char(${FORWARDED}, 'YYYY-MM')`,
};

/** Like `reportUsage`, from the view `ledger_lines`, in any order. */
export async function usageByRows(
  database: Pick<Database, 'knex'>,
  { since, until, ...named }: UsageFilter,
  { by = [], time_zone = 'UTC' }: UsageGrouping,
): Promise<UsageRow[]> {
  const names = Object.keys(named) as Exclude<keyof typeof named, undefined>[];
  const conditions = [
    'true',
    ...(since === undefined ? [] : [`l.forwarded_at >= ${momentOf('since', since)}`]),
    ...(until === undefined ? [] : [`l.forwarded_at < ${momentOf('until', until)}`]),
    ...names.filter((name) => named[name] !== undefined).map((name) => `${DIMENSIONS[name]} = :${name}`),
  ];
  const possible = (condition: string) =>
    `coalesce(sum(l.possibly_billed_nano_usd) filter (where l.cost_from ${condition}), 0)::text`;
  const { rows } = await database.knex.raw<{ rows: UsageRow[] }>(
    `select ${by.map((name) => `${DIMENSIONS[name]} as "${name}",`).join(' ')}
       count(*) filter (where l.kind = 'request') as requests,
       sum(l.input_tokens)::bigint as input_tokens, sum(l.output_tokens)::bigint as output_tokens,
       sum(l.cache_read_tokens)::bigint as cache_read_tokens, sum(l.cache_write_5m_tokens)::bigint as cache_write_5m_tokens,
       sum(l.cache_write_1h_tokens)::bigint as cache_write_1h_tokens, sum(l.cost_nano_usd)::text as cost_nano_usd,
       coalesce(sum(l.cost_nano_usd) filter (where l.kind = 'adjustment'), 0)::text as adjusted_nano_usd,
       ${possible("is distinct from 'possible'")} as possibly_billed_nano_usd, ${possible("= 'possible'")} as possible_nano_usd
     from ledger_lines l left join access_tokens t on t.id = l.token_id
     where ${conditions.join(' and ')}
     group by ${by.map((_, i) => i + 1).join(', ') || '()'} having count(*) > 0`,
    { zone: time_zone, since, until, ...named, user: named.user?.toLowerCase() } as never,
  );
  return rows.map((row) => ({
    ...row,
    cost_nano_usd: BigInt(row.cost_nano_usd),
    adjusted_nano_usd: BigInt(row.adjusted_nano_usd),
    possibly_billed_nano_usd: BigInt(row.possibly_billed_nano_usd),
    possible_nano_usd: BigInt(row.possible_nano_usd),
  }));
}

function momentOf(name: string, moment: Date | string): string {
  return moment instanceof Date
    ? `cast(:${name} as timestamptz)`
    : `first_of(cast(:${name} as timestamp) at time zone :zone, :zone)`;
}
