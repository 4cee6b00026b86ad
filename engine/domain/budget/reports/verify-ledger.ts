import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../../base/contract/services.ts';
import type { Database } from '../../../base/store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { type ReportRead, type ReportValue, readForLong, workForLong } from './long-report.ts';
import { KEY_COLUMNS, SUMMED } from './usage.ts';

/** A sum of usage that differs from the ledger. */
export interface UsageDifference {
  /** Sums of hours are compared with the ledger, those of days with their hours. */
  readonly span: 'hour' | 'day';
  readonly start: Date;
  /** `null` if the number in the sum has no name; so are the next two. */
  readonly user: string | null;
  readonly model: string | null;
  readonly upstream: string | null;
  /** The column, such as `requests` or `cost_nano_usd`; `seconds_to_last_settlement` where an hour ends too early in the ledger. */
  readonly amount: string;
  /** Difference: positive if the sum is too large. */
  readonly off_by: bigint;
}

const sums = (of: (column: string) => string) => SUMMED.map(of).join(', ');
const named = KEY_COLUMNS.join(', ');
const numbered = KEY_COLUMNS.map((column) => `${column}_n`).join(', ');
/** A report that cuts an hour reads the ledger up to the last settlement of the sums. */
const LATER = 'seconds_to_last_settlement';
const names = (of: string) =>
  KEY_COLUMNS.map((column) => `left join known as ${column}_k on ${column}_k.id = ${of}.${column}_n`).join(' ');

/** SQL: at most `most` differences, the largest first, each with the `total`. */
const usageDifferencesSql = (most: number): string => `
with known as materialized (
  select id, name from usage_names where digest = name_digest(name)
), hours as (
  select hour, ${named}, ${sums((column) => `sum(${column}) as ${column}`)},
         greatest(ceil(extract(epoch from max(settled_at) - max(settled_until))), 0) as ${LATER}
  from (
    select hour, ${named}, ${sums((column) => `-${column} as ${column}`)}, settled_at, null::timestamptz as settled_until
    from usage_lines
    union all
    select hour, ${named}, ${sums((column) => column)}, null, settled_at from usage_waiting
    union all
    select u.start, ${KEY_COLUMNS.map((column) => `${column}_k.name`).join(', ')}, ${sums((column) => `u.${column}`)}, null, u.settled_until
    from usage_hours u ${names('u')}
  ) as counted
  group by hour, ${named}
  having ${SUMMED.map((column) => `sum(${column}) <> 0`).join(' or ')} or max(settled_at) > max(settled_until)
), days as (
  select start, ${numbered}, ${sums((column) => `sum(${column}) as ${column}`)}
  from (
    select start, ${numbered}, ${sums((column) => column)} from usage_days
    union all
    select date_trunc('day', start, 'UTC'), ${numbered}, ${sums((column) => `-${column}`)} from usage_hours
  ) as counted
  group by start, ${numbered}
  having ${SUMMED.map((column) => `sum(${column}) <> 0`).join(' or ')}
), found as (
  select 'hour' as span, hour as start, user_email, model, upstream, ${sums((column) => column)}, -${LATER} as ${LATER} from hours
  union all
  select 'day', d.start, user_email_k.name, model_k.name, upstream_k.name, ${sums((column) => `d.${column}`)}, 0
  from days d ${names('d')}
)
select f.span, f.start, f.user_email as "user", f.model, f.upstream, a.amount, a.off_by::text as off_by, count(*) over () as total
from found f
cross join lateral (values ${sums((column) => `('${column}', f.${column})`)}, ('${LATER}', f.${LATER})) as a (amount, off_by)
where a.off_by <> 0
order by abs(a.off_by) desc, f.start, f.span, f.user_email, f.model, a.amount
limit ${most}`;

/** A counter that differs from the ledger and the reservations. */
export interface CounterDifference {
  readonly counter_id: string | null;
  /** This and the next four are `null` when money counts against a counter that does not exist. */
  readonly scope: string | null;
  readonly key: string | null;
  readonly window: string | null;
  readonly unit: string | null;
  /** Also `null` for requests in flight, whose window has no beginning. */
  readonly window_start: Date | null;
  readonly amount: 'spent' | 'reserved' | 'most' | 'in_flight';
  readonly kept: bigint;
  readonly recomputed: bigint;
}

