-- Writes reservations whose amounts were taken from leases in memory, one by one: some may be there already, or in the ledger. Where
-- a lease is gone, because its process was taken for dead, they count on their counters all the same: they were forwarded.
create procedure place_rows_again(
  p_process uuid, p_lease uuid, p_now timestamptz,
  p_request_ids text[], p_amounts bigint[], p_most bigint[], p_tokens bigint[], p_counters text[], p_rate_counters text[],
  p_protocols text[], p_principals text[], p_users text[], p_teams text[], p_projects text[], p_token_ids text[],
  p_models text[], p_upstreams text[], p_upstream_models text[]
)
language plpgsql as $$
declare
  v_ids bigint[];
begin
  for i in 1 .. cardinality(p_request_ids) loop
    perform set_config('synchronous_commit', 'off', true);
    v_ids := p_counters[i]::bigint[] || p_rate_counters[i]::bigint[];
    insert into reservations (
      request_id, process_id, reserved_at, amount_nano_usd, most_nano_usd, tokens, counter_ids, rate_counter_ids,
      protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
    select p_request_ids[i], p_process, coalesce(p_now, now()), p_amounts[i], p_most[i], p_tokens[i],
      p_counters[i]::bigint[], p_rate_counters[i]::bigint[], p_protocols[i], p_principals[i], p_users[i], p_teams[i], p_projects[i],
      p_token_ids[i], p_models[i], p_upstreams[i], p_upstream_models[i]
    where not exists (
      select from ledger l
      where l.request_id = p_request_ids[i] and l.settled_at > coalesce(p_now, now()) - interval '2 days')
    on conflict (request_id) do nothing;
    if found then
      perform lock_counters(v_ids);
      perform from reservation_leases l where l.lease_id = p_lease and l.counter_id = any (v_ids)
      order by l.counter_id for update;
      with needed as (
        select s.id, in_unit(s.unit, p_amounts[i], p_tokens[i], 1) as amount, in_unit(s.unit, p_most[i], p_tokens[i], 1) as most
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

-- Writes reservations whose amounts were taken from leases in memory. p_ids, p_back, p_back_most and p_back_requests say what goes
-- off which lease, all rows together. Nothing here waits for a counter while the leases are there. The answer is given when the
-- rows are on the disk.
create procedure place_rows(
  p_process uuid, p_lease uuid, p_now timestamptz,
  p_request_ids text[], p_amounts bigint[], p_most bigint[], p_tokens bigint[], p_counters text[], p_rate_counters text[],
  p_protocols text[], p_principals text[], p_users text[], p_teams text[], p_projects text[], p_token_ids text[],
  p_models text[], p_upstreams text[], p_upstream_models text[],
  p_ids bigint[], p_off bigint[], p_off_most bigint[], p_off_requests integer[]
)
language plpgsql as $$
declare
  v_leases integer;
begin
  perform set_config('synchronous_commit', 'off', true);
  insert into reservations (
    request_id, process_id, reserved_at, amount_nano_usd, most_nano_usd, tokens, counter_ids, rate_counter_ids,
    protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
  select r.request_id, p_process, coalesce(p_now, now()), r.amount, r.most, r.tokens, r.counters::bigint[], r.rate_counters::bigint[],
         r.protocol, r.principal_id, r.user_email, r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model
  from unnest(
    p_request_ids, p_amounts, p_most, p_tokens, p_counters, p_rate_counters, p_protocols, p_principals, p_users, p_teams,
    p_projects, p_token_ids, p_models, p_upstreams, p_upstream_models)
    as r (request_id, amount, most, tokens, counters, rate_counters, protocol, principal_id, user_email, team,
          project, token_id, model, upstream, upstream_model);
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
    call place_rows_again(
      p_process, p_lease, p_now, p_request_ids, p_amounts, p_most, p_tokens, p_counters, p_rate_counters, p_protocols,
      p_principals, p_users, p_teams, p_projects, p_token_ids, p_models, p_upstreams, p_upstream_models);
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
