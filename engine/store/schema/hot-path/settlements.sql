-- A request that is over, of nearly all: with a reservation, and without earlier attempts that something is held for. A cost of
-- null means the amount that was reserved. note_n is the index of what many have in common, from 0, in a JSON array of
-- {provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl}.
create type batch_settlement as (
  request_id text, status integer, aborted boolean,
  input bigint, output bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint,
  cost bigint, upstream_ms double precision, upstream_request_id text, note_n integer
);

-- Writes the ledger rows of those whose reservations are there, and tells which these are.
create function write_reserved(p_now timestamptz, p_settlements batch_settlement[], p_notes jsonb) returns settled_counters
language plpgsql as $$
declare
  v_settled settled_counters;
begin
  with gone as (
    delete from reservations r using unnest(p_settlements) as i
    where r.request_id = i.request_id and r.held is null
    returning r.request_id, r.reserved_at, r.amount_nano_usd, r.most_nano_usd, r.tokens, r.counter_ids, r.rate_counter_ids,
      r.protocol, r.principal_id, r.user_email, r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model,
      i.status, i.aborted, i.input, i.output, i.cache_read, i.cache_write_5m, i.cache_write_1h,
      coalesce(i.cost, r.amount_nano_usd) as cost, i.upstream_ms, i.upstream_request_id, p_notes -> i.note_n as note
  ), written as (
    insert into ledger (
      request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
      status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl,
      upstream_ms, upstream_request_id, counter_ids, forwarded_at, settled_at)
    select g.request_id, g.protocol, g.principal_id, g.user_email, g.team, g.project, g.token_id, g.model, g.upstream,
           g.upstream_model, g.status, g.aborted, g.input, g.output, g.cache_read, g.cache_write_5m, g.cache_write_1h,
           g.cost, g.note -> 'provenance', g.note -> 'server_tools', g.note -> 'billed', g.note ->> 'cache_requested_ttl',
           g.note ->> 'cache_effective_ttl', g.upstream_ms, g.upstream_request_id, g.counter_ids, g.reserved_at, p_now
    from gone g
  )
  select count(*) filter (where c.n is null or c.n = 1), array_agg(g.request_id), array_agg(c.id), array_agg(g.cost),
         array_agg(g.input + g.output + g.cache_read + g.cache_write_5m + g.cache_write_1h),
         array_agg(g.amount_nano_usd), array_agg(g.most_nano_usd), array_agg(g.tokens)
  into v_settled
  from gone g left join unnest(g.counter_ids || g.rate_counter_ids) with ordinality as c (id, n) on true;
  return v_settled;
end $$;

-- Those that write_reserved did not write, as write_ledger takes them.
create function unwritten_rows(p_written text[], p_settlements batch_settlement[], p_notes jsonb) returns jsonb
language sql as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'request_id', i.request_id, 'reserved', true, 'status', i.status, 'aborted', i.aborted, 'input', i.input,
    'output', i.output, 'cache_read', i.cache_read, 'cache_write_5m', i.cache_write_5m, 'cache_write_1h', i.cache_write_1h,
    'cost_nano_usd', i.cost, 'upstream_ms', i.upstream_ms, 'upstream_request_id', i.upstream_request_id)
    || (p_notes -> i.note_n)), '[]')
  from unnest(p_settlements) as i
  where i.request_id <> all (coalesce(p_written, '{}'))
$$;

-- Settles what write_reserved does not, as settle_and_reserve does. p_ids are all other counters that the batch will
-- change: all of them are locked at once.
create function settle_rest(p_now timestamptz, p_ids bigint[], p_settled bigint[], p_rows jsonb) returns text[]
language plpgsql as $$
declare
  v_gone reservations[];
  v_estimates ledger[] := '{}';
  v_repeated text[];
begin
  with gone as (
    delete from reservations
    where request_id = any (array(select r.request_id from jsonb_to_recordset(p_rows) as r (request_id text)))
    returning reservations
  ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
  if cardinality(v_gone) < jsonb_array_length(p_rows) then
    v_estimates := find_estimates(p_now, p_rows);
  end if;
  perform lock_counters(
    counters_of(v_gone) || array(select unnest(e.counter_ids) from unnest(v_estimates) as e) || p_ids || p_settled);
  v_repeated := array(select write_ledger(p_now, p_now, p_ids, v_gone, p_rows));
  if cardinality(v_estimates) > 0 then
    v_repeated := array(select unnest(v_repeated) except select correct_estimates(p_now, v_estimates, p_rows));
  end if;
  return v_repeated;
end $$;