/** A request with several ledger rows (without adjustments), or with one while its money is still reserved. */
export interface RepeatedRequest {
  readonly request_id: string;
  readonly ledger_rows: number;
  readonly reservations: number;
  readonly cost_nano_usd: bigint;
}

/** A ledger row with a cost and without counters, which no limit counted. */
export interface UncountedRequest {
  readonly request_id: string;
  readonly user: string;
  readonly cost_nano_usd: bigint;
}

/** A ledger row that differs from the sum of its attempts. */
export interface DisagreeingAttempts {
  readonly request_id: string;
  readonly user: string;
  readonly cost_nano_usd: bigint;
  readonly attempts_nano_usd: bigint;
  readonly possibly_billed_nano_usd: bigint;
  readonly attempts_possibly_billed_nano_usd: bigint;
}

/** A reservation of a process without a heartbeat for longer than any running gateway waits. */
export interface LeftReservation {
  readonly request_id: string;
  readonly user: string;
  readonly reserved_at: Date;
  readonly amount_nano_usd: bigint;
  readonly heartbeat_at: Date | null;
}

/** Findings of one kind: their number, and the first, the largest amounts first. */
export interface Found<Finding> {
  readonly total: number;
  readonly first: readonly Finding[];
}

/** Result of a verification. */
export interface LedgerVerification {
  readonly counters: number;
  readonly ledger_rows: number;
  readonly cost_nano_usd: bigint;
  readonly reservations: number;
  readonly reserved_nano_usd: bigint;
  readonly differences: Found<CounterDifference>;
  readonly repeated: Found<RepeatedRequest>;
  readonly uncounted: Found<UncountedRequest>;
  readonly attempts: Found<DisagreeingAttempts>;
  readonly left: Found<LeftReservation>;
  readonly sums: Found<UsageDifference>;
}

const MAX_FOUND = 1000;
/** A gateway records the reservations of a process 30 to 65 seconds after its last heartbeat. */
const LEFT_SECONDS = 120;

const EXTENT = `
select (select count(*) from spend_counters) as counters, l.*, r.*
from (select count(*) as ledger_rows, coalesce(sum(cost_nano_usd), 0)::text as cost_nano_usd from ledger) as l,
     (select count(*) as reservations, coalesce(sum(amount_nano_usd + coalesce(counted_apart(held), 0)), 0)::text as reserved_nano_usd
      from reservations) as r`;

/*
 * The reserved amount of a counter is its reservations and leases. Requests and tokens have no ledger rows, and rows before `?` were
 * dropped; reservations are always complete.
 */
