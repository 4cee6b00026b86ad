-- Limits, what counts against them, and the ledger.

-- What a limit counts in one window, in its unit: what was spent, what is reserved, by how many requests in flight, and the
-- most that these can come to. Counters and reservations are updated all the time by few: room in each page lets an update
-- stay in its page, and an eager vacuum keeps the dead versions few.
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
  -- Counters of money: those that the ledger row will name. The others are in rate_counter_ids.
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
  -- Earlier attempts while another one is under way, as the row will have them. What one may be billed, where that counts, is on
  -- the counters of its upstream meanwhile: [{n, cost_nano_usd, counter_ids, ...}]. Null for nearly all.
  held jsonb
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Room on a counter that a process has taken for requests to come, which it places without asking: in the counter's unit. It is
-- part of what is reserved on the counter, of the most, and of the requests in flight. A process that had trouble begins anew with
-- another lease_id; what it had under the one before is returned.
create table reservation_leases (
  lease_id uuid not null,
  counter_id bigint not null,
  process_id uuid not null,
  amount bigint not null,
  most bigint not null,
  requests integer not null,
  primary key (lease_id, counter_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index on reservation_leases (counter_id);

create table processes (
  id uuid primary key,
  machine text not null,
  identity text not null,
  heartbeat_at timestamptz not null
);

-- A request that was forwarded has one row of the kind 'request', and rows of the kind 'adjustment' that put it right.
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
  -- What was billed, where it differs from the model that was asked for at its usual price: the model that answered, its service
  -- tier, speed and region, and what each of several models used. The other columns hold the sum.
  billed jsonb,
  cost_nano_usd bigint not null,
  provenance jsonb not null,
  counter_ids bigint[] not null,
  forwarded_at timestamptz not null,
  settled_at timestamptz not null,
  -- What became of each attempt to have a request served, in order; null where the first was the only one and served: the
  -- row then tells all about it. An attempt whose upstream may bill it, and which counts, names its counters in counter_ids: it is
  -- in the cost of the row, and counts there in place of where the row counts. A row that corrects one has its attempts, too.
  attempts jsonb,
  -- Longest lifetime that the request asked of the prompt cache, and that its upstream was asked for.
  cache_requested_ttl text,
  cache_effective_ttl text,
  -- Of the last attempt: milliseconds until it was answered or failed, and the id that its upstream gave it. Null where its
  -- process ended before that was known.
  upstream_ms double precision,
  upstream_request_id text
) partition by range (settled_at);
create index on ledger (request_id);
create index on ledger using brin (settled_at);
create index on ledger (settled_at) where attempts is not null;
create table ledger_default partition of ledger default;

-- Rows settled before this moment were dropped. No row: none were.
create table ledger_bounds (
  only_row boolean primary key default true check (only_row),
  dropped_before timestamptz not null
);

-- The ledger with a line more for each earlier attempt that cost something or may be billed, at its own upstream; the line of
-- its request is without that. cost_from is the provenance of the cost: where it is 'possible', what may be billed is in it.
create view ledger_lines as
select l.request_id, l.kind, l.protocol, l.user_email, l.team, l.project, l.token_id, l.model, l.upstream, l.upstream_model,
       l.status, l.input_tokens, l.output_tokens, l.cache_read_tokens, l.cache_write_5m_tokens, l.cache_write_1h_tokens, l.billed,
       l.cost_nano_usd, coalesce(l.provenance ->> 'of', l.provenance ->> 'cost') as cost_from,
       case when l.kind = 'request' then coalesce((l.provenance ->> 'possibly_billed_nano_usd')::bigint, 0) else 0 end
         as possibly_billed_nano_usd, l.forwarded_at, l.settled_at
from ledger l where l.attempts is null or l.kind <> 'request'
union all
select l.request_id, case when a.is_last then 'request' else 'attempt' end, l.protocol, l.user_email, l.team, l.project,
       l.token_id, l.model, a.upstream, a.upstream_model, l.status,
       case when a.is_last then l.input_tokens else 0 end, case when a.is_last then l.output_tokens else 0 end,
       case when a.is_last then l.cache_read_tokens else 0 end,
       case when a.is_last then l.cache_write_5m_tokens else 0 end,
       case when a.is_last then l.cache_write_1h_tokens else 0 end, case when a.is_last then l.billed end,
       a.cost_nano_usd, a.provenance, coalesce(a.possibly_billed_nano_usd, 0), l.forwarded_at, l.settled_at
from ledger l
cross join lateral (
  select a.*, a.n = jsonb_array_length(l.attempts) as is_last
  from jsonb_to_recordset(l.attempts) as a (
    n int, upstream text, upstream_model text, provenance text, cost_nano_usd bigint, possibly_billed_nano_usd bigint)
) as a
where l.attempts is not null and l.kind = 'request'
  and (a.is_last or a.cost_nano_usd <> 0 or a.possibly_billed_nano_usd > 0);

-- A row for each attempt of each request.
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

-- A limit set at run time: it replaces every limit of gateway.yaml on that counter.
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

-- Room on top of whatever limit is in force, for a time.
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

-- What is set in the place of configured limits on a counter, and what is granted on top of them at a moment: one row, by index.
-- All that reserves, refuses and tells people of limits reads it. Grants have times in milliseconds since the epoch.
create function changed_limit(p_scope text, p_key text, p_kind text, p_unit text, p_at timestamptz) returns table (
  amount bigint, reason text, set_at timestamptz, set_by text, granted bigint, grants jsonb
)
language sql stable as $$
  select s.amount, s.reason, s.set_at, s.set_by, g.granted, g.grants
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

-- The counters on which something is set, or granted at a moment.
create function changed_counters(p_at timestamptz) returns table (scope text, key text, window_kind text, unit text)
language sql stable as $$
  select scope, key, window_kind, unit from limit_settings
  union select scope, key, window_kind, unit from limit_grants
  where revoked_at is null and granted_at <= p_at and p_at < expires_at
$$;

-- Windows.

-- Of two moments that the clock on the wall calls the same, an hour apart, the first; other moments as they are. PostgreSQL
-- itself takes the second: where the clock goes back to midnight the day would begin in its own future.
create function first_of(p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case
    when (p_at - interval '1 hour') at time zone p_time_zone = p_at at time zone p_time_zone then p_at - interval '1 hour'
    else p_at
  end
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
    -- By the clock on the wall one minute of the year is an hour and a minute long.
    when 'minute' then p_start + interval '1 minute'
    -- A day without a midnight begins at one o'clock, and ends at midnight all the same.
    else first_of(
      date_trunc(p_kind, p_start at time zone p_time_zone + ('1 ' || p_kind)::interval) at time zone p_time_zone, p_time_zone)
  end
$$;

-- Counters and their limits.

-- Functions that look rows up by key, a few or hundreds at a time, have settings that let each statement be planned once per
-- connection: with plans made for the arguments of each call, planning was more than half of the time of a small batch, and
-- it grows with the partitions of the ledger. Looking up by index is right for any number of rows.

-- Ids of the windows that p_now lies in, in the order given.
create function open_counters(
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[], p_now timestamptz, p_time_zone text
) returns bigint[]
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_ids bigint[];
begin
  loop
    select array_agg(s.id order by c.position) into v_ids
    from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
    join spend_counters s
      on s.scope = c.scope and s.key = c.key and s.window_kind = c.kind and s.unit = c.unit
      and s.window_start = window_start(c.kind, p_now, p_time_zone);
    exit when coalesce(cardinality(v_ids), 0) = cardinality(p_scopes);

    insert into spend_counters (scope, key, window_kind, unit, window_start)
    select c.scope, c.key, c.kind, c.unit, window_start(c.kind, p_now, p_time_zone)
    from unnest(p_scopes, p_keys, p_kinds, p_units) as c (scope, key, kind, unit)
    where not exists (
      select from spend_counters s
      where s.scope = c.scope and s.key = c.key and s.window_kind = c.kind and s.unit = c.unit
        and s.window_start = window_start(c.kind, p_now, p_time_zone))
    order by 1, 2, 3, 4
    on conflict do nothing;
  end loop;
  return v_ids;
end $$;

-- In the order of ids, so that processes never deadlock.
create function lock_counters(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off as $$
begin
  perform from spend_counters where id = any (p_ids) order by id for update;
end $$;

-- What was set in place of the limits on some counters, and what is granted on top of them, in the order given. Both are null
-- when nothing is set or granted for anybody, which costs two reads of empty tables.
create function limit_changes(
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[], p_now timestamptz,
  out amounts bigint[], out granted bigint[]
)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  if not exists (select from limit_settings) and not exists (select from limit_grants where revoked_at is null) then
    return;
  end if;
  select array_agg(l.amount order by c.position), array_agg(l.granted order by c.position)
  into amounts, granted
  from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
  cross join lateral changed_limit(c.scope, c.key, c.kind, c.unit, p_now) as l;
end $$;

-- The limit in force: the one that was set in place of what is configured, and what is granted on top. Null without any. This
-- and the next ones are the rules of engine/domain/budget/limits/room.ts.
create function limit_in_force(p_configured bigint, p_set bigint, p_granted bigint) returns bigint
language sql immutable as $$
  select coalesce(p_set, p_configured) + coalesce(p_granted, 0)
$$;

-- How far spending may come if everything in flight costs the most it can: p_ppm millionths beyond the limit.
create function bound_of(p_limit bigint, p_ppm bigint) returns bigint
language sql immutable as $$
  select p_limit + coalesce(p_limit / 1000000 * p_ppm + p_limit % 1000000 * p_ppm / 1000000, 0)
$$;

-- What a reservation comes to in the unit of a counter.
create function in_unit(p_unit text, p_nano_usd bigint, p_tokens bigint, p_requests bigint) returns bigint
language sql immutable as $$
  select case p_unit when 'nano_usd' then p_nano_usd when 'tokens' then p_tokens else p_requests end
$$;

-- Whether a limit has room on a counter for an amount, and its bound for the most it can come to. Without a bound any most
-- has room; without a limit it is null.
create function has_room(
  p_counter spend_counters, p_limit bigint, p_bound bigint, p_amount bigint, p_most bigint
) returns boolean
language sql immutable as $$
  select p_counter.spent + p_counter.reserved + p_amount <= p_limit
    and coalesce(p_counter.spent + p_counter.most + p_most <= p_bound, true)
$$;

-- Whether a limit has room for one request; p_ppm is null for one that reserves the most it can cost. Another that is alone may
-- cost anything. Null without a limit.
create function has_room_for(
  p_counter spend_counters, p_limit bigint, p_amount_nano_usd bigint, p_most_nano_usd bigint, p_tokens bigint, p_ppm bigint
) returns boolean
language sql immutable as $$
  select has_room(
    p_counter, p_limit, case when p_ppm is null or p_counter.in_flight > 0 then bound_of(p_limit, p_ppm) end,
    in_unit(p_counter.unit, p_amount_nano_usd, p_tokens, 1), in_unit(p_counter.unit, p_most_nano_usd, p_tokens, 1))
$$;

-- Some counters as they are at one moment, in the order given, as JSON: [spent, reserved, in_flight, most, set, granted,
-- resets_at_ms, then what of it is leased and not placed: reserved, in_flight, most, and whether a process that lives has leases
-- there]; and the ids of the latter. A process is taken for one that gives back while it was heard of within the last 15 seconds.
create function look_at_counters(
  p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[], p_units text[], out told text, out ids bigint[]
)
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_set bigint[];
  v_granted bigint[];
begin
  select c.amounts, c.granted into v_set, v_granted
  from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;
  select json_agg(json_build_array(
           coalesce(s.spent, 0), coalesce(s.reserved, 0), coalesce(s.in_flight, 0), coalesce(s.most, 0),
           v_set[c.position], v_granted[c.position],
           (extract(epoch from window_end(c.kind, w.start, p_time_zone)) * 1000)::bigint,
           l.amount, l.requests, l.most, l.is_kept) order by c.position),
         array_agg(s.id) filter (where l.is_kept)
  into told, ids
  from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
  cross join lateral (select window_start(c.kind, v_now, p_time_zone) as start) as w
  left join spend_counters s
    on s.scope = c.scope and s.key = c.key and s.window_kind = c.kind and s.unit = c.unit and s.window_start = w.start
  cross join lateral (
    select coalesce(sum(r.amount), 0)::bigint as amount, coalesce(sum(r.most), 0)::bigint as most,
           coalesce(sum(r.requests), 0) as requests,
           coalesce(bool_or((r.amount > 0 or r.requests > 0) and p.heartbeat_at > v_now - interval '15 seconds'), false) as is_kept
    from reservation_leases r left join processes p on p.id = r.process_id where r.counter_id = s.id) as l;
end $$;

-- What a gateway asks of the ledger, many requests at a time: settlements and reservations.
--
-- Order of locks, the same in every function so that processes never deadlock: reservations, then counters by id, then leases by
-- counter id. Counters that do not exist yet are inserted in the order of their key before anything is locked. p_now replaces the
-- database's clock when it is not null. The functions that only settle_and_reserve_batch calls have no settings of their own.

-- A counter of a batch; window_n is the index of its window. The least of the limits that requests have on it, the least in shadow
-- mode, and by how many millionths these may be passed.
create type batch_counter as (scope text, key text, window_n integer, unit text, lim bigint, shadow_lim bigint, ppm bigint);

-- What is asked of each counter, in the order of their positions: by how many requests, how much together. It has room if with all
-- of that it comes to the limit at most, and if everything in flight costs the most it can, to the bound at most.
create type asked_counters as (
  requests integer[], amount bigint[], most bigint[], tokens bigint[], limits bigint[], bounds bigint[]
);

-- How many requests were settled, and their counters, as often as these name them: of which request, what it cost and used, and
-- what is no longer reserved for it.
create type settled_counters as (
  requests bigint, request_ids text[], ids bigint[], cost bigint[], used bigint[], amount bigint[], most bigint[], tokens bigint[]
);

-- Whether there is room for all that is asked, and counters of money as they are with it, by their positions.
create type changed_counters as (
  fits boolean, positions integer[], spent bigint[], reserved bigint[], in_flight integer[], most bigint[]
);

-- What is said only of a few requests that are over. A request without a reservation says who asked for what, and names its counters as
-- positions in those of the batch; so do attempts that count on others than their request. upstream and upstream_model are null where
-- they are those of the reservation. forwarded_at is null but for a late settlement.
create type settlement_rest as (
  upstream text, upstream_model text, attempts jsonb, protocol text, principal_id text, user_email text, team text, project text,
  token_id text, model text, counters integer[], forwarded_at timestamptz
);

-- A request that is over; rest is null for nearly all, which have a reservation and one attempt. note_n is the index of what many
-- have in common, from 0, in a JSON array of {provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl}. A cost
-- of null means the amount that was reserved.
create type batch_settlement as (
  request_id text, status integer, aborted boolean,
  input bigint, output bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint,
  cost bigint, upstream_ms double precision, upstream_request_id text, note_n integer, rest settlement_rest
);

-- A request that asks for a reservation. Its counters are those from first to last in an array for all of a batch, those of money
-- before rates.
create type batch_request as (
  request_id text, amount bigint, most bigint, tokens bigint, protocol text, principal_id text, user_email text, team text,
  project text, token_id text, model text, upstream text, upstream_model text, first integer, rates integer, last integer
);

-- Sums without the detour of sum(bigint) by numeric. Raises beyond bigint.
create aggregate sum_bigint(bigint) (sfunc = int8pl, stype = bigint, initcond = '0', combinefunc = int8pl, parallel = safe);

-- Ids of the counters in the order given, like open_counters. is_changed: something is set or granted for somebody.
create function find_counters(
  p_counters batch_counter[], p_windows text[], p_starts timestamptz[], p_now timestamptz, p_time_zone text,
  out ids bigint[], out is_changed boolean
)
language plpgsql as $$
begin
  select array_agg(s.id order by c.position),
         exists (select from limit_settings) or exists (select from limit_grants where revoked_at is null)
  into ids, is_changed
  from unnest(p_counters) with ordinality as c (
    scope, key, window_n, unit, lim, shadow_lim, ppm, position)
  join spend_counters s
    on s.scope = c.scope and s.key = c.key and s.window_kind = p_windows[c.window_n]
    and s.window_start = p_starts[c.window_n] and s.unit = c.unit;
  if ids is null or cardinality(ids) < cardinality(p_counters) then
    ids := open_counters(
      array(select c.scope from unnest(p_counters) as c), array(select c.key from unnest(p_counters) as c),
      array(select p_windows[c.window_n] from unnest(p_counters) as c), array(select c.unit from unnest(p_counters) as c),
      p_now, p_time_zone);
  end if;
end $$;

-- What was set and granted on counters, as limit_changes tells it, and limits and bounds with that.
create function limits_with_changes(
  p_counters batch_counter[], p_windows text[], p_now timestamptz,
  out amounts bigint[], out granted bigint[], out limits bigint[], out bounds bigint[]
)
language plpgsql as $$
begin
  select c.amounts, c.granted into amounts, granted
  from limit_changes(
    array(select c.scope from unnest(p_counters) as c), array(select c.key from unnest(p_counters) as c),
    array(select p_windows[c.window_n] from unnest(p_counters) as c), array(select c.unit from unnest(p_counters) as c),
    p_now) as c;
  select array_agg(coalesce(l.lim, 9223372036854775807)), array_agg(coalesce(bound_of(l.lim, l.ppm), 9223372036854775807))
  into limits, bounds
  from (
    select least(limit_in_force(c.lim, amounts[c.position], granted[c.position]), c.shadow_lim) as lim, c.ppm
    from unnest(p_counters) with ordinality as c (scope, key, window_n, unit, lim, shadow_lim, ppm, position)) as l;
end $$;

-- Puts what is settled and what shall be reserved into their counters, which are locked by that in the order of their ids. What
-- does not fit may do so after all for one request after the other: decide_reserved knows.
create function change_counters(p_settled settled_counters, p_ids bigint[], p_asked asked_counters) returns changed_counters
language plpgsql as $$
declare
  v_changed changed_counters;
begin
  with change as materialized (
    select c.id, max(c.position) as position, sum_bigint(c.cost) as cost, sum_bigint(c.used) as used, sum(c.written) as written,
           sum_bigint(c.amount) as amount, sum_bigint(c.most) as most, sum_bigint(c.tokens) as tokens,
           sum(c.requests) as requests
    from (
      select s.id, null::integer as position, s.cost, s.used, 1 as written, -s.amount as amount, -s.most as most,
             -s.tokens as tokens, -1 as requests
      from unnest(p_settled.ids, p_settled.cost, p_settled.used, p_settled.amount, p_settled.most, p_settled.tokens)
        as s (id, cost, used, amount, most, tokens)
      union all
      select a.id, a.position::integer, 0, 0, 0, a.amount, a.most, a.tokens, a.requests
      from unnest(p_ids, p_asked.requests, p_asked.amount, p_asked.most, p_asked.tokens)
        with ordinality as a (id, requests, amount, most, tokens, position)
      where a.requests > 0
    ) as c
    where c.id is not null
    group by c.id
    order by c.id
  ), changed as (
    update spend_counters s
    set spent = s.spent + case s.window_kind when 'open' then 0 else in_unit(s.unit, c.cost, c.used, c.written) end,
        reserved = s.reserved + in_unit(s.unit, c.amount, c.tokens, c.requests),
        most = s.most + in_unit(s.unit, c.most, c.tokens, c.requests), in_flight = s.in_flight + c.requests
    from change c where s.id = c.id
    returning c.position, s.unit, s.spent, s.reserved, s.in_flight, s.most
  )
  select coalesce(bool_and(
           c.spent + c.reserved <= p_asked.limits[c.position] and c.spent + c.most <= p_asked.bounds[c.position]), true),
         array_agg(c.position) filter (where c.unit = 'nano_usd'), array_agg(c.spent) filter (where c.unit = 'nano_usd'),
         array_agg(c.reserved) filter (where c.unit = 'nano_usd'), array_agg(c.in_flight) filter (where c.unit = 'nano_usd'),
         array_agg(c.most) filter (where c.unit = 'nano_usd')
  into v_changed
  from changed c where c.position is not null;
  return v_changed;
end $$;

-- Makes reservations. p_at are the counters of all of them, as positions in p_ids.
create function insert_reserved(
  p_process uuid, p_now timestamptz, p_ids bigint[], p_requests batch_request[], p_at integer[]
) returns void
language plpgsql as $$
begin
  insert into reservations (
    request_id, process_id, reserved_at, amount_nano_usd, most_nano_usd, tokens, counter_ids, rate_counter_ids,
    protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
  select r.request_id, p_process, p_now, r.amount, r.most, r.tokens, c.ids[r.first : r.rates - 1], c.ids[r.rates : r.last],
         r.protocol, r.principal_id, r.user_email, r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model
  from (select array(select p_ids[at] from unnest(p_at) as at) as ids offset 0) as c
  cross join unnest(p_requests) as r;
end $$;

-- Takes what is asked from the counters again, after change_counters.
create function take_back(p_ids bigint[], p_asked asked_counters) returns void
language plpgsql as $$
begin
  update spend_counters s
  set reserved = s.reserved - in_unit(s.unit, a.amount, a.tokens, a.requests),
      most = s.most - in_unit(s.unit, a.most, a.tokens, a.requests), in_flight = s.in_flight - a.requests
  from unnest(p_ids, p_asked.requests, p_asked.amount, p_asked.most, p_asked.tokens) as a (id, requests, amount, most, tokens)
  where s.id = a.id and a.requests > 0;
end $$;

-- Decides on reservations in the order given, each in the light of those before it, that insert_reserved has made and
-- change_counters found to be too much together. p_limits has of each {limits: one per counter or null, shadow_limits: like limits,
-- or absent, ppm: by how many millionths of a limit all that is in flight may pass it, absent for a request that reserves the most
-- it can cost}. remarks has an entry per limit without room: [index of the request, index among its counters, spent, reserved,
-- in_flight, most, set, granted, resets_at_ms], indexes from 0. A limit in shadow mode refuses nothing: for a granted request its
-- index counts on from the number of counters.
create function decide_reserved(
  p_time_zone text, p_ids bigint[], p_asked asked_counters, p_set bigint[], p_granted bigint[],
  p_requests batch_request[], p_at integer[], p_limits jsonb, out remarks jsonb, out changed changed_counters
)
language plpgsql as $$
declare
  v_counters spend_counters[];
  v_counter spend_counters;
  v_request batch_request;
  v_limits bigint[];
  v_shadow_limits bigint[];
  v_ppm bigint;
  v_places integer[];
  v_lacking integer[];
  v_at integer;
  -- Arrays and loops: JSON is copied whole when something is appended, and a query per request would take five times as long.
  v_refused text[] := '{}';
  v_remarks jsonb[] := '{}';
begin
  perform take_back(p_ids, p_asked);
  select array_agg(s order by i.position) into v_counters
  from unnest(p_ids) with ordinality as i (id, position) join spend_counters s on s.id = i.id;

  for v_number in 1 .. cardinality(p_requests) loop
    v_request := p_requests[v_number];
    v_places := p_at[v_request.first : v_request.last];
    v_lacking := '{}';
    select l.limits, l.shadow_limits, l.ppm into v_limits, v_shadow_limits, v_ppm
    from jsonb_to_record(p_limits -> (v_number - 1)) as l (limits bigint[], shadow_limits bigint[], ppm bigint);
    for v_index in 1 .. cardinality(v_places) loop
      v_at := v_places[v_index];
      if not has_room_for(
        v_counters[v_at], limit_in_force(v_limits[v_index], p_set[v_at], p_granted[v_at]),
        v_request.amount, v_request.most, v_request.tokens, v_ppm)
      then
        v_lacking := array_append(v_lacking, v_index - 1);
      end if;
    end loop;
    if cardinality(v_lacking) > 0 then
      v_refused := array_append(v_refused, v_request.request_id);
    else
      for v_index in 1 .. coalesce(cardinality(v_shadow_limits), 0) loop
        if not has_room_for(
          v_counters[v_places[v_index]], v_shadow_limits[v_index], v_request.amount, v_request.most, v_request.tokens, v_ppm)
        then
          v_lacking := array_append(v_lacking, cardinality(v_places) + v_index - 1);
        end if;
      end loop;
    end if;
    for v_index in 1 .. cardinality(v_lacking) loop
      v_at := v_places[v_lacking[v_index] % cardinality(v_places) + 1];
      v_counter := v_counters[v_at];
      v_remarks := array_append(v_remarks, jsonb_build_array(
        v_number - 1, v_lacking[v_index], v_counter.spent, v_counter.reserved, v_counter.in_flight, v_counter.most,
        p_set[v_at], p_granted[v_at],
        (extract(epoch from window_end(v_counter.window_kind, v_counter.window_start, p_time_zone)) * 1000)::bigint));
    end loop;

    continue when v_request.request_id = any (v_refused);
    foreach v_at in array v_places loop
      v_counter := v_counters[v_at];
      v_counter.reserved := v_counter.reserved + in_unit(v_counter.unit, v_request.amount, v_request.tokens, 1);
      v_counter.most := v_counter.most + in_unit(v_counter.unit, v_request.most, v_request.tokens, 1);
      v_counter.in_flight := v_counter.in_flight + 1;
      v_counters[v_at] := v_counter;
    end loop;
  end loop;

  delete from reservations where request_id = any (v_refused);
  with added as (
    update spend_counters s set reserved = c.reserved, most = c.most, in_flight = c.in_flight
    from unnest(v_counters) as c where s.id = c.id and s.in_flight <> c.in_flight
    returning s.id, s.unit, s.spent, s.reserved, s.in_flight, s.most
  )
  select true, array_agg(array_position(p_ids, a.id)), array_agg(a.spent), array_agg(a.reserved), array_agg(a.in_flight),
         array_agg(a.most)
  into changed.fits, changed.positions, changed.spent, changed.reserved, changed.in_flight, changed.most
  from added a where a.unit = 'nano_usd';
  remarks := to_jsonb(v_remarks);
end $$;

-- The counters that reservations are on.
create function counters_of(p_reservations reservations[]) returns bigint[]
language sql as $$
  select array(
    select unnest(r.counter_ids || r.rate_counter_ids) from unnest(p_reservations) as r
    union all
    select unnest(h.counter_ids) from unnest(p_reservations) as r
    cross join jsonb_to_recordset(r.held) as h (counter_ids bigint[]) where r.held is not null)
$$;

-- Writes the ledger rows of nearly all: those whose reservations are there, without earlier attempts. Tells which these are.
create function write_reserved(p_now timestamptz, p_settlements batch_settlement[], p_notes jsonb) returns settled_counters
language plpgsql as $$
declare
  v_settled settled_counters;
begin
  with gone as (
    delete from reservations r using unnest(p_settlements) as i
    where r.request_id = i.request_id and r.held is null and i.rest is null
    returning r.request_id, r.reserved_at, r.amount_nano_usd, r.most_nano_usd, r.tokens, r.counter_ids, r.rate_counter_ids,
      r.protocol, r.principal_id, r.user_email, r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model,
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
    from gone g
  )
  select count(*) filter (where c.n is null or c.n = 1), array_agg(g.request_id), array_agg(c.id), array_agg(g.cost),
         array_agg(g.input + g.output + g.cache_read + g.cache_write_5m + g.cache_write_1h),
         array_agg(g.amount_nano_usd), array_agg(g.most_nano_usd), array_agg(g.tokens)
  into v_settled
  from gone g left join unnest(g.counter_ids || g.rate_counter_ids) with ordinality as c (id, n) on true;
  return v_settled;
end $$;

-- Attempts as a ledger row has them: those that count on counters of their own name them, by what was held for them or, where
-- nothing was reserved, as positions in p_ids.
create function place_attempts(p_attempts jsonb, p_held jsonb, p_ids bigint[]) returns jsonb
language sql as $$
  select jsonb_agg(
    a.value - 'counters' || case
      when h.counter_ids is not null then jsonb_build_object('counter_ids', h.counter_ids)
      when a.value ? 'counters' then jsonb_build_object('counter_ids', array(
        select p_ids[c::integer] from jsonb_array_elements_text(a.value -> 'counters') as c))
      else '{}' end
    order by a.position)
  from jsonb_array_elements(p_attempts) with ordinality as a (value, position)
  left join jsonb_to_recordset(p_held) as h (n integer, counter_ids bigint[]) on h.n = (a.value ->> 'n')::integer
$$;

-- What of the cost of a row counts on counters of its attempts and not on its own.
create function counted_apart(p_attempts jsonb) returns bigint
language sql immutable as $$
  select coalesce(sum(a.cost_nano_usd) filter (where a.counter_ids is not null), 0)::bigint
  from jsonb_to_recordset(p_attempts) as a (cost_nano_usd bigint, counter_ids bigint[])
$$;

-- Writes one ledger row per request, and in the counters of the windows it was reserved in replaces its reservation by what it
-- used. Returns the requests that have been written before. The counters are locked; those of p_ids are of the windows of
-- p_counted_at.
create function write_ledger(
  p_now timestamptz, p_counted_at timestamptz, p_ids bigint[], p_gone reservations[], p_rows batch_settlement[],
  p_notes jsonb
) returns setof text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
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
           case when i.attempts is not null then place_attempts(i.attempts, g.held, p_ids) end,
           i.note ->> 'cache_requested_ttl', i.note ->> 'cache_effective_ttl', i.upstream_ms, i.upstream_request_id,
           coalesce(g.counter_ids, array(select p_ids[c] from unnest(i.counters) as c)),
           coalesce(g.reserved_at, least(i.forwarded_at, p_now)), p_now
    from incoming i left join gone g on g.request_id = i.request_id
    -- The counters are locked: of two attempts to write the same unreserved request the second sees the first.
    where i.protocol is null and g.request_id is not null or i.protocol is not null and not exists (
      select from ledger l where l.request_id = i.request_id and l.settled_at > p_counted_at - interval '2 days')
    returning request_id, attempts, counter_ids,
      cost_nano_usd - case when attempts is null then 0 else counted_apart(attempts) end as cost,
      input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens as tokens
  ), moved as (
    select m.id, sum(m.cost)::bigint as cost, sum(m.used)::bigint as used, sum(m.written)::bigint as written,
           sum(m.amount)::bigint as amount, sum(m.most)::bigint as most, sum(m.tokens)::bigint as tokens,
           sum(m.gone)::bigint as gone
    from (
      select unnest(coalesce(g.counter_ids || g.rate_counter_ids, w.counter_ids)) as id, w.cost, w.tokens as used,
             (w.request_id is not null)::int as written, g.amount_nano_usd as amount, g.most_nano_usd as most, g.tokens,
             (g.request_id is not null)::int as gone
      from written w full join gone g on g.request_id = w.request_id
      union all
      select unnest(h.counter_ids), 0, 0, 0, h.cost_nano_usd, h.cost_nano_usd, 0, 0
      from gone g cross join jsonb_to_recordset(g.held) as h (cost_nano_usd bigint, counter_ids bigint[])
      where g.held is not null
      union all
      select unnest(a.counter_ids), a.cost_nano_usd, 0, 0, 0, 0, 0, 0
      from written w cross join jsonb_to_recordset(w.attempts) as a (cost_nano_usd bigint, counter_ids bigint[])
      where w.attempts is not null
    ) as m
    group by m.id
  ), updated as (
    update spend_counters s
    set spent = s.spent + case s.window_kind
          when 'open' then 0 else coalesce(in_unit(s.unit, m.cost, m.used, m.written), 0) end,
        reserved = s.reserved - coalesce(in_unit(s.unit, m.amount, m.tokens, m.gone), 0),
        most = s.most - coalesce(in_unit(s.unit, m.most, m.tokens, m.gone), 0), in_flight = s.in_flight - m.gone
    from moved m where s.id = m.id
  )
  select i.request_id from incoming i where not exists (select from written w where w.request_id = i.request_id);
end $$;

-- The estimates that were written for requests whose process was taken for dead, where p_rows tell what they cost after all:
-- it had only paused, or was disconnected.
create function find_estimates(p_now timestamptz, p_rows batch_settlement[], p_notes jsonb) returns ledger[]
language plpgsql set enable_seqscan = off as $$
begin
  return (
    select coalesce(array_agg(l), '{}')
    from (select distinct r.request_id from unnest(p_rows) as r
          where p_notes -> r.note_n -> 'provenance' ->> 'cost' <> 'estimate') as r
    join ledger l on l.request_id = r.request_id
    where l.settled_at > p_now - interval '2 days' and l.kind = 'request' and l.provenance ->> 'cost' = 'estimate'
      and l.aborted and l.status is null
      and l.input_tokens + l.output_tokens + l.cache_read_tokens + l.cache_write_5m_tokens + l.cache_write_1h_tokens = 0);
end $$;

-- Adds to each of these estimates, once, a row that corrects it, with its times, so that it counts in the same windows.
-- Returns the requests. The counters are locked.
create function correct_estimates(p_now timestamptz, p_estimates ledger[], p_rows batch_settlement[], p_notes jsonb)
returns setof text
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return query
  with due as (
    select distinct on (r.request_id) jsonb_populate_record(e, jsonb_build_object(
      'kind', 'adjustment', 'server_tools', n.note -> 'server_tools', 'billed', n.note -> 'billed',
      'input_tokens', r.input, 'output_tokens', r.output, 'cache_read_tokens', r.cache_read,
      'cache_write_5m_tokens', r.cache_write_5m, 'cache_write_1h_tokens', r.cache_write_1h,
      'cost_nano_usd', r.cost - e.cost_nano_usd,
      'provenance', n.note -> 'provenance' || jsonb_build_object('of', 'estimate', 'was_nano_usd', e.cost_nano_usd, 'at', p_now)))
      as l
    from unnest(p_estimates) as e
    join unnest(p_rows) as r on r.request_id = e.request_id
    cross join lateral (select p_notes -> r.note_n as note) as n
    where r.cost is not null and not exists (
      select from ledger l where l.request_id = e.request_id and l.settled_at = e.settled_at and l.kind = 'adjustment')
  ), written as (
    insert into ledger select (d.l).* from due d returning request_id, cost_nano_usd, counter_ids
  ), moved as (
    select c.id, sum(w.cost_nano_usd)::bigint as cost from written w cross join unnest(w.counter_ids) as c (id) group by c.id
  ), updated as (
    update spend_counters s set spent = s.spent + m.cost from moved m where s.id = m.id
  )
  select w.request_id from written w;
end $$;

-- Settles what write_reserved does not. Returns the requests that have been written before. p_ids are all other counters that the
-- batch will change: all of them are locked at once.
create function settle_rest(
  p_now timestamptz, p_counted_at timestamptz, p_ids bigint[], p_settled bigint[], p_rows batch_settlement[], p_notes jsonb
) returns text[]
language plpgsql as $$
declare
  v_gone reservations[];
  v_estimates ledger[] := '{}';
  v_repeated text[];
begin
  with gone as (
    delete from reservations where request_id = any (array(select r.request_id from unnest(p_rows) as r)) returning reservations
  ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
  if cardinality(v_gone) < cardinality(p_rows) then
    v_estimates := find_estimates(p_now, p_rows, p_notes);
  end if;
  perform lock_counters(
    counters_of(v_gone) || array(select unnest(e.counter_ids) from unnest(v_estimates) as e) || p_ids || p_settled);
  v_repeated := array(select write_ledger(p_now, p_counted_at, p_ids, v_gone, p_rows, p_notes));
  if cardinality(v_estimates) > 0 then
    v_repeated := array(select unnest(v_repeated) except select correct_estimates(p_now, v_estimates, p_rows, p_notes));
  end if;
  return v_repeated;
end $$;

-- Everything that waits in a process, in one transaction: settles what is over, then reserves, so that what was just given
-- back can be reserved again. p_windows are kinds of windows, each once; p_at belongs to insert_reserved, p_limits is the JSON of
-- decide_reserved, parsed only when it is needed. Late settlements count at p_forwarded_at, but at most 30 days ago, because
-- counters of long ago are deleted; everything else, where that is null, now. Nothing is reserved after p_valid_until, when nobody
-- waits for it any more and the process may have ended: then late is true.
--
-- Returns JSON, or null when there is nothing to tell: {repeated: requests that were written before, remarks: those of
-- decide_reserved, late, decided_at: milliseconds since the epoch}, and counters of
-- money that something was reserved on, as columns: [positions, spent, reserved, in_flight, most, set, granted], the last two null
-- where nothing was set or granted for anybody, and by position of all counters; resets has the end of each window, in
-- milliseconds since the epoch.
create function settle_and_reserve_batch(
  p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz, p_forwarded_at timestamptz,
  p_windows text[], p_counters batch_counter[], p_asked asked_counters, p_settlements batch_settlement[],
  p_notes jsonb, p_requests batch_request[], p_at integer[], p_limits text
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
-- No counter is looked up twice in a batch: remembering what was found costs a tenth of it.
set enable_memoize = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  -- A gateway said when, whose clock may be wrong.
  v_counted_at timestamptz := least(p_forwarded_at, v_now);
  v_opened_at timestamptz := greatest(v_counted_at, v_now - interval '30 days');
  v_reserves boolean := cardinality(p_requests) > 0;
  v_starts timestamptz[];
  v_resets bigint[];
  v_ids bigint[] := '{}';
  v_is_changed boolean;
  v_settled settled_counters;
  v_repeated text[] := '{}';
  v_rest batch_settlement[];
  v_set bigint[];
  v_granted bigint[];
  v_asked asked_counters := p_asked;
  v_changed changed_counters;
  v_late boolean;
  v_remarks jsonb := '[]';
begin
  if cardinality(p_counters) > 0 then
    select array_agg(w.start), array_agg((extract(epoch from window_end(w.kind, w.start, p_time_zone)) * 1000)::bigint)
    into v_starts, v_resets
    from (select kind, window_start(kind, v_opened_at, p_time_zone) as start from unnest(p_windows) as kind offset 0) as w;
    select f.ids, f.is_changed into v_ids, v_is_changed
    from find_counters(p_counters, p_windows, v_starts, v_opened_at, p_time_zone) as f;
  end if;
  if cardinality(p_settlements) > 0 then
    v_settled := write_reserved(v_now, p_settlements, p_notes);
    if v_settled.requests < cardinality(p_settlements) then
      v_rest := array(select i from unnest(p_settlements) as i where i.request_id <> all (coalesce(v_settled.request_ids, '{}')));
      v_repeated := settle_rest(v_now, v_counted_at, v_ids, v_settled.ids, v_rest, p_notes);
    end if;
  end if;
  if v_reserves then
    perform insert_reserved(p_process, v_now, v_ids, p_requests, p_at);
    if v_is_changed then
      select c.amounts, c.granted, c.limits, c.bounds into v_set, v_granted, v_asked.limits, v_asked.bounds
      from limits_with_changes(p_counters, p_windows, v_now) as c;
    end if;
  end if;
  v_changed := change_counters(v_settled, v_ids, v_asked);
  v_late := v_reserves and coalesce(p_valid_until < clock_timestamp(), false);
  if v_late then
    delete from reservations where request_id = any (array(select r.request_id from unnest(p_requests) as r));
    perform take_back(v_ids, p_asked);
    return json_build_object('repeated', v_repeated, 'late', true);
  elsif not v_changed.fits then
    select d.remarks, (d.changed).positions, (d.changed).spent, (d.changed).reserved, (d.changed).in_flight, (d.changed).most
    into v_remarks, v_changed.positions, v_changed.spent, v_changed.reserved, v_changed.in_flight, v_changed.most
    from decide_reserved(
      p_time_zone, v_ids, p_asked, v_set, v_granted, p_requests, p_at, p_limits::jsonb) as d;
  end if;
  if cardinality(v_repeated) = 0 and v_changed.positions is null and v_remarks = '[]' then
    return null;
  end if;
  return json_build_object(
    'repeated', v_repeated, 'remarks', v_remarks, 'decided_at', (extract(epoch from v_now) * 1000)::bigint,
    'resets', v_resets, 'counters', json_build_array(
      v_changed.positions, v_changed.spent, v_changed.reserved, v_changed.in_flight, v_changed.most, v_set, v_granted));
end $$;

-- What a gateway calls. The locks end with the commit of settle_and_reserve_batch, and nobody waits for them while the disk is
-- written: a counter that everybody shares would otherwise allow one batch per write, whoever it comes from. The answer is
-- given when all of it is on the disk, with everything that was committed before and may have decided it. Late settlements are
-- for p_database, and for no other.
create procedure carry_batch(
  p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz, p_forwarded_at timestamptz, p_database uuid,
  p_windows text[], p_counters batch_counter[], p_asked asked_counters, p_settlements batch_settlement[],
  p_notes jsonb, p_requests batch_request[], p_at integer[], p_limits text, inout answer text
)
language plpgsql as $$
begin
  if p_database is not null then
    perform is_database(p_database);
  end if;
  perform set_config('synchronous_commit', 'off', true);
  answer := settle_and_reserve_batch(
    p_process, p_now, p_time_zone, p_valid_until, p_forwarded_at, p_windows, p_counters, p_asked, p_settlements, p_notes,
    p_requests, p_at, p_limits);
  commit;
  if current_setting('server_version_num')::integer >= 170000 and current_setting('synchronous_standby_names') = '' then
    -- Waits for the disk, with everything that was written before.
    perform pg_logical_emit_message(false, 'appscli', '', true);
  else
    perform ensure_durable_commit();
    -- A commit waits for the disk, and for standbys, only when its transaction wrote something.
    perform pg_logical_emit_message(true, 'appscli', '');
  end if;
end $$;

-- Reservations that are raised, given back, and moved to other upstreams.

-- Raises typical reservations, never above the most the request can cost. One that is being settled is left alone.
create function top_up_batch(p_request_ids text[], p_amounts bigint[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_ids bigint[];
  v_added bigint[];
begin
  -- Nobody waits for it, and after a crash that forgets it the most the request can cost still counts.
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

-- What reservations are on each counter, in its unit, with what is held for their earlier attempts.
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

-- Deletes reservations without a trace, for requests that were never forwarded.
create function release_batch(p_request_ids text[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_gone reservations[];
begin
  with gone as (
    delete from reservations where request_id = any (p_request_ids) returning reservations
  ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
  perform lock_counters(counters_of(v_gone));
  update spend_counters s
  set reserved = s.reserved - c.amount, most = s.most - c.most, in_flight = s.in_flight - c.requests
  from counted_of(v_gone) as c where s.id = c.id;
end $$;

-- A reservation as it is for another upstream. p_request is one of move_reservations, held its earlier attempts,
-- [{n, cost_nano_usd, ...}], whose cost stays on the counters of money that the reservation had when they were made. A
-- counter that both upstreams share is kept, with its window.
create function moved_reservation(p_old reservations, p_ids bigint[], p_request jsonb) returns reservations
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_new reservations := p_old;
  v_counters bigint[];
  v_money integer := (p_request ->> 'money')::integer;
begin
  select coalesce(array_agg(coalesce(k.id, s.id) order by c.position), '{}') into v_counters
  from jsonb_array_elements_text(p_request -> 'counters') with ordinality as c (value, position)
  join spend_counters s on s.id = p_ids[c.value::integer]
  left join spend_counters k
    on k.id = any (p_old.counter_ids || p_old.rate_counter_ids)
    and k.scope = s.scope and k.key = s.key and k.window_kind = s.window_kind and k.unit = s.unit;
  v_new.counter_ids := v_counters[:v_money];
  v_new.rate_counter_ids := v_counters[v_money + 1:];
  v_new.amount_nano_usd := (p_request ->> 'amount_nano_usd')::bigint;
  v_new.most_nano_usd := (p_request ->> 'most_nano_usd')::bigint;
  v_new.tokens := (p_request ->> 'tokens')::bigint;
  v_new.upstream := p_request ->> 'upstream';
  v_new.upstream_model := p_request ->> 'upstream_model';
  select jsonb_agg(coalesce(k.value, case
    when e.value -> 'cost_nano_usd' = '0' then e.value
    else e.value || jsonb_build_object('counter_ids', p_old.counter_ids) end) order by e.position)
  into v_new.held
  from jsonb_array_elements(p_request -> 'held') with ordinality as e (value, position)
  left join jsonb_array_elements(p_old.held) as k (value) on k.value -> 'n' = e.value -> 'n';
  return v_new;
end $$;

-- The counters of a reservation that is to be moved, in their order: whether the limit has room, and their numbers without it
-- and with it: [spent, reserved, in_flight, most, set, granted, resets_at_ms]; what is held for its earlier attempts is in both. A
-- limit on which it needs no more than before is not asked, so that a limit that was lowered meanwhile stops nobody who was let in.
create function look_at_move(
  p_old reservations, p_new reservations, p_request jsonb, p_set bigint[], p_granted bigint[], p_time_zone text
) returns table (index bigint, fits boolean, fits_shadow boolean, is_told boolean, without jsonb, with_it jsonb)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
  select c.position - 1,
         grows.no or has_room(o.others, e.lim, case when is_strict.yes then bound_of(e.lim, v.ppm) end, w.amount, w.most),
         grows.no or has_room(o.others, c.shadow, case when is_strict.yes then bound_of(c.shadow, v.ppm) end, w.amount, w.most),
         e.lim is not null and s.unit = 'nano_usd',
         jsonb_build_array(s.spent, (o.others).reserved, (o.others).in_flight, (o.others).most) || t.more,
         jsonb_build_array(
           s.spent, (o.others).reserved + w.amount, (o.others).in_flight + 1, (o.others).most + w.most) || t.more
  from jsonb_to_record(p_request) as v (counters int[], limits bigint[], shadow_limits bigint[], ppm bigint)
  cross join unnest(v.counters, v.limits, v.shadow_limits) with ordinality as c (at, lim, shadow, position)
  join spend_counters s on s.id = (p_new.counter_ids || p_new.rate_counter_ids)[c.position]
  join counted_of(array[p_new]) as n on n.id = s.id
  left join counted_of(array[p_old]) as b on b.id = s.id
  cross join lateral (select limit_in_force(c.lim, p_set[c.at], p_granted[c.at]) as lim) as e
  cross join lateral (
    select in_unit(s.unit, p_new.amount_nano_usd, p_new.tokens, 1) as amount,
           in_unit(s.unit, p_new.most_nano_usd, p_new.tokens, 1) as most) as w
  -- What is held is there before the rest is asked for.
  cross join lateral (
    select jsonb_populate_record(s, jsonb_build_object(
      'reserved', s.reserved - coalesce(b.amount, 0) + n.amount - w.amount,
      'most', s.most - coalesce(b.most, 0) + n.most - w.most,
      'in_flight', s.in_flight - coalesce(b.requests, 0))) as others
    -- Made once: without this it is made anew for each of its fields that is looked at.
    offset 0) as o
  cross join lateral (
    select n.amount <= coalesce(b.amount, -1) and n.most <= coalesce(b.most, -1) as no) as grows
  cross join lateral (select v.ppm is null or (o.others).in_flight > 0 as yes) as is_strict
  cross join lateral (
    select jsonb_build_array(
      p_set[c.at], p_granted[c.at],
      (extract(epoch from window_end(s.window_kind, s.window_start, p_time_zone)) * 1000)::bigint) as more) as t;
end $$;

-- Puts one reservation in the place of another of the same request. Where the request was sent to the upstream it leaves, it has
-- been one of the requests of that upstream's minute. The counters are locked.
create function replace_reservation(p_old reservations, p_new reservations) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_was_sent boolean := exists (
    select from jsonb_to_recordset(p_new.held) as h (upstream text, sends integer)
    where h.upstream = p_old.upstream and h.sends > 0);
begin
  update spend_counters s
  set spent = s.spent + (v_was_sent and s.unit = 'requests' and s.window_kind <> 'open' and s.id <> all (p_new.rate_counter_ids)
        and s.id = any (p_old.rate_counter_ids))::integer,
      reserved = s.reserved + c.amount, most = s.most + c.most, in_flight = s.in_flight + c.requests
  from (
    select l.id, sum(l.amount)::bigint as amount, sum(l.most)::bigint as most, sum(l.requests)::bigint as requests
    from (select id, amount, most, requests from counted_of(array[p_new])
          union all select id, -amount, -most, -requests from counted_of(array[p_old])) as l
    group by l.id
  ) as c
  where s.id = c.id;
  update reservations r
  set amount_nano_usd = p_new.amount_nano_usd, most_nano_usd = p_new.most_nano_usd, tokens = p_new.tokens,
      counter_ids = p_new.counter_ids, rate_counter_ids = p_new.rate_counter_ids,
      upstream = p_new.upstream, upstream_model = p_new.upstream_model, held = p_new.held
  where r.request_id = p_new.request_id;
end $$;

-- Moves reservations to other upstreams in the order given, each with all or nothing: what the new one needs is taken, what the
-- old one had is given back. A request is {request_id, ..., counters: positions in the names, each once, those of money first,
-- money: how many these are, limits: one per counter or null, shadow_limits: like limits, or absent, ppm: as in decide_reserved,
-- held}. The answer is JSON, {missing, remarks, statuses, decided_at}: missing are the indexes of requests without a reservation,
-- because they are over or their process was taken for dead; remarks and statuses have entries [index of the request, index among
-- its counters, spent, reserved, in_flight, most, set, granted, resets_at_ms]; remarks of limits without room as in
-- decide_reserved, without what the request has, statuses of limited counters of money of those that moved, with it.
create function move_reservations(
  p_now timestamptz, p_time_zone text,
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[], p_requests jsonb
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_ids bigint[] := '{}';
  v_gone reservations[];
  v_request jsonb;
  v_number integer := -1;
  v_set bigint[];
  v_granted bigint[];
  v_old reservations;
  v_new reservations;
  v_missing jsonb := '[]';
  v_lacking jsonb;
  v_shadows jsonb;
  v_told jsonb;
  v_remarks jsonb := '[]';
  v_statuses jsonb := '[]';
begin
  perform ensure_durable_commit();
  if cardinality(p_scopes) > 0 then
    v_ids := open_counters(p_scopes, p_keys, p_kinds, p_units, v_now, p_time_zone);
  end if;
  with locked as (
    select r as reservation from reservations r
    where r.request_id = any (array(select w.request_id from jsonb_to_recordset(p_requests) as w (request_id text)))
    order by r.request_id for update
  ) select coalesce(array_agg(locked.reservation), '{}') into v_gone from locked;
  perform lock_counters(counters_of(v_gone) || v_ids);
  select c.amounts, c.granted into v_set, v_granted
  from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;

  for v_request in select e.value from jsonb_array_elements(p_requests) as e (value) loop
    v_number := v_number + 1;
    select * into v_old from reservations r where r.request_id = v_request ->> 'request_id';
    if not found then
      v_missing := v_missing || to_jsonb(v_number);
      continue;
    end if;
    v_new := moved_reservation(v_old, v_ids, v_request);
    select
      jsonb_agg(jsonb_build_array(v_number, l.index) || l.without order by l.index) filter (where not l.fits),
      jsonb_agg(
        jsonb_build_array(v_number, l.index + jsonb_array_length(v_request -> 'counters')) || l.without order by l.index
      ) filter (where not l.fits_shadow),
      jsonb_agg(jsonb_build_array(v_number, l.index) || l.with_it order by l.index) filter (where l.is_told)
    into v_lacking, v_shadows, v_told
    from look_at_move(v_old, v_new, v_request, v_set, v_granted, p_time_zone) as l;
    if v_lacking is null then
      perform replace_reservation(v_old, v_new);
    end if;
    v_remarks := v_remarks || coalesce(v_lacking, v_shadows, '[]');
    v_statuses := v_statuses || case when v_lacking is null then coalesce(v_told, '[]') else '[]' end;
  end loop;
  return json_build_object(
    'missing', v_missing, 'remarks', v_remarks, 'statuses', v_statuses, 'decided_at', (extract(epoch from v_now) * 1000)::bigint);
end $$;

-- Leases.

-- Takes room from counters: p_amounts, p_most and p_requests say how much in the unit of each, p_limits the limit that it has to be
-- within. All of it or nothing for each counter, and only where p_share times as much is left. The answer has a line per counter, in
-- the order given: [whether it was taken, id, until when it may be used or null, spent, reserved, in_flight, most, set, granted,
-- resets_at], times in milliseconds since the epoch.
create function take_leases(
  p_process uuid, p_lease uuid, p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[], p_units text[],
  p_limits bigint[], p_amounts bigint[], p_most bigint[], p_requests integer[], p_share integer
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_ids bigint[] := open_counters(p_scopes, p_keys, p_kinds, p_units, v_now, p_time_zone);
  v_set bigint[];
  v_granted bigint[];
  v_taken bigint[];
begin
  perform lock_counters(v_ids);
  -- Whoever changes a limit waits for leases that are being taken, and those that come later see the change.
  perform pg_advisory_xact_lock_shared(7204817102);
  select c.amounts, c.granted into v_set, v_granted
  from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;

  with wanted as (
    select w.*, limit_in_force(w.configured, v_set[w.position], v_granted[w.position]) as lim
    from unnest(v_ids, p_limits, p_amounts, p_most, p_requests) with ordinality
      as w (id, configured, amount, most, requests, position)
  ), taken as (
    update spend_counters s
    set reserved = s.reserved + w.amount, most = s.most + w.most, in_flight = s.in_flight + w.requests
    from wanted w
    where s.id = w.id and (w.lim is null
      or s.spent + s.reserved + p_share * w.amount <= w.lim and s.spent + s.most + p_share * w.most <= w.lim)
    returning s.id, w.amount, w.most, w.requests
  ), leased as (
    insert into reservation_leases as l (lease_id, counter_id, process_id, amount, most, requests)
    select p_lease, t.id, p_process, t.amount, t.most, t.requests from taken t order by t.id
    on conflict (lease_id, counter_id) do update
    set amount = l.amount + excluded.amount, most = l.most + excluded.most, requests = l.requests + excluded.requests
  )
  select coalesce(array_agg(t.id), '{}') into v_taken from taken t;

  return (
    select json_agg(json_build_array(
      s.id = any (v_taken), s.id, (extract(epoch from least(e.window_end, e.grant_end)) * 1000)::bigint,
      s.spent, s.reserved, s.in_flight, s.most, v_set[c.position], v_granted[c.position],
      (extract(epoch from e.window_end) * 1000)::bigint) order by c.position)
    from unnest(v_ids) with ordinality as c (id, position)
    join spend_counters s on s.id = c.id
    cross join lateral (
      select window_end(s.window_kind, s.window_start, p_time_zone) as window_end,
             case when v_granted[c.position] > 0 then (
               select min(g.expires_at) from limit_grants g
               where g.scope = s.scope and g.key = s.key and g.window_kind = s.window_kind and g.unit = s.unit
                 and g.revoked_at is null and g.expires_at > v_now) end as grant_end) as e);
end $$;

-- Gives back so much of some leases, as far as they are there.
create function return_leases(
  p_lease uuid, p_ids bigint[], p_amounts bigint[], p_most bigint[], p_requests integer[]
) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  perform lock_counters(p_ids);
  with back as (
    select r.id, sum(r.amount)::bigint as amount, sum(r.most)::bigint as most, sum(r.requests)::integer as requests
    from unnest(p_ids, p_amounts, p_most, p_requests) as r (id, amount, most, requests) group by r.id
  ), locked as (
    select l.* from reservation_leases l where l.lease_id = p_lease and l.counter_id = any (p_ids)
    order by l.counter_id for update
  ), taken as (
    -- Never more than is there: others may have given some of it away.
    select b.id, least(b.amount, k.amount) as amount, least(b.most, k.most) as most, least(b.requests, k.requests) as requests
    from locked k join back b on b.id = k.counter_id
  ), returned as (
    update reservation_leases l
    set amount = l.amount - t.amount, most = l.most - t.most, requests = l.requests - t.requests
    from taken t
    where l.lease_id = p_lease and l.counter_id = t.id
    returning t.*
  )
  update spend_counters s
  set reserved = s.reserved - r.amount, most = s.most - r.most, in_flight = s.in_flight - r.requests
  from returned r where s.id = r.id;
  delete from reservation_leases l
  where l.lease_id = p_lease and l.counter_id = any (p_ids) and l.amount = 0 and l.most = 0 and l.requests = 0;
end $$;

-- Gives back all leases of some processes, but for one.
create function return_all_leases(p_processes uuid[], p_but uuid) returns void
language plpgsql as $$
declare
  v_ids bigint[];
begin
  select array_agg(distinct l.counter_id) into v_ids
  from reservation_leases l where l.process_id = any (p_processes) and l.lease_id is distinct from p_but;
  if v_ids is null then
    return;
  end if;
  perform lock_counters(v_ids);
  with locked as (
    select l.lease_id, l.counter_id from reservation_leases l
    where l.process_id = any (p_processes) and l.lease_id is distinct from p_but and l.counter_id = any (v_ids)
    order by l.counter_id, l.lease_id for update
  ), gone as (
    delete from reservation_leases l using locked k
    where l.lease_id = k.lease_id and l.counter_id = k.counter_id
    returning l.*
  ), back as (
    select g.counter_id as id, sum(g.amount)::bigint as amount, sum(g.most)::bigint as most, sum(g.requests)::integer as requests
    from gone g group by g.counter_id
  )
  update spend_counters s
  set reserved = s.reserved - b.amount, most = s.most - b.most, in_flight = s.in_flight - b.requests
  from back b where s.id = b.id;
end $$;

-- What a process does about its leases from time to time: it gives back, then takes. As in carry_batch, locks end before the disk is
-- written, and the answer is given when all is on the disk.
create procedure keep_leases(
  p_process uuid, p_lease uuid, p_now timestamptz, p_time_zone text,
  p_ids bigint[], p_back bigint[], p_back_most bigint[], p_back_requests integer[],
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[],
  p_limits bigint[], p_amounts bigint[], p_most bigint[], p_requests integer[], p_share integer,
  inout answer text
)
language plpgsql as $$
begin
  if cardinality(p_ids) > 0 then
    perform set_config('synchronous_commit', 'off', true);
    perform return_leases(p_lease, p_ids, p_back, p_back_most, p_back_requests);
    commit;
  end if;
  if cardinality(p_scopes) > 0 then
    perform set_config('synchronous_commit', 'off', true);
    answer := take_leases(
      p_process, p_lease, p_now, p_time_zone, p_scopes, p_keys, p_kinds, p_units, p_limits, p_amounts, p_most, p_requests,
      p_share);
    commit;
  end if;
  perform ensure_durable_commit();
  perform pg_logical_emit_message(true, 'appscli', '');
end $$;

-- Asks all processes for their leases on some counters.
create function recall_leases(p_ids bigint[]) returns void
language sql as $$
  select pg_notify('appscli_leases', array_to_string(p_ids[:200], ',')) where cardinality(p_ids) > 0
$$;

-- A limit that is set, granted or taken back is meant for the next request: leases on its counter were taken under another.
create function recall_for_limit() returns trigger
language plpgsql as $$
declare
  v_changed record;
begin
  if tg_op = 'DELETE' then
    v_changed := old;
  else
    v_changed := new;
  end if;
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

-- Writes reservations whose amounts were taken from leases in memory, one by one: some may be there already, or in the ledger. Where
-- a lease is gone, because its process was taken for dead, they count on their counters all the same: they were forwarded.
create procedure place_rows_again(
  p_process uuid, p_lease uuid, p_now timestamptz, p_requests batch_request[], p_ids bigint[], p_at integer[]
)
language plpgsql as $$
declare
  r batch_request;
  v_now timestamptz;
  v_money bigint[];
  v_rates bigint[];
  v_ids bigint[];
begin
  foreach r in array p_requests loop
    perform set_config('synchronous_commit', 'off', true);
    v_now := coalesce(p_now, now());
    v_money := array(select p_ids[at] from unnest(p_at[r.first : r.rates - 1]) as at);
    v_rates := array(select p_ids[at] from unnest(p_at[r.rates : r.last]) as at);
    v_ids := v_money || v_rates;
    insert into reservations (
      request_id, process_id, reserved_at, amount_nano_usd, most_nano_usd, tokens, counter_ids, rate_counter_ids,
      protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
    select r.request_id, p_process, v_now, r.amount, r.most, r.tokens, v_money, v_rates, r.protocol, r.principal_id, r.user_email,
      r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model
    where not exists (
      select from ledger l where l.request_id = r.request_id and l.settled_at > v_now - interval '2 days')
    on conflict (request_id) do nothing;
    if found then
      perform lock_counters(v_ids);
      perform from reservation_leases l where l.lease_id = p_lease and l.counter_id = any (v_ids)
      order by l.counter_id for update;
      with needed as (
        select s.id, in_unit(s.unit, r.amount, r.tokens, 1) as amount, in_unit(s.unit, r.most, r.tokens, 1) as most
        from spend_counters s where s.id = any (v_ids)
      ), taken as (
        update reservation_leases l set amount = l.amount - n.amount, most = l.most - n.most, requests = l.requests - 1
        from needed n
        where l.lease_id = p_lease and l.counter_id = n.id
          and l.amount >= n.amount and l.most >= n.most and l.requests > 0
        returning l.counter_id
      )
      update spend_counters s
      set reserved = s.reserved + n.amount, most = s.most + n.most, in_flight = s.in_flight + 1
      from needed n where s.id = n.id and n.id not in (select t.counter_id from taken t);
    end if;
    commit;
  end loop;
  perform ensure_durable_commit();
  perform pg_logical_emit_message(true, 'appscli', '');
end $$;

-- Writes reservations whose amounts were taken from leases in memory. p_at are positions in p_ids, as in insert_reserved; p_off,
-- p_off_most and p_off_requests say what goes off the lease on each of p_ids, all rows together. Nothing here waits for a counter
-- while the leases are there. The answer is given when the rows are on the disk.
create procedure place_rows(
  p_process uuid, p_lease uuid, p_now timestamptz, p_requests batch_request[], p_ids bigint[], p_at integer[],
  p_off bigint[], p_off_most bigint[], p_off_requests integer[]
)
language plpgsql as $$
declare
  v_leases integer;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform insert_reserved(p_process, coalesce(p_now, now()), p_ids, p_requests, p_at);
  with locked as (
    select l.counter_id from reservation_leases l where l.lease_id = p_lease and l.counter_id = any (p_ids)
    order by l.counter_id for update
  )
  update reservation_leases l
  set amount = l.amount - d.amount, most = l.most - d.most, requests = l.requests - d.requests
  from locked k join unnest(p_ids, p_off, p_off_most, p_off_requests) as d (id, amount, most, requests) on d.id = k.counter_id
  where l.lease_id = p_lease and l.counter_id = k.counter_id
    and l.amount >= d.amount and l.most >= d.most and l.requests >= d.requests;
  get diagnostics v_leases = row_count;
  if v_leases < cardinality(p_ids) then
    rollback;
    call place_rows_again(p_process, p_lease, p_now, p_requests, p_ids, p_at);
    return;
  end if;
  commit;
  perform ensure_durable_commit();
  perform pg_logical_emit_message(true, 'appscli', '');
end $$;

-- Takes a reservation back that should not have been made; false where it is not there any more, because its process was taken for
-- dead and it is in the ledger.
create function take_row_back(p_request_id text) returns boolean
language plpgsql as $$
begin
  perform from reservations r where r.request_id = p_request_id for update;
  if not found then
    return false;
  end if;
  perform release_batch(array[p_request_id]);
  return true;
end $$;

-- Upkeep.

-- Attempts of a reservation that nobody will settle; null where the one under way is the first.
create function attempts_of_orphan(p_reservation reservations) returns jsonb
language sql as $$
  select jsonb_agg(h.value - 'counter_ids') || jsonb_build_object(
    'n', max((h.value ->> 'n')::integer) + 1, 'upstream', p_reservation.upstream,
    'upstream_model', p_reservation.upstream_model, 'certainty', 'possibly_accepted', 'outcome', 'unanswered',
    'reason', 'gone', 'sends', 1, 'cost_nano_usd', p_reservation.amount_nano_usd, 'provenance', 'estimate')
  from jsonb_array_elements(p_reservation.held) as h (value)
$$;

-- Turns reservations nobody will settle into ledger rows at the amount that was reserved: those of processes known to be
-- dead, and those of processes without a heartbeat for p_patience. Returns how many. Leases of these processes are given back.
create function recover_orphans(
  p_now timestamptz, p_dead uuid[], p_patience interval, p_server_started timestamptz
) returns integer
language plpgsql as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_lapse timestamptz := v_now - p_patience;
  v_gone reservations[];
  v_ended uuid[];
  v_rows batch_settlement[];
  v_notes jsonb;
begin
  perform ensure_durable_commit();
  with orphans as (
    select r.request_id
    from reservations r left join processes p on p.id = r.process_id
    where r.process_id = any (p_dead)
      -- While the server was down there could be no heartbeat.
      or (p_server_started < v_lapse and r.reserved_at < v_lapse and (p.id is null or p.heartbeat_at < v_lapse))
    order by r.request_id
    limit 500
    for update of r skip locked
  ), gone as (
    delete from reservations r using orphans o where r.request_id = o.request_id returning r as reservation
  ) select coalesce(array_agg(gone.reservation), '{}') into v_gone from gone;
  -- A process that comes back says that it lives before it takes leases again, and waits here until its old ones are returned.
  perform from processes p
  where p.id in (select l.process_id from reservation_leases l) and p_server_started < v_lapse and p.heartbeat_at < v_lapse
  order by p.id for update;
  v_ended := array(
    select distinct l.process_id from reservation_leases l left join processes p on p.id = l.process_id
    where l.process_id = any (p_dead)
      or (p_server_started < v_lapse and (p.id is null or p.heartbeat_at < v_lapse)));
  perform lock_counters(
    counters_of(v_gone) || array(select l.counter_id from reservation_leases l where l.process_id = any (v_ended)));
  perform return_all_leases(v_ended, null);

  -- Like a settlement whose cost is not known. A request that was let through without waiting for its reservation has its row
  -- already.
  select coalesce(array_agg(o.settlement), '{}'), coalesce(jsonb_agg(o.note), '[]') into v_rows, v_notes
  from (
    select row(
        g.request_id, null, true, 0, 0, 0, 0, 0, g.amount_nano_usd + h.cost, null, null, row_number() over () - 1,
        row(null, null, attempts_of_orphan(g), null, null, null, null, null, null, null, null, null)::settlement_rest
      )::batch_settlement as settlement,
      jsonb_build_object('provenance', jsonb_build_object(
        'input', 'estimate', 'output', 'estimate', 'cache_read', 'estimate', 'cache_write_5m', 'estimate',
        'cache_write_1h', 'estimate', 'cost', 'estimate')
        || case when h.possible > 0 then jsonb_build_object('possibly_billed_nano_usd', h.possible) else '{}' end) as note
    from unnest(v_gone) as g
    cross join lateral (
      select sum(h.cost_nano_usd)::bigint as cost, sum(h.possibly_billed_nano_usd) as possible
      from jsonb_to_recordset(g.held) as h (cost_nano_usd bigint, possibly_billed_nano_usd bigint)) as h
    where not exists (
      select from ledger l where l.request_id = g.request_id and l.settled_at > g.reserved_at - interval '2 days')
  ) as o;
  perform write_ledger(v_now, v_now, '{}', v_gone, v_rows, v_notes);

  delete from processes p
  where (p.id = any (p_dead) or p_server_started < v_lapse and p.heartbeat_at < v_lapse)
    and not exists (select from reservations r where r.process_id = p.id);
  return cardinality(v_gone);
end $$;

-- Deletes some counters of minutes that ended two hours ago, which nobody asks for. Returns how many were deleted.
create function delete_minutes(p_now timestamptz, p_most integer) returns integer
language plpgsql as $$
declare
  v_deleted integer;
begin
  delete from spend_counters
  where id = any (array(
    select id from spend_counters
    where window_kind = 'minute' and window_start < coalesce(p_now, now()) - interval '2 hours' and in_flight = 0
    limit p_most
    for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;

-- Deletes some counters of windows that began so long before the first row left that none of them can name one: a row
-- counts in windows that began at most 30 days and a month before it was settled.
create function delete_old_counters(p_most integer) returns integer
language plpgsql as $$
declare
  v_deleted integer;
begin
  with old as (
    select s.id from spend_counters s
    where s.window_kind in ('day', 'week', 'month')
      and s.window_start < (select dropped_before - interval '62 days' from ledger_bounds)
      and s.reserved = 0 and s.in_flight = 0
    order by s.id
    limit p_most
    for update skip locked
  ), gone as (
    delete from spend_counters s using old where s.id = old.id returning 1
  ) select count(*) into v_deleted from gone;
  return v_deleted;
end $$;

-- Adds an adjusting row to some requests that were settled from p_from to p_to, and the difference to their counters. It
-- has the times of the request, so that it counts in the same window, day and month, and is dropped with it. A row of p_rows is
-- {request_id, was: what the rows of the request came to, cost: what they shall come to}; a request whose rows come to
-- something else by now is left alone. p_change is the row of admin_changes that tells the sum, made when it is null; it has to be of
-- the same run: of others nobody rewrites what they did.
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
  -- Two runs at once would both add the difference.
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
  insert into ledger select g.* from unnest(v_due) as g;
  with moved as (
    select c.id, sum(g.cost_nano_usd)::bigint as amount
    from unnest(v_due) as g cross join unnest(g.counter_ids) as c (id)
    group by c.id
  )
  update spend_counters s set spent = s.spent + m.amount from moved m where s.id = m.id;

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
