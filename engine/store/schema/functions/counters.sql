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
  select array_agg(l.amount order by c.position), array_agg(g.amount order by c.position)
  into amounts, granted
  from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
  left join limit_settings l
    on l.scope = c.scope and l.key = c.key and l.window_kind = c.kind and l.unit = c.unit
  cross join lateral (
    select coalesce(sum(g.amount), 0)::bigint as amount
    from limit_grants g
    where g.scope = c.scope and g.key = c.key and g.window_kind = c.kind and g.unit = c.unit
      and g.revoked_at is null and g.granted_at <= p_now and p_now < g.expires_at) as g;
end $$;

-- The limit in force: the one that was set in place of what is configured, and what is granted on top. Null without any. This
-- and the next ones are the rules of engine/money/limits/room.ts.
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

-- The status of some counters of money, in the order given, as JSON:
-- [spent, reserved, in_flight, most, set, granted, resets_at_ms].
create function read_statuses(
  p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[], p_units text[]
) returns text
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
  return (
    select json_agg(json_build_array(
      coalesce(s.spent, 0), coalesce(s.reserved, 0), coalesce(s.in_flight, 0), coalesce(s.most, 0),
      v_set[c.position], v_granted[c.position],
      (extract(epoch from window_end(c.kind, w.start, p_time_zone)) * 1000)::bigint) order by c.position)
    from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
    cross join lateral (select window_start(c.kind, v_now, p_time_zone) as start) as w
    left join spend_counters s
      on s.scope = c.scope and s.key = c.key and s.window_kind = c.kind and s.unit = c.unit and s.window_start = w.start);
end $$;
