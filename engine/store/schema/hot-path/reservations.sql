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

-- Takes back what insert_reserved and change_counters have just reserved.
create function take_back(p_requests batch_request[], p_ids bigint[], p_counters batch_counter[]) returns void
language plpgsql as $$
begin
  delete from reservations where request_id = any (array(select r.request_id from unnest(p_requests) as r));
  update spend_counters s
  set reserved = s.reserved - in_unit(s.unit, a.amount, a.tokens, a.requests),
      most = s.most - in_unit(s.unit, a.most, a.tokens, a.requests), in_flight = s.in_flight - a.requests
  from unnest(p_counters) with ordinality as a (
    scope, key, window_n, unit, requests, amount, most, tokens, lim, shadow_lim, ppm, position)
  where s.id = p_ids[a.position] and a.requests > 0;
end $$;

-- Requests as make_reservations takes them. p_limits has the rest of each: {counters, money, limits, shadow_limits, ppm}.
create function requests_of(p_requests batch_request[], p_limits jsonb) returns jsonb
language sql as $$
  select jsonb_agg(p_limits -> (r.position - 1)::integer || jsonb_build_object(
    'request_id', r.request_id, 'amount_nano_usd', r.amount, 'most_nano_usd', r.most, 'tokens', r.tokens,
    'protocol', r.protocol, 'principal_id', r.principal_id, 'user', r.user_email, 'team', r.team, 'project', r.project,
    'token_id', r.token_id, 'model', r.model, 'upstream', r.upstream, 'upstream_model', r.upstream_model) order by r.position)
  from unnest(p_requests) with ordinality as r (
    request_id, amount, most, tokens, protocol, principal_id, user_email, team, project, token_id, model, upstream,
    upstream_model, first, rates, last, position)
$$;
