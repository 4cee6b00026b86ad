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

-- The counters that reservations are on.
create function counters_of(p_reservations reservations[]) returns bigint[]
language sql as $$
  select array(
    select unnest(r.counter_ids || r.rate_counter_ids) from unnest(p_reservations) as r
    union all
    select unnest(h.counter_ids) from unnest(p_reservations) as r
    cross join jsonb_to_recordset(r.held) as h (counter_ids bigint[]) where r.held is not null)
$$;

-- Takes reservations that were deleted from their counters.
create or replace function release_reservations(p_gone reservations[]) returns void
language plpgsql set enable_seqscan = off as $$
begin
  update spend_counters s
  set reserved = s.reserved - c.amount, most = s.most - c.most, in_flight = s.in_flight - c.requests
  from counted_of(p_gone) as c where s.id = c.id;
end $$;

-- Deletes reservations without a trace, for requests that were never forwarded.
create or replace function release_batch(p_request_ids text[]) returns void
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
  perform release_reservations(v_gone);
end $$;

-- A reservation as it is for another upstream. p_request is one of make_reservations with held: its earlier attempts,
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
-- and with it, as make_reservations tells them; what is held for its earlier attempts is in both. A limit on which it needs no more than before is not asked, so that a limit
-- that was lowered meanwhile stops nobody who was let in.
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
-- old one had is given back. The answer is JSON, {missing, remarks, statuses, decided_at}: missing are the indexes of requests
-- without a reservation, because they are over or their process was taken for dead; remarks and statuses have entries [index of the request, index among its counters, spent, reserved, in_flight,
-- most, set, granted, resets_at_ms]; remarks of limits without room as in decide_reservations, without what the request has,
-- statuses of limited counters of money of those that moved, with it.
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