const DIFFERENCES = `
with moved as (
  select c.id, l.cost_nano_usd - case when l.attempts is null or l.kind <> 'request' then 0 else counted_apart(l.attempts) end
           as spent, 0 as nano_usd, 0 as most, 0 as tokens, 0 as requests
  from ledger l cross join unnest(l.counter_ids) as c (id)
  union all
  select unnest(a.counter_ids), a.cost_nano_usd, 0, 0, 0, 0
  from ledger l cross join jsonb_to_recordset(l.attempts) as a (cost_nano_usd bigint, counter_ids bigint[])
  where l.attempts is not null and l.kind = 'request'
  union all
  select unnest(h.counter_ids), 0, h.cost_nano_usd, h.cost_nano_usd, 0, 0
  from reservations r cross join jsonb_to_recordset(r.held) as h (cost_nano_usd bigint, counter_ids bigint[])
  where r.held is not null
  union all
  select c.id, 0, r.amount_nano_usd, r.most_nano_usd, r.tokens, 1
  from reservations r cross join unnest(r.counter_ids || r.rate_counter_ids) as c (id)
), recomputed as (
  select id, sum(spent) as spent, sum(nano_usd) as nano_usd, sum(most) as most, sum(tokens) as tokens,
         sum(requests) as requests
  from moved group by id
), leased as (
  select counter_id as id, sum(amount) as amount, sum(most) as most, sum(requests) as requests
  from reservation_leases group by 1
), compared as (
  select s.*, coalesce(s.id, r.id) as counter_id, coalesce(s.unit, 'nano_usd') as counted_in,
         coalesce(r.spent, 0) as money, coalesce(r.nano_usd, 0) as nano_usd, coalesce(r.most, 0) as most_nano_usd,
         coalesce(r.tokens, 0) as tokens, coalesce(r.requests, 0) as requests,
         coalesce(l.amount, 0) as leased, coalesce(l.most, 0) as most_leased, coalesce(l.requests, 0) as requests_leased,
         coalesce(s.unit = 'nano_usd' and s.window_start >= cast(? as timestamptz), s.id is null) as complete
  from spend_counters s full join recomputed r on r.id = s.id left join leased l on l.id = s.id
)
select c.counter_id::text as counter_id, c.scope, c.key, c.window_kind as "window", c.unit,
       case when isfinite(c.window_start) then c.window_start end as window_start,
       d.amount, d.kept::text as kept, d.recomputed::text as recomputed, count(*) over () as total
from compared c
cross join lateral (values
  ('spent', case when c.complete then coalesce(c.spent, 0) end, c.money),
  ('reserved', coalesce(c.reserved, 0), c.leased + case c.counted_in when 'nano_usd' then c.nano_usd when 'tokens' then c.tokens else c.requests end),
  ('most', coalesce(c.most, 0), c.most_leased + case c.counted_in when 'nano_usd' then c.most_nano_usd when 'tokens' then c.tokens else c.requests end),
  ('in_flight', coalesce(c.in_flight, 0), c.requests_leased + c.requests)) as d (amount, kept, recomputed)
where d.kept <> d.recomputed
order by abs(d.kept - d.recomputed) desc, 1, array_position(array['spent', 'reserved', 'most', 'in_flight'], d.amount)
limit ${MAX_FOUND}`;

const REPEATED = `
select request_id, count(*) filter (where settled) as ledger_rows, count(*) filter (where not settled) as reservations,
       sum(cost)::text as cost_nano_usd, count(*) over () as total
from (select request_id, cost_nano_usd as cost, true as settled from ledger where kind = 'request'
      union all select request_id, 0, false from reservations) as known
group by request_id having count(*) > 1
order by sum(cost) desc, request_id
limit ${MAX_FOUND}`;

const UNCOUNTED = `
select request_id, user_email as "user", cost_nano_usd::text as cost_nano_usd, count(*) over () as total
from ledger l where cost_nano_usd <> 0 and cardinality(counter_ids) = 0
order by abs(l.cost_nano_usd) desc, request_id
limit ${MAX_FOUND}`;

// Attempts are numbered from 1; the last one has the upstream of the row.
const ATTEMPTS = `
select l.request_id, l.user_email as "user", l.cost_nano_usd::text as cost_nano_usd,
       a.cost::text as attempts_nano_usd, p.row::text as possibly_billed_nano_usd,
       a.possible::text as attempts_possibly_billed_nano_usd, count(*) over () as total
from ledger l
cross join lateral (
  select coalesce(sum(a.cost_nano_usd), 0) as cost, coalesce(sum(a.possibly_billed_nano_usd), 0) as possible,
         array_agg(a.n order by a.n) as numbers, (array_agg(a.upstream order by a.n desc))[1] as upstream
  from jsonb_to_recordset(l.attempts) as a (n int, upstream text, cost_nano_usd bigint, possibly_billed_nano_usd bigint)) as a
cross join lateral (select coalesce((l.provenance ->> 'possibly_billed_nano_usd')::bigint, 0) as row) as p
where l.attempts is not null and l.kind = 'request' and (
  a.cost <> l.cost_nano_usd or a.upstream is distinct from l.upstream
  or a.numbers is distinct from array(select generate_series(1, jsonb_array_length(l.attempts)))
  or a.possible <> p.row)
order by abs(a.cost - l.cost_nano_usd) desc, l.request_id
limit ${MAX_FOUND}`;

