-- Adds what waits to the sums. Only one process at a time changes them: all who do begin with this lock.

create function lock_usage() returns boolean
language sql as $$ select pg_try_advisory_xact_lock(hashtext('appscli.usage')) $$;

create function name_digest(p_name text) returns bytea
language sql immutable as $$ select sha256(convert_to(p_name, 'UTF8')) $$;

-- The number of a name by an object of them; 0 for none.
create function name_number(p_numbers jsonb, p_name text) returns integer
language sql immutable as $$ select coalesce((p_numbers ->> p_name)::integer, 0) $$;

-- Adds up to p_most waiting rows to their hours and days. Returns how many; null while another process does it.
create function sum_usage(p_most integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
  v_rows tid[];
  v_names text[];
  v_numbers jsonb;
begin
  if not lock_usage() then
    return null;
  end if;
  -- Nobody but the holder of the lock deletes what waits, and nobody changes it.
  v_rows := array(
    select w.ctid from usage_waiting w where w.settled_at >= (select s.summed_from from usage_state s) limit p_most);
  v_names := array(
    select distinct n.name
    from usage_waiting w
    cross join lateral unnest(array[
      user_email, team, project, token_id, model, upstream, upstream_model, protocol, answered_model, service_tier, speed,
      status, estimated]) as n (name)
    where w.ctid = any (v_rows) and n.name is not null);
  insert into usage_names (digest, name)
  select name_digest(n.name), n.name from unnest(v_names) as n (name)
  where not exists (select from usage_names k where k.digest = name_digest(n.name));
  -- Whoever changed a name by hand has it put right by summing up anew.
  update usage_names k set name = n.name
  from unnest(v_names) as n (name) where k.digest = name_digest(n.name) and k.name <> n.name;
  select jsonb_object_agg(k.name, k.id) into v_numbers
  from unnest(v_names) as n (name) join usage_names k on k.digest = name_digest(n.name);

  with taken as (
    delete from usage_waiting w where w.ctid = any (v_rows) returning w.*
  ), numbered as (
    select t.*, name_number(v_numbers, user_email) as user_n, name_number(v_numbers, team) as team_n,
           name_number(v_numbers, project) as project_n, name_number(v_numbers, token_id) as token_n,
           name_number(v_numbers, model) as model_n, name_number(v_numbers, upstream) as upstream_n,
           name_number(v_numbers, upstream_model) as upstream_model_n, name_number(v_numbers, protocol) as protocol_n,
           name_number(v_numbers, answered_model) as answered_model_n,
           name_number(v_numbers, service_tier) as service_tier_n, name_number(v_numbers, speed) as speed_n,
           name_number(v_numbers, status) as status_n, name_number(v_numbers, estimated) as estimated_n
    from taken t
  ), hours as materialized (
    select hour as start, user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
           service_tier_n, speed_n, status_n, estimated_n,
           max(settled_at) as settled_until, sum(lines) as lines, sum(requests) as requests, sum(input_tokens) as input_tokens,
           sum(output_tokens) as output_tokens, sum(cache_read_tokens) as cache_read_tokens,
           sum(cache_write_5m_tokens) as cache_write_5m_tokens, sum(cache_write_1h_tokens) as cache_write_1h_tokens,
           sum(cost_nano_usd) as cost_nano_usd, sum(adjusted_nano_usd) as adjusted_nano_usd,
           sum(possibly_billed_nano_usd) as possibly_billed_nano_usd, sum(possible_nano_usd) as possible_nano_usd
    from numbered
    group by hour, user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
             service_tier_n, speed_n, status_n, estimated_n
  ), by_hour as (
    insert into usage_hours as u (
      start, user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
      service_tier_n, speed_n, status_n, estimated_n,
      settled_until, lines, requests, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd)
    select * from hours
    on conflict (
      start, user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
      service_tier_n, speed_n, status_n, estimated_n) do update set
      settled_until = greatest(u.settled_until, excluded.settled_until), lines = u.lines + excluded.lines,
      requests = u.requests + excluded.requests, input_tokens = u.input_tokens + excluded.input_tokens,
      output_tokens = u.output_tokens + excluded.output_tokens,
      cache_read_tokens = u.cache_read_tokens + excluded.cache_read_tokens,
      cache_write_5m_tokens = u.cache_write_5m_tokens + excluded.cache_write_5m_tokens,
      cache_write_1h_tokens = u.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
      cost_nano_usd = u.cost_nano_usd + excluded.cost_nano_usd,
      adjusted_nano_usd = u.adjusted_nano_usd + excluded.adjusted_nano_usd,
      possibly_billed_nano_usd = u.possibly_billed_nano_usd + excluded.possibly_billed_nano_usd,
      possible_nano_usd = u.possible_nano_usd + excluded.possible_nano_usd
  )
  insert into usage_days as u (
    start, user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
    service_tier_n, speed_n, status_n, estimated_n,
    settled_until, lines, requests, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
    cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd)
  select date_trunc('day', h.start, 'UTC'), user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
         service_tier_n, speed_n, status_n, estimated_n,
         max(settled_until), sum(lines), sum(requests), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
         sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(cost_nano_usd), sum(adjusted_nano_usd),
         sum(possibly_billed_nano_usd), sum(possible_nano_usd)
  from hours h
  group by date_trunc('day', h.start, 'UTC'), user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
           service_tier_n, speed_n, status_n, estimated_n
  on conflict (
    start, user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
    service_tier_n, speed_n, status_n, estimated_n) do update set
    settled_until = greatest(u.settled_until, excluded.settled_until), lines = u.lines + excluded.lines,
    requests = u.requests + excluded.requests, input_tokens = u.input_tokens + excluded.input_tokens,
    output_tokens = u.output_tokens + excluded.output_tokens,
    cache_read_tokens = u.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_5m_tokens = u.cache_write_5m_tokens + excluded.cache_write_5m_tokens,
    cache_write_1h_tokens = u.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
    cost_nano_usd = u.cost_nano_usd + excluded.cost_nano_usd,
    adjusted_nano_usd = u.adjusted_nano_usd + excluded.adjusted_nano_usd,
    possibly_billed_nano_usd = u.possibly_billed_nano_usd + excluded.possibly_billed_nano_usd,
    possible_nano_usd = u.possible_nano_usd + excluded.possible_nano_usd;
  return cardinality(v_rows);
end $$;

-- Lines of the ledger settled from p_settled_from until p_settled_until, and forwarded from p_from until p_until, wait for
-- the sums anew, in place of what waits of them now. All is seen in one moment, so that a line written meanwhile counts once.
create function wait_again(
  p_from timestamptz, p_until timestamptz, p_settled_from timestamptz, p_settled_until timestamptz
) returns bigint
language sql as $$
  with gone as (
    delete from usage_waiting
    where hour >= p_from and hour < p_until and settled_at >= p_settled_from and settled_at < p_settled_until
  ), lines as (
    insert into usage_waiting
    select hour, max(settled_at), user_email, team, project, token_id, model, upstream, upstream_model, protocol, answered_model,
           service_tier, speed, status, estimated, sum(lines), sum(requests), sum(input_tokens), sum(output_tokens),
           sum(cache_read_tokens), sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(cost_nano_usd),
           sum(adjusted_nano_usd), sum(possibly_billed_nano_usd), sum(possible_nano_usd)
    from usage_lines
    where forwarded_at >= p_from and forwarded_at < p_until and settled_at >= p_settled_from and settled_at < p_settled_until
    group by hour, user_email, team, project, token_id, model, upstream, upstream_model, protocol, answered_model, service_tier,
             speed, status, estimated
    returning lines
  ) select coalesce(sum(lines), 0)::bigint from lines
$$;

-- Of a ledger that is older than the sums, lets the lines of the latest p_span wait that are not in them yet. Returns how many, or
-- null while another process does it.
create function sum_older(p_now timestamptz, p_span interval) returns bigint
language plpgsql as $$
declare
  v_until timestamptz;
  v_from timestamptz;
  v_lines bigint;
begin
  if not lock_usage() then
    return null;
  end if;
  select summed_from into v_until from usage_state;
  if v_until = '-infinity' then
    return 0;
  end if;
  v_from := least(v_until, coalesce(p_now, now())) - p_span;
  if not exists (select from ledger where settled_at < v_from) then
    v_from := '-infinity';
  end if;
  v_lines := wait_again('-infinity', 'infinity', v_from, v_until);
  update usage_state set summed_from = v_from;
  return v_lines;
end $$;

-- Lets the days from p_from until p_until (midnights of UTC) wait to be summed anew. Returns the lines they have, or null while
-- another process is at work on the sums.
create function sum_again(p_from timestamptz, p_until timestamptz) returns bigint
language plpgsql as $$
begin
  if not lock_usage() then
    return null;
  end if;
  delete from usage_hours where start >= p_from and start < p_until;
  delete from usage_days where start >= p_from and start < p_until;
  return wait_again(p_from, p_until, (select summed_from from usage_state), 'infinity');
end $$;
