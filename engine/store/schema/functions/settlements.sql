-- Writes one ledger row per request, and in the counters of the windows it was reserved in replaces its reservation by what it
-- used. Returns the requests that have been written before. The counters are locked. An unreserved request says who asked for
-- what, and names its counters like one of make_reservations: those of p_counted_at. A cost of null means the amount that was
-- reserved.
create function write_ledger(
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
      cost_nano_usd bigint, provenance jsonb, server_tools jsonb, billed jsonb, counters int[])
  ), gone as (
    select g.* from unnest(p_gone) as g
  ), written as (
    insert into ledger (
      request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
      status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, provenance, server_tools, billed, counter_ids, forwarded_at, settled_at)
    select i.request_id, coalesce(g.protocol, i.protocol), coalesce(g.principal_id, i.principal_id),
           coalesce(g.user_email, i."user"), coalesce(g.team, i.team), coalesce(g.project, i.project),
           coalesce(g.token_id, i.token_id), coalesce(g.model, i.model), coalesce(g.upstream, i.upstream),
           coalesce(g.upstream_model, i.upstream_model), i.status, i.aborted,
           i.input, i.output, i.cache_read, i.cache_write_5m, i.cache_write_1h,
           coalesce(i.cost_nano_usd, g.amount_nano_usd, 0), i.provenance, i.server_tools, i.billed,
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
-- it had only paused, or was disconnected.
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

-- Adds to each of these estimates, once, a row that corrects it, with its times, so that it counts in the same windows.
-- Returns the requests. The counters are locked.
create function correct_estimates(p_now timestamptz, p_estimates ledger[], p_rows jsonb) returns setof text
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return query
  with due as (
    select distinct on (r.request_id) jsonb_populate_record(e, jsonb_build_object(
      'kind', 'adjustment', 'server_tools', r.server_tools, 'billed', r.billed,
      'input_tokens', r.input, 'output_tokens', r.output, 'cache_read_tokens', r.cache_read,
      'cache_write_5m_tokens', r.cache_write_5m, 'cache_write_1h_tokens', r.cache_write_1h,
      'cost_nano_usd', r.cost_nano_usd - e.cost_nano_usd,
      'provenance', r.provenance || jsonb_build_object('of', 'estimate', 'was_nano_usd', e.cost_nano_usd, 'at', p_now))) as l
    from unnest(p_estimates) as e
    join jsonb_to_recordset(p_rows) as r (
      request_id text, server_tools jsonb, billed jsonb, cost_nano_usd bigint, provenance jsonb,
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

-- Corrects when each of the rows that were just written was forwarded, where settle_and_reserve took one time for all.
create function note_forwarded(p_now timestamptz, p_counted_at timestamptz, p_rows jsonb) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  update ledger l set forwarded_at = least(r.at, p_now)
  from jsonb_to_recordset(p_rows) as r (request_id text, at timestamptz)
  where l.request_id = r.request_id and l.settled_at = p_now and l.kind = 'request'
    and l.forwarded_at = least(p_counted_at, p_now) and l.forwarded_at <> r.at;
end $$;
