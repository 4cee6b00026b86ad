-- Makes reservations. p_at has the counters of all of them, as positions in p_ids, those of one request after those of another,
-- those of money first: of a request they begin at p_first, those of other units at p_rates, and end at p_last.
create function insert_reserved(
  p_process uuid, p_now timestamptz, p_ids bigint[], p_request_ids text[], p_amount bigint[], p_most bigint[], p_tokens bigint[],
  p_protocols text[], p_principals text[], p_users text[], p_teams text[], p_projects text[], p_token_ids text[],
  p_models text[], p_upstreams text[], p_upstream_models text[], p_at integer[], p_first integer[], p_rates integer[],
  p_last integer[]
) returns void
language plpgsql as $$
declare
  v_at bigint[] := array(select p_ids[a.at] from unnest(p_at) with ordinality as a (at, position) order by a.position);
begin
  insert into reservations (
    request_id, process_id, reserved_at, amount_nano_usd, most_nano_usd, tokens, counter_ids, rate_counter_ids,
    protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
  select r.request_id, p_process, p_now, r.amount, r.most, r.tokens, v_at[r.first : r.rates - 1], v_at[r.rates : r.last],
         r.protocol, r.principal_id, r."user", r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model
  from unnest(
    p_request_ids, p_amount, p_most, p_tokens, p_protocols, p_principals, p_users, p_teams, p_projects, p_token_ids,
    p_models, p_upstreams, p_upstream_models, p_first, p_rates, p_last) as r (
    request_id, amount, most, tokens, protocol, principal_id, "user", team, project, token_id, model, upstream,
    upstream_model, first, rates, last);
end $$;

-- Takes back reservations that insert_reserved and change_counters have just made.
create function take_back(
  p_request_ids text[],
  p_asked bigint[], p_asked_requests integer[], p_asked_amount bigint[], p_asked_most bigint[], p_asked_tokens bigint[]
) returns void
language plpgsql as $$
begin
  delete from reservations where request_id = any (p_request_ids);
  update spend_counters s
  set reserved = s.reserved - in_unit(s.unit, a.amount, a.tokens, a.requests),
      most = s.most - in_unit(s.unit, a.most, a.tokens, a.requests), in_flight = s.in_flight - a.requests
  from unnest(p_asked, p_asked_requests, p_asked_amount, p_asked_most, p_asked_tokens) as a (id, requests, amount, most, tokens)
  where s.id = a.id and a.requests > 0;
end $$;

-- Requests as make_reservations takes them. p_limits has what insert_reserved need not know: {counters, money, limits,
-- shadow_limits, ppm} of each.
create function requests_of(
  p_request_ids text[], p_amount bigint[], p_most bigint[], p_tokens bigint[],
  p_protocols text[], p_principals text[], p_users text[], p_teams text[], p_projects text[], p_token_ids text[],
  p_models text[], p_upstreams text[], p_upstream_models text[], p_limits jsonb
) returns jsonb
language sql as $$
  select jsonb_agg(l.value || jsonb_build_object(
    'request_id', r.request_id, 'amount_nano_usd', r.amount, 'most_nano_usd', r.most, 'tokens', r.tokens,
    'protocol', r.protocol, 'principal_id', r.principal_id, 'user', r."user", 'team', r.team, 'project', r.project,
    'token_id', r.token_id, 'model', r.model, 'upstream', r.upstream, 'upstream_model', r.upstream_model) order by r.position)
  from unnest(
    p_request_ids, p_amount, p_most, p_tokens, p_protocols, p_principals, p_users, p_teams, p_projects, p_token_ids,
    p_models, p_upstreams, p_upstream_models) with ordinality as r (
    request_id, amount, most, tokens, protocol, principal_id, "user", team, project, token_id, model, upstream,
    upstream_model, position)
  join jsonb_array_elements(p_limits) with ordinality as l (value, position) on l.position = r.position
$$;
