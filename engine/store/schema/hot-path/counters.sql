-- Counters of a batch: found once, and changed once, by what was settled and what is reserved together.

-- Sums without the detour of sum(bigint) by numeric. Raises beyond bigint.
create aggregate sum_bigint(bigint) (sfunc = int8pl, stype = bigint, initcond = '0', combinefunc = int8pl, parallel = safe);

-- Like open_counters. Windows and their starts are said once; p_window_ns has the number of its window for each counter.
create function find_counters(
  p_scopes text[], p_keys text[], p_window_ns integer[], p_units text[], p_windows text[], p_starts timestamptz[],
  p_now timestamptz, p_time_zone text
) returns bigint[]
language plpgsql as $$
declare
  v_ids bigint[];
begin
  select array_agg(s.id order by c.position) into v_ids
  from unnest(p_scopes, p_keys, p_window_ns, p_units) with ordinality as c (scope, key, n, unit, position)
  join spend_counters s
    on s.scope = c.scope and s.key = c.key and s.window_kind = p_windows[c.n] and s.window_start = p_starts[c.n]
    and s.unit = c.unit;
  if cardinality(v_ids) = cardinality(p_scopes) then
    return v_ids;
  end if;
  return open_counters(p_scopes, p_keys, array(select p_windows[n] from unnest(p_window_ns) as n), p_units, p_now, p_time_zone);
end $$;

-- Puts what is settled and what shall be reserved into their counters, which are locked by that in the order of their ids. The
-- first arrays have an entry for each counter of each reservation that is settled: what it cost and used, and what is
-- no longer reserved. p_asked and those after it have one for each counter of the batch: how many requests ask how much
-- together, the least limit, the least limit in shadow mode, by how many millionths these may be passed, and what is set
-- and granted. Tells whether there is room for all of it, and of the counters of money that it asks
-- something of, and that have a limit, how they are with it, by their positions. What it says is without room may have some after all, for one request after the other: decide_reservations knows.
create function change_counters(
  p_ids bigint[], p_cost bigint[], p_used bigint[], p_amount bigint[], p_most bigint[], p_tokens bigint[],
  p_asked bigint[], p_asked_requests integer[], p_asked_amount bigint[], p_asked_most bigint[], p_asked_tokens bigint[],
  p_limits bigint[], p_shadow_limits bigint[], p_ppms bigint[], p_set bigint[], p_granted bigint[],
  out fits boolean, out positions integer[], out spent bigint[], out reserved bigint[], out in_flight integer[], out most bigint[]
)
language plpgsql as $$
#variable_conflict use_column
begin
  with change as materialized (
    select c.id, max(c.position) as position, sum_bigint(c.cost) as cost, sum_bigint(c.used) as used, sum(c.written) as written,
           sum_bigint(c.amount) as amount, sum_bigint(c.most) as most, sum_bigint(c.tokens) as tokens,
           sum(c.requests) as requests
    from (
      select s.id, null::integer as position, s.cost, s.used, 1 as written, -s.amount as amount, -s.most as most,
             -s.tokens as tokens, -1 as requests
      from unnest(p_ids, p_cost, p_used, p_amount, p_most, p_tokens) as s (id, cost, used, amount, most, tokens)
      union all
      select a.id, a.position::integer, 0, 0, 0, a.amount, a.most, a.tokens, a.requests
      from unnest(p_asked, p_asked_requests, p_asked_amount, p_asked_most, p_asked_tokens)
        with ordinality as a (id, requests, amount, most, tokens, position)
      where a.requests > 0
    ) as c
    group by c.id
    order by c.id
  ), changed as (
    update spend_counters s
    set spent = s.spent + case s.window_kind when 'open' then 0 else in_unit(s.unit, c.cost, c.used, c.written) end,
        reserved = s.reserved + in_unit(s.unit, c.amount, c.tokens, c.requests),
        most = s.most + in_unit(s.unit, c.most, c.tokens, c.requests), in_flight = s.in_flight + c.requests
    from change c where s.id = c.id
    returning c.position, s.unit, s.spent, s.reserved, s.in_flight, s.most
  ), seen as (
    select c.*, c.unit = 'nano_usd' and l.lim is not null as is_told, least(l.lim, p_shadow_limits[c.position]) as least
    from changed c
    cross join lateral (
      select limit_in_force(p_limits[c.position], p_set[c.position], p_granted[c.position]) as lim) as l
    where c.position is not null
  )
  select coalesce(bool_and(
           c.spent + c.reserved <= c.least and c.spent + c.most <= bound_of(c.least, p_ppms[c.position])), true),
         array_agg(c.position) filter (where c.is_told), array_agg(c.spent) filter (where c.is_told),
         array_agg(c.reserved) filter (where c.is_told), array_agg(c.in_flight) filter (where c.is_told),
         array_agg(c.most) filter (where c.is_told)
  into fits, positions, spent, reserved, in_flight, most
  from seen c;
end $$;

-- Like limit_changes.
create function changes_of(
  p_scopes text[], p_keys text[], p_window_ns integer[], p_units text[], p_windows text[], p_now timestamptz,
  out amounts bigint[], out granted bigint[]
)
language plpgsql as $$
begin
  if exists (select from limit_settings) or exists (select from limit_grants where revoked_at is null) then
    select c.amounts, c.granted into amounts, granted
    from limit_changes(p_scopes, p_keys, array(select p_windows[n] from unnest(p_window_ns) as n), p_units, p_now) as c;
  end if;
end $$;
