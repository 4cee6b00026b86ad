import type { Database } from '../../../base/store/database.ts';

/** Attempts at an upstream with the same outcome in one part of a period. */
export interface TrafficCount {
  readonly upstream: string;
  readonly upstream_model: string;
  /** Row of the failover table; `answered` for those that served. */
  readonly outcome: string;
  readonly part: number;
  readonly attempts: number;
}

/** Traffic of upstreams in a period. */
export interface Traffic {
  readonly counts: readonly TrafficCount[];
  /** Without upstreams that served nothing. */
  readonly times: readonly {
    readonly upstream: string;
    /** `null`: all models of the upstream together. */
    readonly upstream_model: string | null;
    readonly p50_ms: number;
    readonly p95_ms: number;
  }[];
}

/** Session affinity by upstream: where the next request of a session went. */
interface SessionTurns {
  readonly upstream: string;
  /** Next requests of a session to the same model. */
  readonly turns: number;
  readonly stayed: number;
}

interface TimeSpan {
  readonly since: Date;
  readonly until: Date;
}

/** SQL: every attempt of the requests settled in a period. */
const ATTEMPTS = `attempts as materialized (
  select upstream, upstream_model, settled_at, case when status is null then 'unanswered' else 'answered' end as outcome,
    upstream_ms as ms
  from ledger where settled_at >= $1 and settled_at < $2 and kind = 'request' and attempts is null
  union all
  select a.upstream, a.upstream_model, l.settled_at, coalesce(a.outcome, 'unanswered'), a.ms
  from ledger l cross join lateral jsonb_to_recordset(l.attempts) as a (
    upstream text, upstream_model text, outcome text, ms double precision)
  where l.settled_at >= $1 and l.settled_at < $2 and l.kind = 'request' and l.attempts is not null
)`;

/** Counts the attempts of requests settled in a period, in `parts` equal parts. Raises store_unavailable. */
export async function readTraffic(
  database: Pick<Database, 'query'>,
  { since, until }: TimeSpan,
  parts: number,
): Promise<Traffic> {
  const [row] = await database.query<Traffic>(
    'upstream_traffic',
    `with ${ATTEMPTS}, counts as (
       select upstream, upstream_model, outcome, width_bucket(settled_at, $3::timestamptz[]) - 1 as part,
         count(*)::int as attempts
       from attempts group by 1, 2, 3, 4
     ), times as (
       select upstream, upstream_model, percentile_disc(0.5) within group (order by ms) as p50_ms,
         percentile_disc(0.95) within group (order by ms) as p95_ms
       from attempts where outcome = 'answered' and ms is not null group by grouping sets ((upstream), (upstream, upstream_model))
     )
     select (select coalesce(jsonb_agg(c), '[]') from counts c) as counts,
       (select coalesce(jsonb_agg(t), '[]') from times t) as times`,
    [since, until, beginnings({ since, until }, parts)],
  );
  return row!;
}

function beginnings({ since, until }: TimeSpan, parts: number): Date[] {
  const part_ms = (until.getTime() - since.getTime()) / parts;
  return Array.from({ length: parts }, (_, part) => new Date(since.getTime() + part * part_ms));
}

/** Counts requests of sessions that stayed at the upstream with their prompt cache, by audit records. Raises store_unavailable. */
export function readSessionTurns(
  database: Pick<Database, 'query'>,
  { since, until }: TimeSpan,
): Promise<readonly SessionTurns[]> {
  return database.query<SessionTurns>(
    'upstream_session_turns',
    // Keeps the sort small: without records, and texts in the collation "C".
    `with read as materialized (
       select id, record ->> 'upstream' as upstream, (record -> 'status')::int as status,
         hashtextextended((record ->> 'session_id') || ' ' || (record ->> 'model') || ' ' || (record ->> 'user'), 0) as session
       from audit_log where at >= $1 and at < $2
     ), served as (
       select upstream, lag(upstream) over (partition by session order by id) as before
       from read where session is not null and upstream is not null and status < 400
     )
     select before as upstream, count(*)::int as turns, (count(*) filter (where upstream = before))::int as stayed
     from served where before is not null group by before order by before`,
    [since, until],
  );
}
