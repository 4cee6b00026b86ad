-- Limits, the counters they are checked against, reservations, leases, and the ledger.
--
-- Lock order, the same in every function, so that processes cannot deadlock. A function takes all locks of one kind before any
-- lock of the next kind:
--   1. the advisory lock on limits in force: shared for taking leases (spend_batch), exclusive for changing a limit
--      (recall_for_limit); and the advisory lock of reprice_batch
--   2. new counters, by key (open_counters)
--   3. existing reservations, by request_id; functions with `skip locked` never wait here
--   4. new reservations, by request_id (insert_reserved)
--   5. processes, by id
--   6. counters, by id (lock_counters)
--   7. leases: one advisory lock by the hash of lease_id, needed to change any row of the lease. The counter must be locked as
--      well, except in place_rows, which needs no counter while the lease exists.
-- Ledger rows are only inserted. After taking a lock, a new statement reads the locked rows again.

-- A counter: the usage of one limit key in one window, in the counter's unit. `spent` is settled, `reserved` is the amount
-- reserved by requests in flight, `most` their worst case, and `in_flight` their number. Few counters and reservations change all
-- the time: the fillfactor keeps updates in their page, and an eager vacuum keeps dead rows few.
create table spend_counters (
  id bigint generated always as identity unique,
  scope text not null,
  key text not null,
  window_kind text not null,
  window_start timestamptz not null,
  unit text not null default 'nano_usd',
  spent bigint not null default 0,
  reserved bigint not null default 0,
  most bigint not null default 0,
  in_flight integer not null default 0,
  primary key (scope, key, window_kind, window_start, unit)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index on spend_counters (window_start) where window_kind = 'minute';

create table reservations (
  request_id text primary key,
  process_id uuid not null,
  reserved_at timestamptz not null,
  amount_nano_usd bigint not null,
  most_nano_usd bigint not null,
  tokens bigint not null default 0,
  -- Counters in money, which the ledger row will name. Other units are in rate_counter_ids.
  counter_ids bigint[] not null,
  rate_counter_ids bigint[] not null default '{}',
  protocol text not null,
  principal_id text not null,
  user_email text not null,
  team text,
  project text,
  token_id text,
  model text not null,
  upstream text not null,
  upstream_model text not null,
  -- Earlier attempts while another one is in flight, in the format of ledger.attempts: [{n, cost_nano_usd, counter_ids, ...}].
  -- If possibly billed attempts count against limits, their cost stays on the counters of their upstream meanwhile. Usually null.
  held jsonb
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Budget leases: headroom that a process takes from a counter in advance, in the counter's unit, and hands out to requests in
-- memory. A lease is included in the counter's reserved, most and in_flight. After an error a process starts over with a new
-- lease_id and returns the leases of the old one.
create table reservation_leases (
  lease_id uuid not null,
  counter_id bigint not null,
  process_id uuid not null,
  amount bigint not null,
  most bigint not null,
  requests integer not null,
  -- Life of the server in which the lease was taken.
  life uuid,
  primary key (lease_id, counter_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index on reservation_leases (counter_id);

create table processes (
  id uuid primary key,
  machine text not null,
  identity text not null,
  heartbeat_at timestamptz not null
);

-- Server lives. A life ends when PostgreSQL stops or crashes, also by the crash of a single backend: a crash empties unlogged
-- tables.
create unlogged table server_lives (
  started timestamptz primary key default pg_postmaster_start_time(),
  id uuid not null default gen_random_uuid()
);

-- Id of the current server life; null before the first heartbeat in it.
create function server_life() returns uuid
language sql as $$
  select id from server_lives where started = pg_postmaster_start_time()
$$;

-- Heartbeat of a process. Returns its time and the server life.
create function send_heartbeat(p_id uuid, p_machine text, p_identity text, p_now timestamptz)
returns table (heartbeat_at timestamptz, life uuid)
language sql as $$
  insert into server_lives default values on conflict do nothing;
  insert into processes as p (id, machine, identity, heartbeat_at) values (p_id, p_machine, p_identity, coalesce(p_now, now()))
  on conflict (id) do update set heartbeat_at = excluded.heartbeat_at
  returning p.heartbeat_at, server_life();
$$;

-- A forwarded request has one row of kind 'request', and a row of kind 'adjustment' for each correction.
create table ledger (
  request_id text not null,
  kind text not null default 'request' check (kind in ('request', 'adjustment')),
  protocol text not null,
  principal_id text not null,
  user_email text not null,
  team text,
  project text,
  token_id text,
  model text not null,
  upstream text not null,
  upstream_model text not null,
  status integer,
  aborted boolean not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  server_tools jsonb,
  -- What was billed, if it differs from the requested model at its usual price: the model that responded, its service tier, speed
  -- and region, and the usage of each of several models. The other columns are the sum.
  billed jsonb,
  cost_nano_usd bigint not null,
  provenance jsonb not null,
  counter_ids bigint[] not null,
  forwarded_at timestamptz not null,
  settled_at timestamptz not null,
  -- All attempts in order; null if the first attempt was the only one and succeeded, because the row then describes it. A possibly
  -- billed attempt that counts against limits has its own counter_ids: its cost is in the cost of the row, and counts there instead
  -- of on the row's counters. An adjustment repeats the attempts of its request.
  attempts jsonb,
  -- The longest prompt cache lifetime in the client's request, and the one sent to the upstream.
  cache_requested_ttl text,
  cache_effective_ttl text,
  -- Of the last attempt: milliseconds until its response or failure, and the upstream's request id. Null if the gateway process
  -- died before it knew them.
  upstream_ms double precision,
  upstream_request_id text
) partition by range (settled_at);
create index on ledger (request_id);
create index on ledger using brin (settled_at);
create index on ledger (settled_at) where attempts is not null;
-- Leases of processes that died together with the database; see book_leases.
create index on ledger (principal_id) where user_email = 'unknown';
create table ledger_default partition of ledger default;

-- Rows settled before this moment were dropped by retention. Without a row, none were.
create table ledger_bounds (
  only_row boolean primary key default true check (only_row),
  dropped_before timestamptz not null
);

-- One row per attempt of each request.
create view ledger_attempts as
select l.request_id, a.n, coalesce(a.upstream, l.upstream) as upstream,
       coalesce(a.upstream_model, l.upstream_model) as upstream_model, a.credential,
       coalesce(a.certainty, case when l.status is null then 'possibly_accepted' else 'answered' end) as certainty,
       case when l.attempts is null then l.status else a.status end as status,
       coalesce(a.outcome, case when l.status is null then 'unanswered' else 'answered' end) as outcome,
       coalesce(a.reason, case when l.status < 400 then 'served' else 'exhausted' end) as reason,
       coalesce(a.sends, 1) as sends, coalesce(a.ms, case when l.attempts is null then l.upstream_ms end) as ms,
       coalesce(a.upstream_request_id, case when l.attempts is null then l.upstream_request_id end) as upstream_request_id,
       coalesce(a.cost_nano_usd, l.cost_nano_usd) as cost_nano_usd,
       coalesce(a.provenance, l.provenance ->> 'cost') as provenance,
       case when l.attempts is null then (l.provenance ->> 'possibly_billed_nano_usd')::bigint
         else a.possibly_billed_nano_usd end as possibly_billed_nano_usd,
       a.counter_ids,
       l.user_email, l.model, l.forwarded_at, l.settled_at
from ledger l
cross join lateral jsonb_to_recordset(coalesce(l.attempts, '[{"n": 1}]')) as a (
  n int, upstream text, upstream_model text, credential text, certainty text, status int, outcome text, reason text, sends int,
  ms double precision, upstream_request_id text, cost_nano_usd bigint, provenance text, possibly_billed_nano_usd bigint,
  counter_ids bigint[])
where l.kind = 'request';

-- A limit set at run time: it replaces every limit of gateway.yaml on its counter.
create table limit_settings (
  scope text not null,
  key text not null,
  window_kind text not null,
  unit text not null default 'nano_usd',
  amount bigint not null check (amount >= 0),
  reason text,
  set_at timestamptz not null,
  set_by text not null,
  primary key (scope, key, window_kind, unit)
);

-- A grant: temporary headroom on top of the limit in force.
create table limit_grants (
  id text primary key,
  scope text not null,
  key text not null,
  window_kind text not null,
  unit text not null default 'nano_usd',
  amount bigint not null check (amount > 0),
  reason text,
  granted_at timestamptz not null,
  granted_by text not null,
  expires_at timestamptz not null,
  revoked_at timestamptz
);
create index on limit_grants (scope, key, window_kind, unit) where revoked_at is null;
create index on limit_grants (granted_at);

-- The run-time changes of a counter at a moment: the amount that replaces configured limits, and the sum granted on top. `changes` has
-- both in detail, {set, grants}, with times in milliseconds since the epoch. One row, read by index. All checks and reports of limits
-- use it.
create function changed_limit(p_scope text, p_key text, p_kind text, p_unit text, p_at timestamptz)
returns table (amount bigint, granted bigint, changes jsonb)
language sql stable as $$
  select s.amount, g.granted, jsonb_build_object('grants', g.grants, 'set', case when s.amount is not null then jsonb_build_object(
    'amount', s.amount, 'reason', s.reason, 'at', floor(extract(epoch from s.set_at) * 1000)::bigint, 'by', s.set_by) end)
  from (
    select coalesce(sum(g.amount), 0)::bigint as granted, coalesce(jsonb_agg(jsonb_build_object('id', g.id, 'amount', g.amount,
      'reason', g.reason, 'at', floor(extract(epoch from g.granted_at) * 1000)::bigint, 'by', g.granted_by,
      'expires_at', floor(extract(epoch from g.expires_at) * 1000)::bigint) order by g.expires_at, g.id), '[]') as grants
    from limit_grants g
    where g.scope = p_scope and g.key = p_key and g.window_kind = p_kind and g.unit = p_unit
      and g.revoked_at is null and g.granted_at <= p_at and p_at < g.expires_at
  ) as g
  left join limit_settings s on s.scope = p_scope and s.key = p_key and s.window_kind = p_kind and s.unit = p_unit
$$;

-- Counters with a limit set at run time, or with a grant at a moment.
create function changed_counters(p_at timestamptz) returns table (scope text, key text, window_kind text, unit text)
language sql stable as $$
  select scope, key, window_kind, unit from limit_settings
  union select scope, key, window_kind, unit from limit_grants
  where revoked_at is null and granted_at <= p_at and p_at < expires_at
$$;

-- Windows.

-- When the clock is set back, two moments an hour apart have the same local time: returns the first of the two. Other moments are
-- unchanged. PostgreSQL picks the second, so that a day whose midnight repeats would start in its own future.
create function first_of(p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case
    when (p_at - interval '1 hour') at time zone p_time_zone = p_at at time zone p_time_zone then p_at - interval '1 hour'
    else p_at
  end
$$;

-- Milliseconds since the epoch.
create function milliseconds(p_at timestamptz) returns bigint
language sql stable as $$
  select (extract(epoch from p_at) * 1000)::bigint
$$;

create function window_start(p_kind text, p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case p_kind
    when 'open' then '-infinity'::timestamptz
    when 'minute' then date_trunc('minute', p_at)
    else first_of(date_trunc(p_kind, p_at, p_time_zone), p_time_zone)
  end
$$;

-- Null for a window that never ends.
create function window_end(p_kind text, p_start timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case p_kind
    when 'open' then null
    -- When the clock is set back, one local minute of the year lasts an hour and a minute.
    when 'minute' then p_start + interval '1 minute'
    -- A day whose midnight is skipped starts at one o'clock. The previous day still ends at midnight.
    else first_of(
      date_trunc(p_kind, p_start at time zone p_time_zone + window_length(p_kind)) at time zone p_time_zone, p_time_zone)
  end
$$;

-- Counters and their limits.

-- Functions that look up rows by key, one or hundreds at a time, have settings that make PostgreSQL plan each statement once per
-- connection. Planning for the arguments of each call took more than half the time of a small batch, and grows with the ledger's
-- partitions. Index lookups are right for any number of rows. Functions called only by such functions have no settings of their own.

-- A counter of a statement; window_n is the index of its window. lot_* describe the lot to lease, in the counter's unit: lot_lim is
-- the limit it must fit, null for no limit. lot_requests = 0 means no lot.
create type batch_counter as (
  scope text, key text, window_n integer, unit text, lot_requests integer, lot bigint, lot_most bigint, lot_lim bigint
);

-- Ids of counters in windows with these beginnings, in the order of the input. Creates missing counters.
create function open_counters(p_counters batch_counter[], p_windows text[], p_starts timestamptz[]) returns bigint[]
language plpgsql as $$
declare
  v_ids bigint[];
begin
  loop
    select array_agg(s.id order by c.ordinality) into v_ids
    from unnest(p_counters) with ordinality as c
    join spend_counters s
      on s.scope = c.scope and s.key = c.key and s.window_kind = p_windows[c.window_n]
      and s.window_start = p_starts[c.window_n] and s.unit = c.unit;
    exit when coalesce(cardinality(v_ids), 0) = cardinality(p_counters);

    insert into spend_counters (scope, key, window_kind, unit, window_start)
    select c.scope, c.key, p_windows[c.window_n], c.unit, p_starts[c.window_n]
    from unnest(p_counters) as c
    where not exists (
      select from spend_counters s
      where s.scope = c.scope and s.key = c.key and s.window_kind = p_windows[c.window_n]
        and s.window_start = p_starts[c.window_n] and s.unit = c.unit)
    order by 1, 2, 3, 4
    on conflict do nothing;
  end loop;
  return v_ids;
end $$;

create function lock_counters(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off as $$
begin
  perform from spend_counters where id = any (p_ids) order by id for update;
end $$;

-- Amounts set at run time and sums granted on top, per counter in the order of the input. Both are null if there is no change for
-- any counter, which costs two reads of empty tables.
create function limit_changes(
  p_counters batch_counter[], p_windows text[], p_now timestamptz, out amounts bigint[], out granted bigint[]
)
language plpgsql as $$
begin
  if not exists (select from limit_settings) and not exists (select from limit_grants where revoked_at is null) then
    return;
  end if;
  select array_agg(l.amount order by c.ordinality), array_agg(l.granted order by c.ordinality)
  into amounts, granted
  from unnest(p_counters) with ordinality as c
  cross join lateral changed_limit(c.scope, c.key, p_windows[c.window_n], c.unit, p_now) as l;
end $$;

-- The limit in force: the amount set at run time, else the configured one, plus grants. Null means no limit. This function and the
-- next ones implement the same rules as engine/domain/budget/limits/headroom.ts.
create function limit_in_force(p_configured bigint, p_set bigint, p_granted bigint) returns bigint
language sql immutable as $$
  select coalesce(p_set, p_configured) + coalesce(p_granted, 0)
$$;

-- The bound on spending if every request in flight costs its worst case: p_ppm millionths above the limit.
create function bound_of(p_limit bigint, p_ppm bigint) returns bigint
language sql immutable as $$
  select p_limit + coalesce(p_limit / 1000000 * p_ppm + p_limit % 1000000 * p_ppm / 1000000, 0)
$$;

-- The amount of a reservation in the unit of a counter.
create function in_unit(p_unit text, p_nano_usd bigint, p_tokens bigint, p_requests bigint) returns bigint
language sql immutable as $$
  select case p_unit when 'nano_usd' then p_nano_usd when 'tokens' then p_tokens else p_requests end
$$;

-- Whether a counter has headroom for an amount under a limit, and for its worst case under the bound. Null bound: the worst case
-- is not checked. Null limit: the result is null.
create function has_room(
  p_counter spend_counters, p_limit bigint, p_bound bigint, p_amount bigint, p_most bigint
) returns boolean
language sql immutable as $$
  select p_counter.spent + p_counter.reserved + p_amount <= p_limit
    and coalesce(p_counter.spent + p_counter.most + p_most <= p_bound, true)
$$;

-- Whether a limit has headroom for one request. Null p_ppm: the request reserves its worst case. With p_ppm, a request that is
-- alone in flight may cost anything. Null limit: the result is null.
create function has_room_for(
  p_counter spend_counters, p_limit bigint, p_amount_nano_usd bigint, p_most_nano_usd bigint, p_tokens bigint, p_ppm bigint
) returns boolean
language sql immutable as $$
  select has_room(
    p_counter, p_limit, case when p_ppm is null or p_counter.in_flight > 0 then bound_of(p_limit, p_ppm) end,
    in_unit(p_counter.unit, p_amount_nano_usd, p_tokens, 1), in_unit(p_counter.unit, p_most_nano_usd, p_tokens, 1))
$$;

-- A snapshot of counters in the order of the input, as JSON objects: their numbers; `free`, the unplaced part of leases; and whether a
-- live process has a lease there. Also returns the ids of counters with such leases. Live here means a heartbeat within 15 seconds:
-- only such a process can return leases on request.
create function snapshot_counters(
  p_now timestamptz, p_time_zone text, p_windows text[], p_counters batch_counter[], out counters text, out ids bigint[]
)
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_set bigint[];
  v_granted bigint[];
begin
  select c.amounts, c.granted into v_set, v_granted from limit_changes(p_counters, p_windows, v_now) as c;
  select json_agg(json_build_object(
           'is_leased', l.is_kept, 'free', json_build_object('amount', l.amount, 'most', l.most, 'requests', l.requests),
           'numbers', json_build_object(
             'spent', coalesce(s.spent, 0), 'reserved', coalesce(s.reserved, 0), 'in_flight', coalesce(s.in_flight, 0),
             'most', coalesce(s.most, 0), 'set', v_set[c.ordinality], 'granted', coalesce(v_granted[c.ordinality], 0),
             'resets_at', milliseconds(window_end(w.kind, w.start, p_time_zone)))) order by c.ordinality),
         array_agg(s.id) filter (where l.is_kept)
  into counters, ids
  from unnest(p_counters) with ordinality as c
  cross join lateral (
    select p_windows[c.window_n] as kind, window_start(p_windows[c.window_n], v_now, p_time_zone) as start) as w
  left join spend_counters s
    on s.scope = c.scope and s.key = c.key and s.window_kind = w.kind and s.unit = c.unit and s.window_start = w.start
  cross join lateral (
    select coalesce(sum(r.amount), 0)::bigint as amount, coalesce(sum(r.most), 0)::bigint as most,
           coalesce(sum(r.requests), 0) as requests,
           coalesce(bool_or((r.amount > 0 or r.requests > 0) and p.heartbeat_at > v_now - interval '15 seconds'), false) as is_kept
    from reservation_leases r left join processes p on p.id = r.process_id where r.counter_id = s.id) as l;
end $$;

-- Group commit of a gateway: settlements and reservations of many requests. A p_now that is not null replaces the database's
-- clock.

-- Part of the lease on a counter.
create type lease_part as (id bigint, amount bigint, most bigint, requests integer);

-- Which requests were settled; per counter how many requests, their cost and tokens, and the reservations they free; and the
-- reservations that are settled separately.
create type settled_counters as (
  request_ids text[], ids bigint[], requests bigint[], cost bigint[], used bigint[], amount bigint[], most bigint[], tokens bigint[],
  apart reservations[]
);

-- Extra fields that few settlements have. A request without a reservation has its identity here, and its counters as positions in
-- those of the batch; so do attempts that count on other counters than their request. upstream and upstream_model are null if they
-- equal those of the reservation. forwarded_at is set only in a late settlement.
create type settlement_rest as (
  upstream text, upstream_model text, attempts jsonb, protocol text, principal_id text, user_email text, team text, project text,
  token_id text, model text, counters integer[], forwarded_at timestamptz
);

-- A settlement. rest is null for nearly all: those with a reservation and one attempt. note_n is the 0-based index in a JSON array
-- of values that many rows share: {provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl}. A null cost means
-- the reserved amount.
create type batch_settlement as (
  request_id text, status integer, aborted boolean,
  input bigint, output bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint,
  cost bigint, upstream_ms double precision, upstream_request_id text, note_n integer, rest settlement_rest
);

-- A reservation request. Its counters are those from first to last in an array shared by the batch, money before rates. ppm: by
-- how many millionths requests in flight may exceed a limit; null for a request that reserves its worst case.
create type batch_request as (
  request_id text, amount bigint, most bigint, tokens bigint, protocol text, principal_id text, user_email text, team text,
  project text, token_id text, model text, upstream text, upstream_model text, ppm bigint, first integer, rates integer, last integer
);

-- Sums without the detour of sum(bigint) by numeric. Raises an error beyond bigint.
create aggregate sum_bigint(bigint) (sfunc = int8pl, stype = bigint, initcond = '0', combinefunc = int8pl, parallel = safe);

-- The combined demand of all requests per counter: their number, and the smallest limit and bound for the counter after all of
-- them. p_limits and p_shadows are the limits at each of p_at, null for none. p_set and p_granted are the run-time changes of each
-- counter.
create function demand_of(
  p_ids bigint[], p_requests batch_request[], p_at integer[], p_limits bigint[], p_shadows bigint[], p_set bigint[], p_granted bigint[]
) returns table (id bigint, requests bigint, amount bigint, most bigint, tokens bigint, lim bigint, bound bigint)
language sql stable as $$
  select p_ids[a.at], count(*), sum_bigint(r.amount), sum_bigint(r.most), sum_bigint(r.tokens), min(l.lim), min(bound_of(l.lim, r.ppm))
  from unnest(p_requests) as r
  cross join unnest(p_at[r.first : r.last], p_limits[r.first : r.last], p_shadows[r.first : r.last]) as a (at, lim, shadow)
  cross join lateral (select least(limit_in_force(a.lim, p_set[a.at], p_granted[a.at]), a.shadow) as lim) as l
  group by a.at
$$;

-- Applies settlements and reservations to the counters, which are locked. Returns whether every request has headroom.
create function change_counters(
  p_settled settled_counters, p_ids bigint[], p_requests batch_request[], p_at integer[],
  p_limits bigint[], p_shadows bigint[], p_set bigint[], p_granted bigint[]
) returns boolean
language plpgsql as $$
declare
  v_fits boolean;
begin
  with change as materialized (
    select c.id, sum_bigint(c.cost) as cost, sum_bigint(c.used) as used, sum(c.ended)::bigint as ended, sum_bigint(c.amount) as amount,
           sum_bigint(c.most) as most, sum_bigint(c.tokens) as tokens, sum(c.requests)::bigint as requests, max(c.lim) as lim,
           max(c.bound) as bound
    from (
      select s.id, s.cost, s.used, s.requests as ended, -s.amount as amount, -s.most as most, -s.tokens as tokens,
             -s.requests as requests, null::bigint as lim, null::bigint as bound
      from unnest(
        p_settled.ids, p_settled.requests, p_settled.cost, p_settled.used, p_settled.amount, p_settled.most, p_settled.tokens)
        as s (id, requests, cost, used, amount, most, tokens)
      union all
      select a.id, 0, 0, 0, a.amount, a.most, a.tokens, a.requests, a.lim, a.bound
      from demand_of(p_ids, p_requests, p_at, p_limits, p_shadows, p_set, p_granted) as a
    ) as c
    group by c.id
  ), changed as (
    update spend_counters s
    set spent = s.spent + case s.window_kind when 'open' then 0 else in_unit(s.unit, c.cost, c.used, c.ended) end,
        reserved = s.reserved + in_unit(s.unit, c.amount, c.tokens, c.requests),
        most = s.most + in_unit(s.unit, c.most, c.tokens, c.requests), in_flight = s.in_flight + c.requests
    from change c where s.id = c.id
    returning s.spent + s.reserved <= c.lim and s.spent + s.most <= c.bound as fits
  )
  select coalesce(bool_and(c.fits), true) into v_fits from changed c;
  return v_fits;
end $$;

-- Inserts reservations. p_at are the counters of all of them, as positions in p_ids. Returns false if one of them existed
-- before.
create function insert_reserved(
  p_process uuid, p_now timestamptz, p_ids bigint[], p_requests batch_request[], p_at integer[]
) returns boolean
language plpgsql as $$
declare
  v_made integer;
begin
  insert into reservations (
    request_id, process_id, reserved_at, amount_nano_usd, most_nano_usd, tokens, counter_ids, rate_counter_ids,
    protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
  select r.request_id, p_process, p_now, r.amount, r.most, r.tokens, c.ids[r.first : r.rates - 1], c.ids[r.rates : r.last],
         r.protocol, r.principal_id, r.user_email, r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model
  from (select array(select p_ids[at] from unnest(p_at) as at) as ids offset 0) as c
  cross join unnest(p_requests) as r
  order by r.request_id
  on conflict (request_id) do nothing;
  get diagnostics v_made = row_count;
  return v_made = cardinality(p_requests);
end $$;

-- The slow path after change_counters found too little headroom for all requests together. Decides on requests in order, each after
-- the ones before it. Accepted requests keep their reservations and amounts on counters. remarks has an entry per limit without
-- headroom: [index of the request, index among its counters, spent, reserved, in_flight, most, set, granted, resets_at_ms], indexes
-- from 0. A limit in shadow mode rejects nothing: in the entries of accepted requests its index is offset by the number of
-- counters. Late requests are rejected without an entry.
create function decide_requests(
  p_time_zone text, p_ids bigint[], p_requests batch_request[], p_at integer[], p_limits bigint[], p_shadows bigint[],
  p_set bigint[], p_granted bigint[], p_late boolean
) returns jsonb
language plpgsql as $$
declare
  v_granted text[] := '{}';
  v_counters spend_counters[];
  v_counter spend_counters;
  v_request batch_request;
  v_rejected boolean;
  v_many integer;
  v_at integer;
  -- Arrays and loops for speed: appending to JSON copies all of it, and a query per request would take five times as long.
  v_remarks jsonb[] := '{}';
begin
  update spend_counters s
  set reserved = s.reserved - in_unit(s.unit, a.amount, a.tokens, a.requests),
      most = s.most - in_unit(s.unit, a.most, a.tokens, a.requests), in_flight = s.in_flight - a.requests
  from demand_of(p_ids, p_requests, p_at, p_limits, p_shadows, p_set, p_granted) as a where s.id = a.id;
  select array_agg(s order by i.ordinality) into v_counters
  from unnest(p_ids) with ordinality as i (id) join spend_counters s on s.id = i.id;

  for v_number in 1 .. case when p_late then 0 else cardinality(p_requests) end loop
    v_request := p_requests[v_number];
    v_many := v_request.last - v_request.first + 1;
    v_rejected := false;
    for v_index in 0 .. v_many * case when p_shadows is null then 1 else 2 end - 1 loop
      exit when v_rejected and v_index >= v_many;
      v_at := p_at[v_request.first + v_index % v_many];
      v_counter := v_counters[v_at];
      continue when coalesce(has_room_for(
        v_counter, case
          when v_index < v_many then limit_in_force(p_limits[v_request.first + v_index], p_set[v_at], p_granted[v_at])
          else p_shadows[v_request.first + v_index - v_many] end,
        v_request.amount, v_request.most, v_request.tokens, v_request.ppm), true);
      v_rejected := v_rejected or v_index < v_many;
      v_remarks := array_append(v_remarks, jsonb_build_array(
        v_number - 1, v_index, v_counter.spent, v_counter.reserved, v_counter.in_flight, v_counter.most,
        p_set[v_at], p_granted[v_at],
        milliseconds(window_end(v_counter.window_kind, v_counter.window_start, p_time_zone))));
    end loop;

    continue when v_rejected;
    v_granted := array_append(v_granted, v_request.request_id);
    foreach v_at in array p_at[v_request.first : v_request.last] loop
      v_counter := v_counters[v_at];
      v_counter.reserved := v_counter.reserved + in_unit(v_counter.unit, v_request.amount, v_request.tokens, 1);
      v_counter.most := v_counter.most + in_unit(v_counter.unit, v_request.most, v_request.tokens, 1);
      v_counter.in_flight := v_counter.in_flight + 1;
      v_counters[v_at] := v_counter;
    end loop;
  end loop;

  update spend_counters s set reserved = c.reserved, most = c.most, in_flight = c.in_flight
  from unnest(v_counters) as c where s.id = c.id and s.in_flight <> c.in_flight;
  delete from reservations
  where request_id = any (array(select r.request_id from unnest(p_requests) as r where r.request_id <> all (v_granted)));
  return to_jsonb(v_remarks);
end $$;

-- Takes the requested lots: each in full or not at all, and only if the remaining headroom is at least p_share times as much. The
-- counters are locked. Returns the ids of the leased counters.
create function take_lots(
  p_process uuid, p_lease uuid, p_ids bigint[], p_counters batch_counter[], p_set bigint[], p_granted bigint[], p_share integer
) returns bigint[]
language plpgsql as $$
declare
  v_taken bigint[];
  v_life uuid := server_life();
begin
  perform pg_advisory_xact_lock(uuid_hash_extended(p_lease, 0));
  with wanted as (
    select c.id, c.lot, c.lot_most, c.lot_requests, limit_in_force(c.lot_lim, p_set[c.ordinality], p_granted[c.ordinality]) as lim
    from unnest(p_ids, p_counters) with ordinality as c (id) where c.lot_requests > 0
  ), taken as (
    update spend_counters s
    set reserved = s.reserved + w.lot, most = s.most + w.lot_most, in_flight = s.in_flight + w.lot_requests
    from wanted w
    where s.id = w.id and coalesce(has_room(s, w.lim, w.lim, p_share * w.lot, p_share * w.lot_most), true)
    returning s.id, w.lot, w.lot_most, w.lot_requests
  ), leased as (
    insert into reservation_leases as l (lease_id, counter_id, process_id, amount, most, requests, life)
    select p_lease, t.id, p_process, t.lot, t.lot_most, t.lot_requests, v_life from taken t
    on conflict (lease_id, counter_id) do update
    set amount = l.amount + excluded.amount, most = l.most + excluded.most, requests = l.requests + excluded.requests
    returning l.counter_id
  )
  select array_agg(l.counter_id) into v_taken from leased l;
  return coalesce(v_taken, '{}');
end $$;

-- Returns part of a lease, at most what is left of it. The counters are locked.
create function return_leases(p_lease uuid, p_parts lease_part[]) returns void
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(uuid_hash_extended(p_lease, 0));
  with back as (
    select p.id, sum(p.amount)::bigint as amount, sum(p.most)::bigint as most, sum(p.requests)::integer as requests
    from unnest(p_parts) as p group by p.id
  ), taken as (
    -- Never more than is left: another process may have returned a part.
    select b.id, least(b.amount, l.amount) as amount, least(b.most, l.most) as most, least(b.requests, l.requests) as requests
    from back b join reservation_leases l on l.lease_id = p_lease and l.counter_id = b.id
  ), returned as (
    update reservation_leases l set amount = l.amount - t.amount, most = l.most - t.most, requests = l.requests - t.requests
    from taken t where l.lease_id = p_lease and l.counter_id = t.id
    returning t.*
  )
  update spend_counters s
  set reserved = s.reserved - r.amount, most = s.most - r.most, in_flight = s.in_flight - r.requests
  from returned r where s.id = r.id;
  -- Processes never return used-up leases.
  delete from reservation_leases l where l.lease_id = p_lease and l.amount = 0 and l.most = 0 and l.requests = 0;
end $$;

-- The counters of reservations.
create function counters_of(p_reservations reservations[]) returns bigint[]
language sql as $$
  select array(
    select unnest(r.counter_ids || r.rate_counter_ids) from unnest(p_reservations) as r
    union all
    select unnest(h.counter_ids) from unnest(p_reservations) as r
    cross join jsonb_to_recordset(r.held) as h (counter_ids bigint[]) where r.held is not null)
$$;

-- Deletes the reservations of settled requests, by request_id and therefore with nested loops only, and writes the ledger rows of
-- nearly all: those without earlier attempts. Returns their ids, and the reservations to settle separately.
create function write_reserved(p_now timestamptz, p_settlements batch_settlement[], p_notes jsonb) returns settled_counters
language plpgsql as $$
declare
  v_settled settled_counters;
begin
  with gone as (
    delete from reservations r using (select * from unnest(p_settlements) as i order by i.request_id) as i
    where r.request_id = i.request_id
    returning case when r.held is null and i.rest is null then null else r end as apart,
      r.request_id, r.reserved_at, r.amount_nano_usd, r.most_nano_usd, r.tokens, r.counter_ids, r.rate_counter_ids, r.protocol,
      r.principal_id, r.user_email, r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model,
      i.status, i.aborted, i.input, i.output, i.cache_read, i.cache_write_5m, i.cache_write_1h,
      coalesce(i.cost, r.amount_nano_usd) as cost, i.upstream_ms, i.upstream_request_id, p_notes -> i.note_n as note
  ), written as (
    insert into ledger (
      request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
      status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl,
      upstream_ms, upstream_request_id, counter_ids, forwarded_at, settled_at)
    select g.request_id, g.protocol, g.principal_id, g.user_email, g.team, g.project, g.token_id, g.model, g.upstream,
           g.upstream_model, g.status, g.aborted, g.input, g.output, g.cache_read, g.cache_write_5m, g.cache_write_1h,
           g.cost, g.note -> 'provenance', g.note -> 'server_tools', g.note -> 'billed', g.note ->> 'cache_requested_ttl',
           g.note ->> 'cache_effective_ttl', g.upstream_ms, g.upstream_request_id, g.counter_ids, g.reserved_at, p_now
    from gone g where g.apart is null
  )
  select array(select g.request_id from gone g where g.apart is null), array_agg(c.id), array_agg(c.requests), array_agg(c.cost),
         array_agg(c.used), array_agg(c.amount), array_agg(c.most), array_agg(c.tokens),
         array(select g.apart from gone g where not g.apart is null)
  into v_settled
  from (
    select c.id, count(*) as requests, sum_bigint(g.cost) as cost,
           sum_bigint(g.input + g.output + g.cache_read + g.cache_write_5m + g.cache_write_1h) as used,
           sum_bigint(g.amount_nano_usd) as amount, sum_bigint(g.most_nano_usd) as most, sum_bigint(g.tokens) as tokens
    from gone g cross join unnest(g.counter_ids || g.rate_counter_ids) as c (id)
    where g.apart is null
    group by c.id) as c;
  return v_settled;
end $$;

-- The part of a row's cost that counts on the counters of attempts instead of the row's counters.
create function counted_apart(p_attempts jsonb) returns bigint
language sql immutable as $$
  select coalesce(sum(a.cost_nano_usd) filter (where a.counter_ids is not null), 0)::bigint
  from jsonb_to_recordset(p_attempts) as a (cost_nano_usd bigint, counter_ids bigint[])
$$;

-- Settles requests one row at a time. Writes one ledger row per request, and replaces its reservation by its cost on the counters
-- of the windows it was reserved in. Returns requests that were settled before. The counters are locked; p_ids are counters of the
-- windows at p_counted_at.
create function write_ledger(
  p_now timestamptz, p_counted_at timestamptz, p_ids bigint[], p_gone reservations[], p_rows batch_settlement[],
  p_notes jsonb
) returns setof text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform count_reservations(p_gone, -1);
  return query
  with incoming as (
    select distinct on (r.request_id) r.*, (r.rest).*, p_notes -> r.note_n as note from unnest(p_rows) as r
  ), gone as (
    select g.* from unnest(p_gone) as g
  ), written as (
    insert into ledger (
      request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
      status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, provenance, server_tools, billed, attempts, cache_requested_ttl, cache_effective_ttl,
      upstream_ms, upstream_request_id, counter_ids, forwarded_at, settled_at)
    select i.request_id, coalesce(g.protocol, i.protocol), coalesce(g.principal_id, i.principal_id),
           coalesce(g.user_email, i.user_email), coalesce(g.team, i.team), coalesce(g.project, i.project),
           coalesce(g.token_id, i.token_id), coalesce(g.model, i.model), coalesce(i.upstream, g.upstream),
           coalesce(i.upstream_model, g.upstream_model), i.status, i.aborted,
           i.input, i.output, i.cache_read, i.cache_write_5m, i.cache_write_1h,
           coalesce(i.cost, g.amount_nano_usd, 0), i.note -> 'provenance', i.note -> 'server_tools', i.note -> 'billed',
           a.attempts,
           i.note ->> 'cache_requested_ttl', i.note ->> 'cache_effective_ttl', i.upstream_ms, i.upstream_request_id,
           coalesce(g.counter_ids, array(select p_ids[c] from unnest(i.counters) as c)),
           coalesce(g.reserved_at, least(i.forwarded_at, p_now)), p_now
    from incoming i left join gone g on g.request_id = i.request_id
    -- Attempts with counters of their own name them: from `held`, or, without a reservation, by positions in p_ids.
    cross join lateral (
      select jsonb_agg(
        a.value - 'counters' || case
          when h.counter_ids is not null then jsonb_build_object('counter_ids', h.counter_ids)
          when a.value ? 'counters' then jsonb_build_object('counter_ids', array(
            select p_ids[c::integer] from jsonb_array_elements_text(a.value -> 'counters') as c))
          else '{}' end
        order by a.position) as attempts
      from jsonb_array_elements(i.attempts) with ordinality as a (value, position)
      left join jsonb_to_recordset(g.held) as h (n integer, counter_ids bigint[]) on h.n = (a.value ->> 'n')::integer) as a
    -- The counters are locked: of two attempts to settle the same unreserved request the second one sees the row of the first.
    where i.protocol is null and g.request_id is not null or i.protocol is not null and not exists (
      select from ledger l where l.request_id = i.request_id and l.settled_at > p_counted_at - interval '2 days')
    returning request_id, attempts, counter_ids,
      cost_nano_usd - case when attempts is null then 0 else counted_apart(attempts) end as cost,
      input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens as tokens
  ), spent as (
    select u.id, sum(u.cost)::bigint as cost, sum(u.used)::bigint as used, sum(u.requests)::bigint as requests
    from (
      select unnest(coalesce(g.counter_ids || g.rate_counter_ids, w.counter_ids)) as id, w.cost, w.tokens as used, 1 as requests
      from written w left join gone g on g.request_id = w.request_id
      union all
      select unnest(a.counter_ids), a.cost_nano_usd, 0, 0
      from written w cross join jsonb_to_recordset(w.attempts) as a (cost_nano_usd bigint, counter_ids bigint[])
      where w.attempts is not null
    ) as u
    group by u.id
  ), updated as (
    update spend_counters s set spent = s.spent + in_unit(s.unit, u.cost, u.used, u.requests)
    from spent u where s.id = u.id and s.window_kind <> 'open'
  )
  select i.request_id from incoming i where not exists (select from written w where w.request_id = i.request_id);
end $$;

-- Writes adjusting rows, and adds their cost to their counters, which are locked. Returns the requests.
create function adjust_ledger(p_rows ledger[]) returns setof text
language sql as $$
  with written as (
    insert into ledger select r.* from unnest(p_rows) as r returning request_id, cost_nano_usd, counter_ids
  ), moved as (
    select c.id, sum(w.cost_nano_usd)::bigint as cost from written w cross join unnest(w.counter_ids) as c (id) group by c.id
  ), updated as (
    update spend_counters s set spent = s.spent + m.cost from moved m where s.id = m.id
  )
  select w.request_id from written w
$$;

-- Adds one correcting row to each of these estimates, with the times of the estimate, so that it counts in the same windows.
-- Returns the requests. The counters are locked.
create function correct_estimates(p_now timestamptz, p_estimates ledger[], p_rows batch_settlement[], p_notes jsonb)
returns setof text
language sql set enable_seqscan = off as $$
  select adjust_ledger(array(
    select distinct on (r.request_id) jsonb_populate_record(e, jsonb_build_object(
      'kind', 'adjustment', 'server_tools', n.note -> 'server_tools', 'billed', n.note -> 'billed',
      'input_tokens', r.input, 'output_tokens', r.output, 'cache_read_tokens', r.cache_read,
      'cache_write_5m_tokens', r.cache_write_5m, 'cache_write_1h_tokens', r.cache_write_1h,
      'cost_nano_usd', r.cost - e.cost_nano_usd,
      'provenance', n.note -> 'provenance' || jsonb_build_object('of', 'estimate', 'was_nano_usd', e.cost_nano_usd, 'at', p_now)))
    from unnest(p_estimates) as e
    join unnest(p_rows) as r on r.request_id = e.request_id
    cross join lateral (select p_notes -> r.note_n as note) as n
    where r.cost is not null and not exists (
      select from ledger l where l.request_id = e.request_id and l.settled_at = e.settled_at and l.provenance ? 'of')))
$$;

-- One batch of the group commit, in one transaction: settles, returns leases, then reserves, so that headroom just returned can be
-- used, and takes lots last. Each reservation succeeds on all its counters or none. p_windows are kinds of windows, each once;
-- p_at, p_limits and p_shadows belong to the reservation requests; p_share belongs to take_lots, null without lots. Late
-- settlements count at p_forwarded_at, at most 30 days ago because old counters are deleted; everything else counts now. After
-- p_valid_until nothing is reserved and `late` is true: the caller has timed out, or its process has ended.
--
-- Returns JSON, or null if there is nothing to report: {repeated: requests that were settled before, remarks: see decide_requests,
-- late, decided_at: milliseconds since the epoch, counters: per counter [id, whether a lot was leased, when the lease expires: the
-- earliest end of its window and grants, spent, reserved, in_flight, most, set, granted, end of its window]}.
create function spend_batch(
  p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz, p_forwarded_at timestamptz,
  p_lease uuid, p_share integer, p_returned lease_part[], p_windows text[], p_counters batch_counter[], p_at integer[],
  p_limits bigint[], p_shadows bigint[], p_notes jsonb, p_settlements batch_settlement[], p_requests batch_request[]
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
-- A batch has each counter once: memoizing lookups would cost a tenth of the time.
set enable_memoize = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  -- This time comes from a gateway, whose clock may be wrong.
  v_counted_at timestamptz := least(p_forwarded_at, v_now);
  v_opened_at timestamptz := greatest(v_counted_at, v_now - interval '30 days');
  v_reserves boolean := cardinality(p_requests) > 0;
  v_leases boolean := p_share is not null;
  v_returned bigint[] := '{}';
  v_starts timestamptz[];
  v_resets bigint[];
  v_ids bigint[] := '{}';
  v_settled settled_counters;
  v_repeated text[] := '{}';
  v_rest batch_settlement[] := '{}';
  v_estimates ledger[] := '{}';
  v_apart bigint[] := '{}';
  v_set bigint[];
  v_granted bigint[];
  v_fits boolean;
  v_late boolean := false;
  v_lots bigint[] := '{}';
  v_remarks jsonb := '[]';
begin
  if v_leases then
    -- A change of a limit waits for leases being taken; later ones see the change.
    perform pg_advisory_xact_lock_shared(7204817102);
  end if;
  if cardinality(p_returned) > 0 then
    v_returned := array(select r.id from unnest(p_returned) as r);
  end if;
  if cardinality(p_counters) > 0 then
    select array_agg(w.start), array_agg(milliseconds(window_end(w.kind, w.start, p_time_zone)))
    into v_starts, v_resets
    from (select kind, window_start(kind, v_opened_at, p_time_zone) as start from unnest(p_windows) as kind offset 0) as w;
    v_ids := open_counters(p_counters, p_windows, v_starts);
  end if;
  if cardinality(p_settlements) > 0 then
    v_settled := write_reserved(v_now, p_settlements, p_notes);
    if cardinality(v_settled.request_ids) < cardinality(p_settlements) then
      v_rest := array(select i from unnest(p_settlements) as i where i.request_id <> all (v_settled.request_ids));
      if cardinality(v_settled.apart) < cardinality(v_rest) then
        -- The estimates written for requests of a process that was declared dead by mistake (it was paused or disconnected), if
        -- the actual usage is here.
        v_estimates := array(
          select l
          from (select distinct r.request_id from unnest(v_rest) as r
                where p_notes -> r.note_n -> 'provenance' ->> 'cost' <> 'estimate') as r
          join ledger l on l.request_id = r.request_id
          where l.settled_at > v_now - interval '2 days' and l.kind = 'request' and l.provenance ->> 'cost' = 'estimate'
            and l.aborted and l.status is null
            and l.input_tokens + l.output_tokens + l.cache_read_tokens + l.cache_write_5m_tokens + l.cache_write_1h_tokens = 0);
      end if;
      v_apart := counters_of(v_settled.apart) || array(select unnest(e.counter_ids) from unnest(v_estimates) as e);
    end if;
  end if;
  if v_reserves and not insert_reserved(p_process, v_now, v_ids, p_requests, p_at) then
    raise unique_violation using message = 'one of these requests has a reservation';
  end if;
  perform lock_counters(v_ids || v_settled.ids || v_returned || v_apart);
  if cardinality(v_rest) > 0 then
    v_repeated := array(
      select write_ledger(v_now, v_counted_at, v_ids, v_settled.apart, v_rest, p_notes)
      except select correct_estimates(v_now, v_estimates, v_rest, p_notes));
  end if;
  if cardinality(v_returned) > 0 then
    perform return_leases(p_lease, p_returned);
  end if;
  if v_reserves or v_leases then
    select c.amounts, c.granted into v_set, v_granted from limit_changes(p_counters, p_windows, v_now) as c;
  end if;
  v_fits := change_counters(v_settled, v_ids, p_requests, p_at, p_limits, p_shadows, v_set, v_granted);
  if v_reserves then
    v_late := coalesce(p_valid_until < clock_timestamp(), false);
    if v_late or not v_fits then
      v_remarks := decide_requests(
        p_time_zone, v_ids, p_requests, p_at, p_limits, p_shadows, v_set, v_granted, v_late);
    end if;
  end if;
  if v_leases then
    v_lots := take_lots(p_process, p_lease, v_ids, p_counters, v_set, v_granted, p_share);
  end if;
  if not v_reserves and not v_leases then
    return case when cardinality(v_repeated) > 0 then json_build_object('repeated', v_repeated) end;
  end if;
  return json_build_object(
    'repeated', v_repeated, 'late', v_late, 'remarks', v_remarks, 'decided_at', milliseconds(v_now),
    'counters', (
      select json_agg(json_build_array(
        s.id, s.id = any (v_lots), least(r.resets_at, case when v_leases and v_granted[c.ordinality] > 0 then (
          select milliseconds(min(g.expires_at)) from limit_grants g
          where g.scope = s.scope and g.key = s.key and g.window_kind = s.window_kind and g.unit = s.unit
            and g.revoked_at is null and g.expires_at > v_now) end),
        s.spent, s.reserved, s.in_flight, s.most, v_set[c.ordinality], v_granted[c.ordinality], r.resets_at) order by c.ordinality)
      from unnest(v_ids) with ordinality as c (id) join spend_counters s on s.id = c.id
      cross join lateral (select v_resets[(p_counters[c.ordinality]).window_n] as resets_at) as r));
end $$;

-- Waits until everything committed so far is on disk.
create function wait_for_disk() returns void
language plpgsql as $$
begin
  if current_setting('server_version_num')::integer >= 170000 and current_setting('synchronous_standby_names') = '' then
    perform pg_logical_emit_message(false, 'appscli', '', true);
  else
    perform ensure_durable_commit();
    -- A commit waits for the disk, and for standbys, only if its transaction wrote something.
    perform pg_logical_emit_message(true, 'appscli', '');
  end if;
end $$;

-- The entry point of a gateway. The commit of spend_batch releases the locks before the disk is written: otherwise a counter shared
-- by all processes would allow one batch per disk write. The reply comes after everything is on disk, with all earlier commits the
-- decisions may depend on. Late settlements are for p_database only.
create procedure spend(
  p_database uuid, p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz, p_forwarded_at timestamptz,
  p_lease uuid, p_share integer, p_returned lease_part[], p_windows text[], p_counters batch_counter[], p_at integer[],
  p_limits bigint[], p_shadows bigint[], p_notes jsonb, p_settlements batch_settlement[], p_requests batch_request[],
  inout answer text
)
language plpgsql as $$
begin
  if p_database is not null then
    perform is_database(p_database);
  end if;
  perform set_config('synchronous_commit', 'off', true);
  answer := spend_batch(
    p_process, p_now, p_time_zone, p_valid_until, p_forwarded_at, p_lease, p_share, p_returned, p_windows, p_counters, p_at,
    p_limits, p_shadows, p_notes, p_settlements, p_requests);
  commit;
  perform wait_for_disk();
end $$;

-- Top-up, release, and move of reservations.

-- Raises typical reservations, at most to the worst case of the request. Skips a reservation that is being settled.
create function top_up_batch(p_request_ids text[], p_amounts bigint[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_ids bigint[];
  v_added bigint[];
begin
  -- Needs no wait for the disk: if a crash loses the top-up, the worst case of the request still counts.
  perform set_config('synchronous_commit', 'off', true);
  with wanted as (
    select w.request_id, max(w.amount) as amount from unnest(p_request_ids, p_amounts) as w (request_id, amount) group by 1
  ), found as (
    select r.request_id, r.counter_ids, r.amount_nano_usd as before, least(w.amount, r.most_nano_usd) as amount
    from reservations r join wanted w on w.request_id = r.request_id
    where r.amount_nano_usd < least(w.amount, r.most_nano_usd)
    for update of r skip locked
  ), raised as (
    update reservations r set amount_nano_usd = f.amount from found f where r.request_id = f.request_id
    returning f.counter_ids, f.amount - f.before as added
  ), moved as (
    select c.id, sum(r.added)::bigint as added from raised r cross join unnest(r.counter_ids) as c (id) group by c.id
  )
  select array_agg(id), array_agg(added) into v_ids, v_added from moved;
  perform lock_counters(v_ids);
  update spend_counters s set reserved = s.reserved + m.added from unnest(v_ids, v_added) as m (id, added) where s.id = m.id;
end $$;

-- What reservations hold on each counter, in its unit, including their earlier attempts.
create function counted_of(p_reservations reservations[])
returns table (id bigint, amount bigint, most bigint, requests bigint)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
  select s.id, in_unit(s.unit, c.nano_usd, c.tokens, c.requests), in_unit(s.unit, c.most, c.tokens, c.requests), c.requests
  from (
    select b.id, sum(b.nano_usd)::bigint as nano_usd, sum(b.most)::bigint as most, sum(b.tokens)::bigint as tokens,
           sum(b.requests)::bigint as requests
    from (
      select unnest(r.counter_ids || r.rate_counter_ids) as id, r.amount_nano_usd as nano_usd, r.most_nano_usd as most,
             r.tokens, 1 as requests
      from unnest(p_reservations) as r
      union all
      select unnest(h.counter_ids), h.cost_nano_usd, h.cost_nano_usd, 0, 0
      from unnest(p_reservations) as r
      cross join jsonb_to_recordset(r.held) as h (cost_nano_usd bigint, counter_ids bigint[])
      where r.held is not null
    ) as b
    group by b.id
  ) as c
  join spend_counters s on s.id = c.id;
end $$;

-- Adds reservations to their counters; p_sign -1 subtracts them. The counters are locked.
create function count_reservations(p_reservations reservations[], p_sign integer) returns void
language plpgsql as $$
begin
  update spend_counters s
  set reserved = s.reserved + p_sign * c.amount, most = s.most + p_sign * c.most, in_flight = s.in_flight + p_sign * c.requests
  from counted_of(p_reservations) as c where s.id = c.id;
end $$;

-- Deletes reservations of requests that were never forwarded, without a ledger row. Returns how many existed.
create function release_batch(p_request_ids text[]) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_gone reservations[];
begin
  perform from reservations where request_id = any (p_request_ids) order by request_id for update;
  with gone as (
    delete from reservations where request_id = any (p_request_ids) returning reservations
  ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
  perform lock_counters(counters_of(v_gone));
  perform count_reservations(v_gone, -1);
  return cardinality(v_gone);
end $$;

-- A reservation rewritten for another upstream, with counters p_ids. p_held are its earlier attempts, [{n, cost_nano_usd, ...}] or
-- null; their cost stays on the money counters that the reservation had during each. A counter of both upstreams is kept, with its
-- window.
create function moved_reservation(p_old reservations, p_request batch_request, p_ids bigint[], p_held jsonb) returns reservations
language plpgsql as $$
declare
  v_new reservations := p_old;
  v_counters bigint[] := array(
    select coalesce(k.id, s.id)
    from unnest(p_ids) with ordinality as c (id) join spend_counters s on s.id = c.id
    left join spend_counters k
      on k.id = any (p_old.counter_ids || p_old.rate_counter_ids)
      and k.scope = s.scope and k.key = s.key and k.window_kind = s.window_kind and k.unit = s.unit
    order by c.ordinality);
  v_money integer := p_request.rates - p_request.first;
begin
  v_new.counter_ids := v_counters[:v_money];
  v_new.rate_counter_ids := v_counters[v_money + 1:];
  v_new.amount_nano_usd := p_request.amount;
  v_new.most_nano_usd := p_request.most;
  v_new.tokens := p_request.tokens;
  v_new.upstream := p_request.upstream;
  v_new.upstream_model := p_request.upstream_model;
  select jsonb_agg(coalesce(k.value, case
    when e.value -> 'cost_nano_usd' = '0' then e.value
    else e.value || jsonb_build_object('counter_ids', p_old.counter_ids) end) order by e.position)
  into v_new.held
  from jsonb_array_elements(p_held) with ordinality as e (value, position)
  left join jsonb_array_elements(p_old.held) as k (value) on k.value -> 'n' = e.value -> 'n';
  return v_new;
end $$;

-- Moves reservations to other upstreams in order, each on all counters or none: reserves what the new upstream needs and frees
-- what the old one had. A limit on which the request needs no more than before is not checked, so that a limit lowered meanwhile
-- stops no admitted request. If the request was sent to the old upstream, it still counts there in its minute. p_held has the
-- earlier attempts of each request or null; the rest is as in spend_batch.
--
-- Returns JSON, {missing, remarks, counters, decided_at}: missing are the indexes of requests without a reservation, because they are
-- settled or their process was declared dead. remarks are as in decide_requests, without the request itself. counters are those of
-- moved requests, with their new reservations: [index of the request, index among its counters, spent, reserved, in_flight, most,
-- set, granted, resets_at_ms].
create function move_reservations(
  p_now timestamptz, p_time_zone text, p_windows text[], p_counters batch_counter[],
  p_at integer[], p_limits bigint[], p_shadows bigint[], p_held jsonb, p_requests batch_request[]
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_ids bigint[];
  v_locked reservations[];
  v_request batch_request;
  v_set bigint[];
  v_granted bigint[];
  v_old reservations;
  v_new reservations;
  v_missing jsonb := '[]';
  v_exceeded jsonb[];
  v_shadows jsonb[];
  v_own jsonb[];
  v_remarks jsonb[] := '{}';
  v_counters jsonb[] := '{}';
begin
  perform ensure_durable_commit();
  v_ids := open_counters(p_counters, p_windows, array(
    select window_start(w.kind, v_now, p_time_zone) from unnest(p_windows) with ordinality as w (kind) order by w.ordinality));
  v_locked := array(
    select r from reservations r where r.request_id = any (array(select w.request_id from unnest(p_requests) as w))
    order by r.request_id for update);
  perform lock_counters(counters_of(v_locked) || v_ids);
  select c.amounts, c.granted into v_set, v_granted from limit_changes(p_counters, p_windows, v_now) as c;

  for v_number in 1 .. cardinality(p_requests) loop
    v_request := p_requests[v_number];
    select r.* into v_old from reservations r
    where r.request_id = v_request.request_id and r.request_id in (select l.request_id from unnest(v_locked) as l);
    if not found then
      v_missing := v_missing || to_jsonb(v_number - 1);
      continue;
    end if;
    v_new := moved_reservation(
      v_old, v_request, array(select v_ids[at] from unnest(p_at[v_request.first : v_request.last]) as at),
      nullif(p_held -> (v_number - 1), 'null'));
    perform count_reservations(array[v_old], -1);
    perform count_reservations(array[v_new], 1);
    select array_agg(jsonb_build_array(v_number - 1, c.ordinality - 1) || j.without) filter (where l.lacks),
           array_agg(jsonb_build_array(v_number - 1, c.ordinality - 1 + v_request.last - v_request.first + 1) || j.without)
             filter (where l.lacks_in_shadow),
           array_agg(jsonb_build_array(v_number - 1, c.ordinality - 1) || j.numbers)
    into v_exceeded, v_shadows, v_own
    from unnest(
      v_new.counter_ids || v_new.rate_counter_ids, p_at[v_request.first : v_request.last],
      p_limits[v_request.first : v_request.last], p_shadows[v_request.first : v_request.last])
      with ordinality as c (id, at, lim, shadow)
    join spend_counters s on s.id = c.id
    join counted_of(array[v_new]) as n on n.id = c.id
    left join counted_of(array[v_old]) as b on b.id = c.id
    cross join lateral (
      select limit_in_force(c.lim, v_set[c.at], v_granted[c.at]) as lim, v_request.ppm is null or s.in_flight > 1 as is_strict,
             coalesce(n.amount > b.amount or n.most > b.most, true) as is_checked) as w
    cross join lateral (
      select w.is_checked and not coalesce(
               has_room(s, w.lim, case when w.is_strict then bound_of(w.lim, v_request.ppm) end, 0, 0), true) as lacks,
             w.is_checked and not coalesce(
               has_room(s, c.shadow, case when w.is_strict then bound_of(c.shadow, v_request.ppm) end, 0, 0), true) as lacks_in_shadow
    ) as l
    cross join lateral (
      select jsonb_build_array(v_set[c.at], v_granted[c.at],
        milliseconds(window_end(s.window_kind, s.window_start, p_time_zone))) as changes) as e
    cross join lateral (
      select jsonb_build_array(s.spent, s.reserved, s.in_flight, s.most) || e.changes as numbers, jsonb_build_array(
        s.spent, s.reserved - in_unit(s.unit, v_request.amount, v_request.tokens, 1), s.in_flight - 1,
        s.most - in_unit(s.unit, v_request.most, v_request.tokens, 1)) || e.changes as without
    ) as j;
    if v_exceeded is not null then
      v_remarks := v_remarks || v_exceeded;
      perform count_reservations(array[v_new], -1);
      perform count_reservations(array[v_old], 1);
    else
      v_remarks := v_remarks || v_shadows;
      v_counters := v_counters || v_own;
      update spend_counters s set spent = s.spent + 1
      where s.id = any (v_old.rate_counter_ids) and s.id <> all (v_new.rate_counter_ids)
        and s.unit = 'requests' and s.window_kind <> 'open' and exists (
          select from jsonb_to_recordset(v_new.held) as h (upstream text, sends integer)
          where h.upstream = v_old.upstream and h.sends > 0);
      update reservations r
      set amount_nano_usd = v_new.amount_nano_usd, most_nano_usd = v_new.most_nano_usd, tokens = v_new.tokens,
          counter_ids = v_new.counter_ids, rate_counter_ids = v_new.rate_counter_ids,
          upstream = v_new.upstream, upstream_model = v_new.upstream_model, held = v_new.held
      where r.request_id = v_new.request_id;
    end if;
  end loop;
  return json_build_object(
    'missing', v_missing, 'remarks', to_jsonb(v_remarks), 'counters', to_jsonb(v_counters), 'decided_at', milliseconds(v_now));
end $$;

-- Leases.

-- Writes reservations whose amounts were taken from leases in memory. p_at are positions in p_leased, as in insert_reserved;
-- p_leased are the amounts to subtract from the lease on each counter, summed over all rows. While the leases exist, nothing here
-- waits for a counter. If a lease is gone or a row exists, it restarts without locks within the same call: its process may be dead
-- and unable to retry.
create procedure place_rows(
  p_process uuid, p_lease uuid, p_now timestamptz, p_requests batch_request[], p_at integer[], p_leased lease_part[]
)
language plpgsql as $$
declare
  v_ids bigint[] := array(select d.id from unnest(p_leased) as d);
  v_is_placed boolean;
begin
  perform set_config('synchronous_commit', 'off', true);
  v_is_placed := insert_reserved(p_process, coalesce(p_now, now()), v_ids, p_requests, p_at);
  if v_is_placed then
    v_is_placed := take_from_lease(p_lease, p_leased);
  end if;
  while not v_is_placed loop
    rollback;
    v_is_placed := place_again(p_process, p_lease, p_now, p_requests, p_at, v_ids);
  end loop;
  -- Releases the lock on the lease before the disk is written.
  commit;
  perform wait_for_disk();
end $$;

-- Subtracts these amounts from a lease; false if the lease has less.
create function take_from_lease(p_lease uuid, p_parts lease_part[]) returns boolean
language plpgsql as $$
declare
  v_taken integer;
  v_is_empty boolean;
begin
  perform pg_advisory_xact_lock(uuid_hash_extended(p_lease, 0));
  with taken as (
    update reservation_leases l set amount = l.amount - p.amount, most = l.most - p.most, requests = l.requests - p.requests
    from unnest(p_parts) as p
    where l.lease_id = p_lease and l.counter_id = p.id and l.amount >= p.amount and l.most >= p.most and l.requests >= p.requests
    returning l.amount = 0 and l.most = 0 and l.requests = 0 as is_empty
  ) select count(*), bool_or(t.is_empty) into v_taken, v_is_empty from taken t;
  if v_is_empty then
    delete from reservation_leases l where l.lease_id = p_lease and l.amount = 0 and l.most = 0 and l.requests = 0;
  end if;
  return v_taken = cardinality(p_parts);
end $$;

-- The same for rows that may exist already, as reservations or in the ledger: these are counted, and their amounts are returned as
-- far as a lease exists. If the lease is gone because the process was declared dead, new rows count anyway, because their requests
-- were forwarded. False if one was written concurrently.
create function place_again(
  p_process uuid, p_lease uuid, p_now timestamptz, p_requests batch_request[], p_at integer[], p_ids bigint[]
) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_requests batch_request[] := array(
    select distinct on (r.request_id) r from unnest(p_requests) as r
    where not exists (select from reservations o where o.request_id = r.request_id) and not exists (
      select from ledger l where l.request_id = r.request_id and l.settled_at > v_now - interval '2 days'));
  v_made reservations[];
begin
  if not insert_reserved(p_process, v_now, p_ids, v_requests, p_at) then
    return false;
  end if;
  perform lock_counters(p_ids);
  v_made := array(select r from reservations r where r.request_id = any (array(select v.request_id from unnest(v_requests) as v)));
  perform count_reservations(v_made, 1);
  perform return_leases(p_lease, array(
    select row(c.id, c.amount, c.most, c.requests)::lease_part from counted_of(v_made) as c));
  return true;
end $$;

-- Returns leases on the locked counters p_ids. Returns the amounts.
create function end_leases(p_leases uuid[], p_ids bigint[]) returns reservation_leases[]
language plpgsql as $$
declare
  v_ended reservation_leases[];
begin
  perform pg_advisory_xact_lock(k.key)
  from (select distinct uuid_hash_extended(l, 0) as key from unnest(p_leases) as l order by 1) as k;
  with ended as (
    delete from reservation_leases l where l.lease_id = any (p_leases) and l.counter_id = any (p_ids) returning l as lease
  ) select coalesce(array_agg(e.lease), '{}') into v_ended from ended e;
  update spend_counters s
  set reserved = s.reserved - e.amount, most = s.most - e.most, in_flight = s.in_flight - e.requests
  from (
    select e.counter_id, sum(e.amount)::bigint as amount, sum(e.most)::bigint as most, sum(e.requests)::integer as requests
    from unnest(v_ended) as e group by 1) as e
  where s.id = e.counter_id;
  return v_ended;
end $$;

-- Returns all leases of these processes except one lease_id.
create function return_all_leases(p_processes uuid[], p_but uuid) returns void
language plpgsql as $$
declare
  v_leases uuid[] := array(
    select distinct l.lease_id from reservation_leases l
    where l.process_id = any (p_processes) and l.lease_id is distinct from p_but);
  v_ids bigint[] := array(select l.counter_id from reservation_leases l where l.lease_id = any (v_leases));
begin
  perform lock_counters(v_ids);
  perform end_leases(v_leases, v_ids);
end $$;

-- Requests all processes by NOTIFY to return their leases on these counters.
create function recall_leases(p_ids bigint[]) returns void
language sql as $$
  select pg_notify('appscli_leases', array_to_string(p_ids[:200], ',')) where cardinality(p_ids) > 0
$$;

-- A changed limit or grant applies to the next request: leases on its counter were taken under the old limit.
create function recall_for_limit() returns trigger
language plpgsql as $$
declare
  v_changed record := coalesce(new, old);
begin
  perform pg_advisory_xact_lock(7204817102);
  perform recall_leases(array(
    select distinct l.counter_id from reservation_leases l join spend_counters s on s.id = l.counter_id
    where s.scope = v_changed.scope and s.key = v_changed.key and s.window_kind = v_changed.window_kind and s.unit = v_changed.unit));
  return null;
end $$;
create trigger recall_leases after insert or update or delete on limit_settings
  for each row execute function recall_for_limit();
create trigger recall_leases after insert or update or delete on limit_grants
  for each row execute function recall_for_limit();

-- Maintenance.

-- Spends leases of dead processes as estimates, if the server life in which they were taken is over: rows placed in them may be
-- lost. Writes one row per money counter, without a user, for the amount left there. So each counter, and the ledger's sum, have at
-- least the actual spending; the lease does not record which counters a lost row had together. A process that was only silent
-- writes its rows again, and correct_leases then reverses these estimates. The counters are locked.
create function book_leases(p_now timestamptz, p_leases reservation_leases[]) returns void
language sql as $$
  select adjust_ledger(array(
    select jsonb_populate_record(null::ledger, jsonb_build_object(
      'request_id', 'lease ' || gen_random_uuid(), 'kind', 'adjustment', 'protocol', 'none', 'principal_id', l.process_id,
      'user_email', 'unknown', 'model', 'unknown', 'upstream', 'unknown', 'upstream_model', 'unknown', 'aborted', true,
      'input_tokens', 0, 'output_tokens', 0, 'cache_read_tokens', 0, 'cache_write_5m_tokens', 0, 'cache_write_1h_tokens', 0,
      'cost_nano_usd', l.amount, 'provenance', jsonb_build_object('cost', 'estimate'), 'counter_ids', array[l.counter_id],
      'forwarded_at', p_now, 'settled_at', p_now))
    from unnest(p_leases) as l join spend_counters s on s.id = l.counter_id
    where s.unit = 'nano_usd' and l.amount > 0 and l.life is distinct from server_life()))
$$;

-- Reverses the estimates for leases of a process that is alive and has written all rows it placed in them.
create function correct_leases(p_now timestamptz, p_process uuid) returns void
language plpgsql as $$
declare
  v_estimates ledger[] := array(
    select l from ledger l
    where l.user_email = 'unknown' and l.principal_id = p_process::text and l.kind = 'adjustment' and not l.provenance ? 'of');
begin
  perform ensure_durable_commit();
  perform lock_counters(array(select unnest(e.counter_ids) from unnest(v_estimates) as e));
  perform correct_estimates(coalesce(p_now, now()), v_estimates, array(
    select row(e.request_id, null, true, 0, 0, 0, 0, 0, 0, null, null, 0, null)::batch_settlement from unnest(v_estimates) as e),
    '[{"provenance": {"cost": "estimate"}}]');
end $$;

-- Orphan recovery: turns reservations into ledger rows at the reserved amount if their process is known to be dead, or had no
-- heartbeat for p_patience. Returns how many. Leases of these processes are returned, or spent: see book_leases.
create function recover_orphans(
  p_now timestamptz, p_dead uuid[], p_patience interval, p_server_started timestamptz
) returns integer
language plpgsql as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  -- Null while the server has not been up for p_patience: there could be no heartbeat.
  v_lapse timestamptz := case when p_server_started < v_now - p_patience then v_now - p_patience end;
  v_gone reservations[];
  v_ended uuid[];
  v_leases uuid[];
  v_ids bigint[];
  v_rows batch_settlement[];
  v_notes jsonb;
begin
  perform ensure_durable_commit();
  with orphans as (
    select r.request_id
    from reservations r left join processes p on p.id = r.process_id
    where r.process_id = any (p_dead) or (r.reserved_at < v_lapse and (p.id is null or p.heartbeat_at < v_lapse))
    order by r.request_id
    limit 500
    for update of r skip locked
  ), gone as (
    delete from reservations r using orphans o where r.request_id = o.request_id returning r as reservation
  ) select coalesce(array_agg(gone.reservation), '{}') into v_gone from gone;
  -- A recovered process sends a heartbeat before it takes new leases, and so waits here until its old ones are returned.
  v_ended := array(
    select p.id from processes p where p.id = any (p_dead) or p.heartbeat_at < v_lapse order by p.id for update);
  v_leases := array(
    select distinct l.lease_id from reservation_leases l left join processes p on p.id = l.process_id
    where l.process_id = any (p_dead || v_ended) or (v_lapse is not null and p.id is null));
  v_ids := array(select l.counter_id from reservation_leases l where l.lease_id = any (v_leases));
  perform lock_counters(counters_of(v_gone) || v_ids);
  perform book_leases(v_now, end_leases(v_leases, v_ids));

  -- Like a settlement of unknown cost. A request forwarded without waiting for its reservation may have its row already.
  select coalesce(array_agg(o.settlement), '{}'), coalesce(jsonb_agg(o.note), '[]') into v_rows, v_notes
  from (
    select row(
        g.request_id, null, true, 0, 0, 0, 0, 0, g.amount_nano_usd + h.cost, null, null, row_number() over () - 1,
        row(null, null, h.attempts, null, null, null, null, null, null, null, null, null)::settlement_rest
      )::batch_settlement as settlement,
      jsonb_build_object('provenance', jsonb_build_object(
        'input', 'estimate', 'output', 'estimate', 'cache_read', 'estimate', 'cache_write_5m', 'estimate',
        'cache_write_1h', 'estimate', 'cost', 'estimate')
        || case when h.possible > 0 then jsonb_build_object('possibly_billed_nano_usd', h.possible) else '{}' end) as note
    from unnest(v_gone) as g
    cross join lateral (
      -- All null if the first attempt was in flight.
      select sum(h.cost_nano_usd)::bigint as cost, sum(h.possibly_billed_nano_usd) as possible,
        jsonb_agg(e.value - 'counter_ids') || jsonb_build_object(
          'n', max(h.n) + 1, 'upstream', g.upstream, 'upstream_model', g.upstream_model, 'certainty', 'possibly_accepted',
          'outcome', 'unanswered', 'reason', 'gone', 'sends', 1, 'cost_nano_usd', g.amount_nano_usd, 'provenance', 'estimate')
          as attempts
      from jsonb_array_elements(g.held) as e (value)
      cross join lateral jsonb_to_record(e.value) as h (n integer, cost_nano_usd bigint, possibly_billed_nano_usd bigint)) as h
    where not exists (
      select from ledger l where l.request_id = g.request_id and l.settled_at > g.reserved_at - interval '2 days')
  ) as o;
  perform write_ledger(v_now, v_now, '{}', v_gone, v_rows, v_notes);

  delete from processes p where p.id = any (v_ended) and not exists (select from reservations r where r.process_id = p.id);
  return cardinality(v_gone);
end $$;

-- Deletes a batch of minute counters that ended two hours ago and are unused. Returns how many.
create function delete_minutes(p_now timestamptz, p_most integer) returns integer
language sql as $$
  with gone as (
    delete from spend_counters
    where id = any (array(
      select id from spend_counters
      where window_kind = 'minute' and window_start < coalesce(p_now, now()) - interval '2 hours' and in_flight = 0
      limit p_most
      for update skip locked))
    returning id
  ) select count(*)::integer from gone
$$;

-- Deletes a batch of counters whose window began too long before the oldest ledger row to be named by one: a row counts in windows
-- that began at most 30 days plus the longest window before its settlement. Returns how many.
create function delete_old_counters(p_most integer) returns integer
language sql as $$
  with gone as (
    delete from spend_counters
    where id = any (array(
      select id from spend_counters
      where unit = 'nano_usd'
        and window_start < (select dropped_before - interval '31 days' - longest_window() from ledger_bounds)
        and reserved = 0 and in_flight = 0
      order by id
      limit p_most
      for update skip locked))
    returning id
  ) select count(*)::integer from gone
$$;

-- Adds an adjusting row to requests settled from p_from to p_to, and the difference to their counters. The row has the times of
-- its request, so that it counts in the same window, day and month, and is dropped with it. A row of p_rows is {request_id, was:
-- the current sum of the request's rows, cost: the new sum}; a request whose sum has changed meanwhile is left alone. p_change is
-- the row of admin_changes with the total, inserted if null; it must belong to the same run, because rows of other runs are
-- immutable.
create function reprice_batch(
  p_from timestamptz, p_to timestamptz, p_rows jsonb, p_change bigint,
  p_actor_kind text, p_actor text, p_subject text, p_now timestamptz
) returns table (change bigint, adjusted bigint, difference numeric)
language plpgsql security definer set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, now());
  v_due ledger[];
begin
  if p_change is not null and not exists (
    select from admin_changes c
    where c.id = p_change and c.action = 'ledger.reprice'
      and c.actor_kind = p_actor_kind and c.actor = p_actor and c.subject = p_subject
  ) then
    raise exception 'change % is none of this run', p_change;
  end if;
  perform ensure_durable_commit();
  -- Two concurrent runs would both add the difference.
  perform pg_advisory_xact_lock(hashtext('appscli.adjust_ledger'));

  with wanted as (
    select r.request_id, r.was, r.cost
    from jsonb_to_recordset(p_rows) as r (request_id text, was bigint, cost bigint)
  ), known as (
    select w.request_id, w.cost, min(w.was) as was, sum(l.cost_nano_usd) as now_at
    from wanted w join ledger l on l.request_id = w.request_id and l.settled_at >= p_from and l.settled_at < p_to
    group by 1, 2
    having count(*) filter (where l.kind = 'request') = 1
  ), due as (
    select distinct on (l.request_id) l as original, k.cost - k.was as difference, k.was
    from known k join ledger l
      on l.request_id = k.request_id and l.kind = 'request' and l.settled_at >= p_from and l.settled_at < p_to
    where k.now_at = k.was and k.cost <> k.was
  )
  select coalesce(array_agg(
      jsonb_populate_record(d.original, jsonb_build_object(
        'kind', 'adjustment', 'input_tokens', 0, 'output_tokens', 0, 'cache_read_tokens', 0,
        'cache_write_5m_tokens', 0, 'cache_write_1h_tokens', 0, 'server_tools', null, 'cost_nano_usd', d.difference,
        'provenance', jsonb_build_object(
          'cost', 'repriced', 'of', (d.original).provenance -> 'cost', 'was_nano_usd', d.was, 'at', v_now, 'by', p_actor)))),
    '{}')
  into v_due from due d;

  perform lock_counters(array(select unnest(g.counter_ids) from unnest(v_due) as g));
  perform adjust_ledger(v_due);

  select count(*), coalesce(sum(g.cost_nano_usd), 0) into adjusted, difference from unnest(v_due) as g;
  change := p_change;
  if adjusted > 0 then
    if change is null then
      insert into admin_changes (at, actor_kind, actor, action, subject, after)
      values (v_now, p_actor_kind, p_actor, 'ledger.reprice', p_subject,
        jsonb_build_object('requests', adjusted, 'difference_usd', trim_scale(difference / 1000000000)::text))
      returning id into change;
    else
      update admin_changes c set after = jsonb_build_object(
        'requests', (c.after ->> 'requests')::bigint + adjusted,
        'difference_usd', trim_scale((c.after ->> 'difference_usd')::numeric + difference / 1000000000)::text)
      where c.id = change;
    end if;
  end if;
  return next;
end $$;
