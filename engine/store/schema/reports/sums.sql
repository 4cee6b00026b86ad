-- Adds what waits to the sums. Only one process at a time changes them: all who do begin with this lock.

create function lock_usage() returns boolean
language sql as $$ select pg_try_advisory_xact_lock(hashtext('appscli.usage')) $$;

create function usage_digest(w usage_waiting) returns bytea
language sql stable as $$
  select sha256(convert_to(jsonb_build_array(
    w.user_email, w.team, w.project, w.token_id, w.model, w.upstream, w.upstream_model, w.protocol, w.answered_model,
    w.service_tier, w.speed, w.status, w.estimated)::text, 'UTF8'))
$$;

-- Adds up to p_most waiting rows to their hours and days. Returns how many; null while another process does it. Each
-- statement is planned for looking up by index, as in functions/batches.sql.
create function sum_usage(p_most integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_rows tid[];
begin
  if not lock_usage() then
    return null;
  end if;
  -- Nobody but the holder of the lock deletes what waits, and nobody changes it.
  v_rows := array(
    select w.ctid from usage_waiting w where w.settled_at >= (select s.summed_from from usage_state s) limit p_most);

  insert into usage_keys (
    digest, user_email, team, project, token_id, model, upstream, upstream_model, protocol, answered_model, service_tier, speed,
    status, estimated)
  select distinct on (d.digest)
         d.digest, user_email, team, project, token_id, model, upstream, upstream_model, protocol, answered_model, service_tier,
         speed, status, estimated
  from usage_waiting w cross join lateral (select usage_digest(w) as digest) as d
  where w.ctid = any (v_rows) and not exists (select from usage_keys k where k.digest = d.digest);

  with taken as (
    delete from usage_waiting w where w.ctid = any (v_rows) returning w as line
  ), named as materialized (
    select usage_digest(line) as digest, (line).* from taken
  ), hours as (
    select n.hour, k.id as key_id, max(n.settled_at) as settled_until,
           sum(n.lines) as lines, sum(n.requests) as requests, sum(n.input_tokens) as input_tokens,
           sum(n.output_tokens) as output_tokens, sum(n.cache_read_tokens) as cache_read_tokens,
           sum(n.cache_write_5m_tokens) as cache_write_5m_tokens, sum(n.cache_write_1h_tokens) as cache_write_1h_tokens,
           sum(n.cost_nano_usd) as cost_nano_usd, sum(n.adjusted_nano_usd) as adjusted_nano_usd,
           sum(n.possibly_billed_nano_usd) as possibly_billed_nano_usd, sum(n.possible_nano_usd) as possible_nano_usd
    from named n join usage_keys k on k.digest = n.digest
    group by 1, 2
  ), by_hour as (
    insert into usage_hours as u (
      start, key_id, settled_until, lines, requests, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens,
      cache_write_1h_tokens, cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd)
    select * from hours
    on conflict (start, key_id) do update set
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
    start, key_id, settled_until, lines, requests, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens,
    cache_write_1h_tokens, cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd)
  select date_trunc('day', n.hour, 'UTC'), n.key_id, max(n.settled_until),
         sum(n.lines), sum(n.requests), sum(n.input_tokens), sum(n.output_tokens), sum(n.cache_read_tokens),
         sum(n.cache_write_5m_tokens), sum(n.cache_write_1h_tokens), sum(n.cost_nano_usd), sum(n.adjusted_nano_usd),
         sum(n.possibly_billed_nano_usd), sum(n.possible_nano_usd)
  from hours n
  group by 1, 2
  on conflict (start, key_id) do update set
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
