-- Attempts as a ledger row has them: those that count on counters of their own name them, by what was held for them or, where
-- nothing was reserved, as positions in p_ids.
create function place_attempts(p_attempts jsonb, p_held jsonb, p_ids bigint[]) returns jsonb
language sql as $$
  select jsonb_agg(
    a.value - 'counters' || case
      when h.counter_ids is not null then jsonb_build_object('counter_ids', h.counter_ids)
      when a.value ? 'counters' then jsonb_build_object('counter_ids', array(
        select p_ids[c::integer] from jsonb_array_elements_text(a.value -> 'counters') as c))
      else '{}' end
    order by a.position)
  from jsonb_array_elements(p_attempts) with ordinality as a (value, position)
  left join jsonb_to_recordset(p_held) as h (n integer, counter_ids bigint[]) on h.n = (a.value ->> 'n')::integer
$$;

-- What of the cost of a row counts on counters of its attempts and not on its own.
create function counted_apart(p_attempts jsonb) returns bigint
language sql immutable as $$
  select coalesce(sum(a.cost_nano_usd) filter (where a.counter_ids is not null), 0)::bigint
  from jsonb_to_recordset(p_attempts) as a (cost_nano_usd bigint, counter_ids bigint[])
$$;

-- Writes one ledger row per request, and in the counters of the windows it was reserved in replaces its reservation by what it
-- used. Returns the requests that have been written before. The counters are locked. An unreserved request says who asked for
-- what, and names its counters like one of make_reservations: those of p_counted_at; so do its attempts that count on others. A
-- cost of null means the amount that was reserved.
create or replace function write_ledger(
  p_now timestamptz, p_counted_at timestamptz, p_ids bigint[], p_gone reservations[], p_rows jsonb
) returns setof text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
  with incoming as (
    select distinct on (r.request_id) r.*
    from jsonb_to_recordset(p_rows) as r (
      request_id text, protocol text, principal_id text, "user" text, team text, project text, token_id text,
      model text, upstream text, upstream_model text, status integer, aborted boolean, reserved boolean,
      input bigint, output bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint,
      cost_nano_usd bigint, provenance jsonb, server_tools jsonb, billed jsonb, attempts jsonb, cache_requested_ttl text,
      cache_effective_ttl text, upstream_ms double precision, upstream_request_id text, counters int[])
  ), gone as (
    select g.* from unnest(p_gone) as g
  ), written as (
    insert into ledger (
      request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
      status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, provenance, server_tools, billed, attempts, cache_requested_ttl, cache_effective_ttl,
      upstream_ms, upstream_request_id, counter_ids, forwarded_at, settled_at)
    select i.request_id, coalesce(g.protocol, i.protocol), coalesce(g.principal_id, i.principal_id),
           coalesce(g.user_email, i."user"), coalesce(g.team, i.team), coalesce(g.project, i.project),
           coalesce(g.token_id, i.token_id), coalesce(g.model, i.model), coalesce(i.upstream, g.upstream),
           coalesce(i.upstream_model, g.upstream_model), i.status, i.aborted,
           i.input, i.output, i.cache_read, i.cache_write_5m, i.cache_write_1h,
           coalesce(i.cost_nano_usd, g.amount_nano_usd, 0), i.provenance, i.server_tools, i.billed,
           case when i.attempts is not null then place_attempts(i.attempts, g.held, p_ids) end,
           i.cache_requested_ttl, i.cache_effective_ttl, i.upstream_ms, i.upstream_request_id,
           coalesce(g.counter_ids, array(select p_ids[c] from unnest(i.counters) as c)),
           coalesce(g.reserved_at, p_counted_at), p_now
    from incoming i left join gone g on g.request_id = i.request_id
    -- The counters are locked: of two attempts to write the same unreserved request the second sees the first.
    where i.reserved and g.request_id is not null or not i.reserved and not exists (
      select from ledger l where l.request_id = i.request_id and l.settled_at > p_counted_at - interval '2 days')
    returning request_id, attempts, counter_ids,
      cost_nano_usd - case when attempts is null then 0 else counted_apart(attempts) end as cost,
      input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens as tokens
  ), moved as (
    select m.id, sum(m.cost)::bigint as cost, sum(m.used)::bigint as used, sum(m.written)::bigint as written,
           sum(m.amount)::bigint as amount, sum(m.most)::bigint as most, sum(m.tokens)::bigint as tokens,
           sum(m.gone)::bigint as gone
    from (
      select unnest(coalesce(g.counter_ids || g.rate_counter_ids, w.counter_ids)) as id, w.cost, w.tokens as used,
             (w.request_id is not null)::int as written, g.amount_nano_usd as amount, g.most_nano_usd as most, g.tokens,
             (g.request_id is not null)::int as gone
      from written w full join gone g on g.request_id = w.request_id
      union all
      select unnest(h.counter_ids), 0, 0, 0, h.cost_nano_usd, h.cost_nano_usd, 0, 0
      from gone g cross join jsonb_to_recordset(g.held) as h (cost_nano_usd bigint, counter_ids bigint[])
      where g.held is not null
      union all
      select unnest(a.counter_ids), a.cost_nano_usd, 0, 0, 0, 0, 0, 0
      from written w cross join jsonb_to_recordset(w.attempts) as a (cost_nano_usd bigint, counter_ids bigint[])
      where w.attempts is not null
    ) as m
    group by m.id
  ), updated as (
    update spend_counters s
    set spent = s.spent + case s.window_kind
          when 'open' then 0 else coalesce(in_unit(s.unit, m.cost, m.used, m.written), 0) end,
        reserved = s.reserved - coalesce(in_unit(s.unit, m.amount, m.tokens, m.gone), 0),
        most = s.most - coalesce(in_unit(s.unit, m.most, m.tokens, m.gone), 0), in_flight = s.in_flight - m.gone
    from moved m where s.id = m.id
  )
  select i.request_id from incoming i where not exists (select from written w where w.request_id = i.request_id);
