-- Turns reservations nobody will settle into ledger rows at the amount that was reserved: those of processes known to be
-- dead, and those of processes without a heartbeat for p_patience. Returns how many. Leases of these processes are given back.
create or replace function recover_orphans(
  p_now timestamptz, p_dead uuid[], p_patience interval, p_server_started timestamptz
) returns integer
language plpgsql as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_lapse timestamptz := v_now - p_patience;
  v_gone reservations[];
  v_ended uuid[];
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
  -- A process that comes back says that it lives before it takes leases again, and waits here until its old ones are returned.
  perform from processes p
  where p.id in (select l.process_id from reservation_leases l) and p_server_started < v_lapse and p.heartbeat_at < v_lapse
  order by p.id for update;
  v_ended := array(
    select distinct l.process_id from reservation_leases l left join processes p on p.id = l.process_id
    where l.process_id = any (p_dead)
      or (p_server_started < v_lapse and (p.id is null or p.heartbeat_at < v_lapse)));
  perform lock_counters(
    counters_of(v_gone) || array(select l.counter_id from reservation_leases l where l.process_id = any (v_ended)));
  perform return_all_leases(v_ended, null);

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

-- The status of some counters of money, in the order given, as JSON, without what is leased and not placed:
-- [spent, reserved, in_flight, most, set, granted, resets_at_ms].
create or replace function read_statuses(
  p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[], p_units text[]
) returns text
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_set bigint[];
  v_granted bigint[];
begin
  select c.amounts, c.granted into v_set, v_granted
  from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;
  return (
    select json_agg(json_build_array(
      coalesce(s.spent, 0), coalesce(s.reserved - l.amount, 0), coalesce(s.in_flight - l.requests, 0), coalesce(s.most - l.most, 0),
      v_set[c.position], v_granted[c.position],
      (extract(epoch from window_end(c.kind, w.start, p_time_zone)) * 1000)::bigint) order by c.position)
    from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
    cross join lateral (select window_start(c.kind, v_now, p_time_zone) as start) as w
    left join spend_counters s
      on s.scope = c.scope and s.key = c.key and s.window_kind = c.kind and s.unit = c.unit and s.window_start = w.start
    cross join lateral (
      select coalesce(sum(r.amount), 0)::bigint as amount, coalesce(sum(r.most), 0)::bigint as most,
             coalesce(sum(r.requests), 0) as requests
      from reservation_leases r where r.counter_id = s.id) as l);
end $$;
