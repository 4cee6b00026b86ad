import { PLANNED_ONCE } from './0005_plans.ts';

/** What becomes of reservations: ledger rows, or nothing. For the order of locks see `0001_ledger_functions.ts`. */
export const LEDGER_ROW_FUNCTIONS = `
-- Takes holds that are gone from their counters.
create function release_reservations(p_gone reservations[]) returns void
language plpgsql ${PLANNED_ONCE} as $$
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

-- Writes one ledger row per request, takes its reservation from the counters and adds what it used to them, which are those of the
-- windows it was reserved in. Returns the requests that have been written before. The counters are locked.
-- An unreserved request says who asked for what, and names its counters like one of place_reservations: those of p_counted_at.
-- A cost of null means the amount that was reserved.
create function write_ledger(
  p_now timestamptz, p_counted_at timestamptz, p_ids bigint[], p_gone reservations[], p_rows jsonb
) returns setof text
language plpgsql ${PLANNED_ONCE} as $$
#variable_conflict use_column
begin
  return query
  with incoming as (
    select distinct on (r.request_id) r.*
    from jsonb_to_recordset(p_rows) as r (
      request_id text, protocol text, principal_id text, "user" text, team text, project text, token_id text,
      model text, upstream text, upstream_model text, status integer, aborted boolean, reserved boolean,
      input bigint, output bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint,
      cost_nano_usd bigint, provenance jsonb, server_tools jsonb, counters int[])
  ), gone as (
    select g.* from unnest(p_gone) as g
  ), written as (
    insert into ledger (
      request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
      status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, provenance, server_tools, counter_ids, forwarded_at, settled_at)
    select i.request_id, coalesce(g.protocol, i.protocol), coalesce(g.principal_id, i.principal_id),
           coalesce(g.user_email, i."user"), coalesce(g.team, i.team), coalesce(g.project, i.project),
           coalesce(g.token_id, i.token_id), coalesce(g.model, i.model), coalesce(g.upstream, i.upstream),
           coalesce(g.upstream_model, i.upstream_model), i.status, i.aborted,
           i.input, i.output, i.cache_read, i.cache_write_5m, i.cache_write_1h,
           coalesce(i.cost_nano_usd, g.amount_nano_usd, 0), i.provenance, i.server_tools,
           coalesce(g.counter_ids, array(select p_ids[c] from unnest(i.counters) as c)),
           coalesce(g.reserved_at, p_counted_at), p_now
    from incoming i left join gone g on g.request_id = i.request_id
    -- The counters are locked: of two attempts to write the same unreserved request the second sees the first.
    where i.reserved and g.request_id is not null or not i.reserved and not exists (
      select from ledger l where l.request_id = i.request_id and l.settled_at > p_counted_at - interval '2 days')
    returning request_id, cost_nano_usd, counter_ids,
      input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens as tokens
  ), moved as (
    select c.id, sum(w.cost_nano_usd)::bigint as cost, sum(w.tokens)::bigint as used, count(w.request_id) as written,
           sum(g.amount_nano_usd)::bigint as amount, sum(g.most_nano_usd)::bigint as most,
           sum(g.tokens)::bigint as tokens, count(g.request_id) as gone
    from written w full join gone g on g.request_id = w.request_id
    cross join unnest(coalesce(g.counter_ids || g.rate_counter_ids, w.counter_ids)) as c (id)
    group by c.id
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

-- The estimates that were written for requests whose process was taken for dead, where p_rows tell what they cost after all:
-- it had only paused, or was cut off.
create function find_estimates(p_now timestamptz, p_rows jsonb) returns ledger[]
language plpgsql set enable_seqscan = off as $$
begin
  return (
    select coalesce(array_agg(l), '{}')
    from (select distinct r.request_id from jsonb_to_recordset(p_rows) as r (request_id text, provenance jsonb)
          where r.provenance ->> 'cost' <> 'estimate') as r
    join ledger l on l.request_id = r.request_id
    where l.settled_at > p_now - interval '2 days' and l.kind = 'request' and l.provenance ->> 'cost' = 'estimate'
      and l.aborted and l.status is null
      and l.input_tokens + l.output_tokens + l.cache_read_tokens + l.cache_write_5m_tokens + l.cache_write_1h_tokens = 0);
end $$;

-- Adds to each of these estimates, once, a row that puts it right, with its times, so that it counts in the same windows.
-- Returns the requests. The counters are locked.
create function correct_estimates(p_now timestamptz, p_estimates ledger[], p_rows jsonb) returns setof text
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return query
  with due as (
    select distinct on (r.request_id) jsonb_populate_record(e, jsonb_build_object(
      'kind', 'adjustment', 'server_tools', r.server_tools,
      'input_tokens', r.input, 'output_tokens', r.output, 'cache_read_tokens', r.cache_read,
      'cache_write_5m_tokens', r.cache_write_5m, 'cache_write_1h_tokens', r.cache_write_1h, 'cost_nano_usd', r.cost_nano_usd - e.cost_nano_usd,
      'provenance', r.provenance || jsonb_build_object('of', 'estimate', 'was_nano_usd', e.cost_nano_usd, 'at', p_now))) as l
    from unnest(p_estimates) as e
    join jsonb_to_recordset(p_rows) as r (
      request_id text, server_tools jsonb, cost_nano_usd bigint, provenance jsonb,
      input bigint, output bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint)
      on r.request_id = e.request_id
    where r.cost_nano_usd is not null and not exists (
      select from ledger l where l.request_id = e.request_id and l.settled_at = e.settled_at and l.kind = 'adjustment')
  ), written as (
    insert into ledger select (d.l).* from due d returning request_id, cost_nano_usd, counter_ids
  ), moved as (
    select c.id, sum(w.cost_nano_usd)::bigint as cost from written w cross join unnest(w.counter_ids) as c (id) group by c.id
  ), updated as (
    update spend_counters s set spent = s.spent + m.cost from moved m where s.id = m.id
  )
  select w.request_id from written w;
end $$;

-- Gives holds back without a trace, for requests that never left.
create or replace function release_batch(p_request_ids text[]) returns void
language plpgsql ${PLANNED_ONCE} as $$
declare
  v_gone reservations[];
begin
  with gone as (
    delete from reservations where request_id = any (p_request_ids) returning reservations
  ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
  perform lock_counters(array(select unnest(g.counter_ids || g.rate_counter_ids) from unnest(v_gone) as g));
  perform release_reservations(v_gone);
end $$;

-- Raises what typical reservations hold, never above the most they can cost. One that is being settled is left alone.
create function top_up_batch(p_request_ids text[], p_amounts bigint[]) returns void
language plpgsql ${PLANNED_ONCE} as $$
declare
  v_ids bigint[];
  v_added bigint[];
begin
  -- Nobody waits for it, and a crash that forgets it leaves what the request can cost at most in place.
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

-- Turns reservations nobody will settle into ledger rows at the amount that was reserved: those of processes known to be
-- dead, and those of processes that have not said for p_patience that they live. Returns how many.
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
      -- While the server was down nobody could say anything.
      or (p_server_started < v_lapse and r.reserved_at < v_lapse and (p.id is null or p.heartbeat_at < v_lapse))
    order by r.request_id
    limit 500
    for update of r skip locked
  ), gone as (
    delete from reservations r using orphans o where r.request_id = o.request_id returning r as reservation
  ) select coalesce(array_agg(gone.reservation), '{}') into v_gone from gone;
  perform lock_counters(array(select unnest(g.counter_ids || g.rate_counter_ids) from unnest(v_gone) as g));

  -- Like the settlement of somebody who died before he could say what it cost. A request that was let through without
  -- waiting for its reservation has its row already.
  perform write_ledger(v_now, v_now, '{}', v_gone, (
    select coalesce(jsonb_agg(jsonb_build_object(
      'request_id', g.request_id, 'reserved', true, 'aborted', true,
      'input', 0, 'output', 0, 'cache_read', 0, 'cache_write_5m', 0, 'cache_write_1h', 0,
      'provenance', '{"input":"estimate","output":"estimate","cache_read":"estimate","cache_write_5m":"estimate","cache_write_1h":"estimate","cost":"estimate"}'::jsonb
    )), '[]')
    from unnest(v_gone) as g
    where not exists (
      select from ledger l where l.request_id = g.request_id and l.settled_at > g.reserved_at - interval '2 days')));

  delete from processes p
  where (p.id = any (p_dead) or p_server_started < v_lapse and p.heartbeat_at < v_lapse)
    and not exists (select from reservations r where r.process_id = p.id);
  return cardinality(v_gone);
end $$;
`;
