-- Counters of a batch: found once, and changed once, by what was settled and what is reserved together.

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
-- does not fit may do so after all for one request after the other: decide_reservations knows.
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