end $$;

-- Everything that waits in a process, in one transaction: settles what is over, then reserves, so that what was just given
-- back can be reserved again. Unreserved requests count at p_counted_at, but at most 30 days ago, because counters of long
-- ago are deleted; everything else now. Nothing is reserved after the valid_until of the first request, when nobody waits for
-- it any more and the process may have ended: then late is true. Returns JSON, or null when there is nothing to tell:
-- {repeated: requests that were written before, remarks and statuses as make_reservations has them, late, decided_at:
-- milliseconds since the epoch}.
create or replace function settle_and_reserve(
  p_process uuid, p_now timestamptz, p_counted_at timestamptz, p_time_zone text,
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[], p_rows jsonb, p_requests jsonb
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  -- A gateway said when, whose clock may be wrong.
  v_counted_at timestamptz := least(coalesce(p_counted_at, v_now), v_now);
  v_ids bigint[] := '{}';
  v_gone reservations[] := '{}';
  v_estimates ledger[] := '{}';
  v_repeated text[];
  v_set bigint[];
  v_granted bigint[];
  v_remarks jsonb;
  v_statuses json;
  v_late boolean := false;
begin
  if cardinality(p_scopes) > 0 then
    v_ids := open_counters(
      p_scopes, p_keys, p_kinds, p_units, greatest(v_counted_at, v_now - interval '30 days'), p_time_zone);
  end if;
  if p_rows <> '[]' then
    with gone as (
      delete from reservations
      where request_id = any (array(select r.request_id from jsonb_to_recordset(p_rows) as r (request_id text)))
      returning reservations
    ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
    if cardinality(v_gone) < jsonb_array_length(p_rows) then
      v_estimates := find_estimates(v_now, p_rows);
    end if;
  end if;
  perform lock_counters(
    counters_of(v_gone)
    || array(select unnest(e.counter_ids) from unnest(v_estimates) as e) || v_ids);
  if p_rows <> '[]' then
    v_repeated := array(select write_ledger(v_now, v_counted_at, v_ids, v_gone, p_rows));
    if cardinality(v_estimates) > 0 then
      v_repeated := array(select unnest(v_repeated) except select correct_estimates(v_now, v_estimates, p_rows));
    end if;
  end if;
  if p_requests <> '[]' then
    v_late := coalesce((p_requests -> 0 ->> 'valid_until')::timestamptz < clock_timestamp(), false);
  end if;
  if p_requests <> '[]' and not v_late then
    select c.amounts, c.granted into v_set, v_granted
    from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;
    select r.remarks, r.statuses into v_remarks, v_statuses
    from make_reservations(p_process, v_now, p_time_zone, v_ids, v_set, v_granted, p_requests) as r;
  end if;
  if coalesce(cardinality(v_repeated), 0) = 0 and coalesce(v_remarks, '[]') = '[]' and v_statuses is null
    and not v_late
  then
    return null;
  end if;
  return json_build_object(
    'repeated', coalesce(v_repeated, '{}'), 'remarks', coalesce(v_remarks, '[]'), 'statuses', coalesce(v_statuses, '[]'),
    'late', v_late, 'decided_at', (extract(epoch from v_now) * 1000)::bigint);
end $$;

-- Of a reservation that nobody will settle, with earlier attempts: its cost with them, and its attempts.
create function attempts_of_orphan(p_reservation reservations) returns jsonb
language sql as $$
  select jsonb_build_object(
    'cost_nano_usd', p_reservation.amount_nano_usd + sum((h.value ->> 'cost_nano_usd')::bigint),
    'attempts', jsonb_agg(h.value - 'counter_ids') || jsonb_build_object(
      'n', max((h.value ->> 'n')::integer) + 1, 'upstream', p_reservation.upstream,
      'upstream_model', p_reservation.upstream_model, 'certainty', 'possibly_accepted', 'outcome', 'unanswered',
      'reason', 'gone', 'sends', 1, 'cost_nano_usd', p_reservation.amount_nano_usd, 'provenance', 'estimate'))
  from jsonb_array_elements(p_reservation.held) as h (value)
$$;

-- Turns reservations nobody will settle into ledger rows at the amount that was reserved: those of processes known to be
-- dead, and those of processes without a heartbeat for p_patience. Returns how many.
create or replace function recover_orphans(
  p_now timestamptz, p_dead uuid[], p_patience interval, p_server_started timestamptz
) returns integer
language plpgsql as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_lapse timestamptz := v_now - p_patience;
  v_gone reservations[];
begin
  perform ensure_durable_commit();
  with orphans as (
    select r.request_id
    from reservations r left join processes p on p.id = r.process_id
    where r.process_id = any (p_dead)
      -- While the server was down there could be no heartbeat.
      or (p_server_started < v_lapse and r.reserved_at < v_lapse and (p.id is null or p.heartbeat_at < v_lapse))
    order by r.request_id
    limit 500
    for update of r skip locked
  ), gone as (
    delete from reservations r using orphans o where r.request_id = o.request_id returning r as reservation
  ) select coalesce(array_agg(gone.reservation), '{}') into v_gone from gone;
  perform lock_counters(counters_of(v_gone));

  -- Like a settlement whose cost is not known. A request that was let through without waiting for its reservation has its row
  -- already.
  perform write_ledger(v_now, v_now, '{}', v_gone, (
    select coalesce(jsonb_agg(jsonb_build_object(
      'request_id', g.request_id, 'reserved', true, 'aborted', true,
      'input', 0, 'output', 0, 'cache_read', 0, 'cache_write_5m', 0, 'cache_write_1h', 0,
      'provenance', jsonb_build_object(
        'input', 'estimate', 'output', 'estimate', 'cache_read', 'estimate', 'cache_write_5m', 'estimate',
        'cache_write_1h', 'estimate', 'cost', 'estimate') || coalesce((
        select jsonb_build_object('possibly_billed_nano_usd', sum(h.possibly_billed_nano_usd))
        from jsonb_to_recordset(g.held) as h (possibly_billed_nano_usd bigint)
        having sum(h.possibly_billed_nano_usd) > 0), '{}')
    ) || case when g.held is null then '{}' else attempts_of_orphan(g) end), '[]')
    from unnest(v_gone) as g
    where not exists (
      select from ledger l where l.request_id = g.request_id and l.settled_at > g.reserved_at - interval '2 days')));

  delete from processes p
  where (p.id = any (p_dead) or p_server_started < v_lapse and p.heartbeat_at < v_lapse)
    and not exists (select from reservations r where r.process_id = p.id);
  return cardinality(v_gone);
end $$;