// Processes cannot send heartbeats while the server is down.
const LEFT = `
with moment as (
  select coalesce(given.now, now()) - make_interval(secs => ${LEFT_SECONDS}) as lapse,
         case when given.now is null then pg_postmaster_start_time() else '-infinity' end as server_started
  from (select cast(? as timestamptz) as now) as given
)
select r.request_id, r.user_email as "user", r.reserved_at, r.amount_nano_usd::text as amount_nano_usd, p.heartbeat_at,
       count(*) over () as total
from moment m cross join reservations r left join processes p on p.id = r.process_id
where m.server_started < m.lapse and r.reserved_at < m.lapse and (p.id is null or p.heartbeat_at < m.lapse)
order by r.amount_nano_usd desc, r.request_id
limit ${MAX_FOUND}`;

/**
 * Recomputes every counter and every sum of usage from the ledger, and compares. It reads one snapshot of the database, so gateways
 * may keep running. Findings beyond the first 1,000 of a kind are only counted. Errors are pg's own.
 */
export function verifyLedger(options: {
  readonly database: Pick<Database, 'knex'>;
  readonly clock: Clock;
}): Promise<LedgerVerification> {
  return readForLong(options.database, async (read) => {
    const [extent] = await select<LedgerVerification>(read, EXTENT);
    const [bounds] = await read<{ dropped_before: Date }>('select dropped_before from ledger_bounds', []);
    return {
      ...extent!,
      differences: await find<CounterDifference>(read, DIFFERENCES, [bounds?.dropped_before ?? '-infinity']),
      repeated: await find<RepeatedRequest>(read, REPEATED),
      uncounted: await find<UncountedRequest>(read, UNCOUNTED),
      attempts: await find<DisagreeingAttempts>(read, ATTEMPTS),
      left: await find<LeftReservation>(read, LEFT, [databaseTime(options.clock)]),
      sums: await find<UsageDifference>(read, usageDifferencesSql(MAX_FOUND)),
    };
  });
}

const AMOUNTS = /nano_usd$|^kept$|^recomputed$|^off_by$/;

async function find<Finding>(
  read: ReportRead,
  text: string,
  values: readonly ReportValue[] = [],
): Promise<Found<Finding>> {
  const rows = await select<Finding & { total: number }>(read, text, values);
  return { total: rows[0]?.total ?? 0, first: rows.map(({ total: _, ...finding }) => finding as Finding) };
}

async function select<Row>(read: ReportRead, text: string, values: readonly ReportValue[] = []): Promise<Row[]> {
  const rows = await read<Record<string, unknown>>(text, values);
  const convert = ([name, value]: [string, unknown]) => [name, AMOUNTS.test(name) ? BigInt(String(value)) : value];
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(convert)) as Row);
}

const ROWS_AT_ONCE = 20_000;
const RETRY_MS = 100;

/**
 * Recomputes the sums of some UTC days (YYYY-MM-DD, default all) from the ledger. Reports stay correct meanwhile. Returns the number
 * of ledger lines. Errors are pg's own.
 */
export async function sumAgain(
  database: Pick<Database, 'knex'>,
  { since, until }: { readonly since?: string | undefined; readonly until?: string | undefined },
): Promise<number> {
  const days = [since === undefined ? '-infinity' : `${since}Z`, until === undefined ? 'infinity' : `${until}Z`];
  const lines = await runWhenFree(database, 'select sum_again(?, ?) as done', days);
  for (;;) {
    const taken = await runWhenFree(database, 'select sum_usage(?) as done', [ROWS_AT_ONCE]);
    if (taken < ROWS_AT_ONCE) return lines;
  }
}

/** Repeats a statement while another process works on the sums. */
async function runWhenFree(
  database: Pick<Database, 'knex'>,
  text: string,
  values: readonly ReportValue[],
): Promise<number> {
  for (;;) {
    const [row] = await workForLong(database, (run) => run<{ done: number | null }>(text, values));
    if (row!.done !== null) return row!.done;
    await delay(RETRY_MS);
  }
}
