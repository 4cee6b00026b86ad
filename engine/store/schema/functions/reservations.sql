-- A request is {..., counters: positions in p_ids, each once, those of money first, money: how many these are, limits: one per
-- counter or null, shadow_limits: like limits, or absent, ppm: by how many millionths of a limit all that is in flight may
-- pass it, absent for a request that reserves the most it can cost}.
create function insert_reservations(p_process uuid, p_now timestamptz, p_ids bigint[], p_requests jsonb) returns void
language plpgsql as $$
begin
  insert into reservations (
    request_id, process_id, reserved_at, amount_nano_usd, most_nano_usd, tokens, counter_ids, rate_counter_ids,
    protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
  select r.request_id, p_process, p_now, r.amount_nano_usd, r.most_nano_usd, r.tokens,
         array(select p_ids[c] from unnest(r.counters[:r.money]) as c),
         array(select p_ids[c] from unnest(r.counters[r.money + 1:]) as c),
         r.protocol, r.principal_id, r."user", r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model
  from jsonb_to_recordset(p_requests) as r (
    request_id text, amount_nano_usd bigint, most_nano_usd bigint, tokens bigint, counters int[], money int,
    protocol text, principal_id text, "user" text, team text, project text, token_id text,
    model text, upstream text, upstream_model text);
end $$;

-- Decides in the order given which requests have room, each in the light of those before it. The counters are locked.
-- remarks has an entry per limit without room: [index of the request, index among its counters, spent, reserved, in_flight,
-- most, set, granted, resets_at_ms], indexes from 0. A limit in shadow mode refuses nothing: for a granted request its index
-- counts on from the number of counters.
create function decide_reservations(
  p_time_zone text, p_ids bigint[], p_set bigint[], p_granted bigint[], p_requests jsonb,
  out granted jsonb, out remarks jsonb
)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_counters spend_counters[];
  v_counter spend_counters;
  v_request record;
  v_number integer := -1;
  v_lacking integer[];
  v_fits boolean;
  v_at integer;
  v_index integer;
  -- Arrays and loops: JSON is copied whole when something is appended, and a query per request would take five times as long.
  v_whole jsonb[] := '{}';
  v_remarks jsonb[] := '{}';
begin
  select array_agg(s order by i.position) into v_counters
  from unnest(p_ids) with ordinality as i (id, position) join spend_counters s on s.id = i.id;

  for v_request in
    select r.*, e.value as whole
    from jsonb_array_elements(p_requests) as e (value)
    cross join jsonb_to_record(e.value) as r (
      amount_nano_usd bigint, most_nano_usd bigint, tokens bigint, ppm bigint,
      counters int[], limits bigint[], shadow_limits bigint[])
  loop
    v_number := v_number + 1;
    v_lacking := '{}';
    for v_index in 1 .. cardinality(v_request.counters) loop
      v_at := v_request.counters[v_index];
      if not has_room_for(
        v_counters[v_at], limit_in_force(v_request.limits[v_index], p_set[v_at], p_granted[v_at]),
        v_request.amount_nano_usd, v_request.most_nano_usd, v_request.tokens, v_request.ppm)
      then
        v_lacking := array_append(v_lacking, v_index - 1);
      end if;
    end loop;
    v_fits := cardinality(v_lacking) = 0;
    if v_fits then
      v_whole := array_append(v_whole, v_request.whole);
      for v_index in 1 .. coalesce(cardinality(v_request.shadow_limits), 0) loop
        if not has_room_for(
          v_counters[v_request.counters[v_index]], v_request.shadow_limits[v_index],
          v_request.amount_nano_usd, v_request.most_nano_usd, v_request.tokens, v_request.ppm)
        then
          v_lacking := array_append(v_lacking, cardinality(v_request.counters) + v_index - 1);
        end if;
      end loop;
    end if;
    foreach v_index in array v_lacking loop
      v_at := v_request.counters[v_index % cardinality(v_request.counters) + 1];
      v_counter := v_counters[v_at];
      v_remarks := array_append(v_remarks, jsonb_build_array(
        v_number, v_index, v_counter.spent, v_counter.reserved, v_counter.in_flight, v_counter.most,
        p_set[v_at], p_granted[v_at],
        (extract(epoch from window_end(v_counter.window_kind, v_counter.window_start, p_time_zone)) * 1000)::bigint));
    end loop;

    continue when not v_fits;
    foreach v_at in array v_request.counters loop
      v_counter := v_counters[v_at];
      v_counter.reserved := v_counter.reserved + in_unit(v_counter.unit, v_request.amount_nano_usd, v_request.tokens, 1);
      v_counter.most := v_counter.most + in_unit(v_counter.unit, v_request.most_nano_usd, v_request.tokens, 1);
      v_counter.in_flight := v_counter.in_flight + 1;
      v_counters[v_at] := v_counter;
    end loop;
  end loop;
  granted := to_jsonb(v_whole);
  remarks := to_jsonb(v_remarks);
end $$;

-- Makes reservations in the order given, on counters that are locked. remarks are those of decide_reservations. statuses has
-- an entry per limited counter of money: [position, spent, reserved, in_flight, most, set, granted, resets_at_ms], with all
-- new reservations.
create function make_reservations(
  p_process uuid, p_now timestamptz, p_time_zone text, p_ids bigint[], p_set bigint[], p_granted bigint[], p_requests jsonb,
  out remarks jsonb, out statuses json
)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_requests jsonb := p_requests;
  v_touched bigint[];
  v_reserved bigint[];
  v_most bigint[];
  v_in_flight bigint[];
  v_all_fit boolean;
  v_decided boolean := false;
begin
  remarks := '[]';
  loop
    select array_agg(s.id), array_agg(a.reserved), array_agg(a.most), array_agg(t.requests),
           bool_and(t.least is null or has_room(s, t.least, t.bound, a.reserved, a.most)),
           json_agg(json_build_array(
             t.position, s.spent, s.reserved + a.reserved, s.in_flight + t.requests, s.most + a.most,
             p_set[t.position], p_granted[t.position],
             (extract(epoch from window_end(s.window_kind, s.window_start, p_time_zone)) * 1000)::bigint
           )) filter (where t.limited and s.unit = 'nano_usd')
    into v_touched, v_reserved, v_most, v_in_flight, v_all_fit, statuses
    from (
      select c.position, count(*) as requests, sum(r.amount_nano_usd)::bigint as amount,
             sum(r.most_nano_usd)::bigint as most, sum(r.tokens)::bigint as tokens, bool_or(e.lim is not null) as limited,
             min(least(e.lim, c.shadow)) as least,
             min(least(bound_of(e.lim, r.ppm), bound_of(c.shadow, r.ppm))) as bound
      from jsonb_to_recordset(v_requests) as r (
        amount_nano_usd bigint, most_nano_usd bigint, tokens bigint, ppm bigint,
        counters int[], limits bigint[], shadow_limits bigint[])
      cross join unnest(r.counters, r.limits, r.shadow_limits) as c (position, lim, shadow)
      cross join lateral (
        select limit_in_force(c.lim, p_set[c.position], p_granted[c.position]) as lim) as e
      group by c.position
    ) as t
    join spend_counters s on s.id = p_ids[t.position]
    cross join lateral (
      select in_unit(s.unit, t.amount, t.tokens, t.requests) as reserved,
             in_unit(s.unit, t.most, t.tokens, t.requests) as most) as a;
    -- Nearly always there is room for all of them together, and then none has to be decided alone.
    exit when v_decided or coalesce(v_all_fit, true);
    select d.granted, d.remarks into v_requests, remarks
    from decide_reservations(p_time_zone, p_ids, p_set, p_granted, p_requests) as d;
    v_decided := true;
  end loop;

  update spend_counters s set reserved = s.reserved + t.reserved, most = s.most + t.most, in_flight = s.in_flight + t.in_flight
  from unnest(v_touched, v_reserved, v_most, v_in_flight) as t (id, reserved, most, in_flight)
  where s.id = t.id;
  perform insert_reservations(p_process, p_now, p_ids, v_requests);
end $$;

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

-- Takes reservations that were deleted from their counters.
create function release_reservations(p_gone reservations[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  with moved as (
    select c.id, sum(g.amount_nano_usd)::bigint as amount, sum(g.most_nano_usd)::bigint as most,
           sum(g.tokens)::bigint as tokens, count(*) as requests
    from unnest(p_gone) as g cross join unnest(g.counter_ids || g.rate_counter_ids) as c (id)
    group by c.id
  )
  update spend_counters s
  set reserved = s.reserved - in_unit(s.unit, m.amount, m.tokens, m.requests),
      most = s.most - in_unit(s.unit, m.most, m.tokens, m.requests), in_flight = s.in_flight - m.requests
  from moved m where s.id = m.id;
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
  perform lock_counters(array(select unnest(g.counter_ids || g.rate_counter_ids) from unnest(v_gone) as g));
  perform release_reservations(v_gone);
end $$;
