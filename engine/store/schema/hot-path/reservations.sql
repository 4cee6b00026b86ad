-- A request that asks for a reservation. Its counters are those from first to last in an array for all of a batch, those of money
-- before rates.
create type batch_request as (
  request_id text, amount bigint, most bigint, tokens bigint, protocol text, principal_id text, user_email text, team text,
  project text, token_id text, model text, upstream text, upstream_model text, first integer, rates integer, last integer
);

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

-- Decides on reservations one by one that insert_reserved has made and change_counters found to be too much together. p_limits
-- has of each {counters, limits, shadow_limits, ppm}. remarks are those of decide_reservations.
create function decide_reserved(
  p_time_zone text, p_ids bigint[], p_asked asked_counters, p_set bigint[], p_granted bigint[],
  p_requests batch_request[], p_at integer[], p_limits jsonb, out remarks jsonb, out changed changed_counters
)
language plpgsql as $$
declare
  v_granted integer[];
begin
  perform take_back(p_ids, p_asked);
  select d.remarks, array(select (g ->> 'n')::integer from jsonb_array_elements(d.granted) as g) into remarks, v_granted
  from decide_reservations(p_time_zone, p_ids, p_set, p_granted, (
    select jsonb_agg(p_limits -> (r.position - 1)::integer || jsonb_build_object(
      'n', r.position, 'amount_nano_usd', r.amount, 'most_nano_usd', r.most, 'tokens', r.tokens) order by r.position)
    from unnest(p_requests) with ordinality as r (
      request_id, amount, most, tokens, protocol, principal_id, user_email, team, project, token_id, model, upstream,
      upstream_model, first, rates, last, position))) as d;
  delete from reservations where request_id = any (array(
    select (p_requests[n]).request_id from generate_subscripts(p_requests, 1) as n where n <> all (v_granted)));
  with asked as (
    select c.position, sum_bigint((g.r).amount) as amount, sum_bigint((g.r).most) as most, sum_bigint((g.r).tokens) as tokens,
           count(*) as requests
    from (select p_requests[n] as r from unnest(v_granted) as n offset 0) as g
    cross join unnest(p_at[(g.r).first : (g.r).last]) as c (position)
    group by c.position
  ), added as (
    update spend_counters s
    set reserved = s.reserved + in_unit(s.unit, a.amount, a.tokens, a.requests),
        most = s.most + in_unit(s.unit, a.most, a.tokens, a.requests), in_flight = s.in_flight + a.requests
    from asked a where s.id = p_ids[a.position]
    returning a.position, s.unit, s.spent, s.reserved, s.in_flight, s.most
  )
  select true, array_agg(a.position), array_agg(a.spent), array_agg(a.reserved), array_agg(a.in_flight), array_agg(a.most)
  into changed.fits, changed.positions, changed.spent, changed.reserved, changed.in_flight, changed.most
  from added a where a.unit = 'nano_usd';
end $$;
