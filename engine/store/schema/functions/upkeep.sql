-- Turns reservations nobody will settle into ledger rows at the amount that was reserved: those of processes known to be
-- dead, and those of processes without a heartbeat for p_patience. Returns how many.
create function recover_orphans(
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
  perform lock_counters(array(select unnest(g.counter_ids || g.rate_counter_ids) from unnest(v_gone) as g));

  -- Like a settlement whose cost is not known. A request that was let through without waiting for its reservation has its row
  -- already.
  perform write_ledger(v_now, v_now, '{}', v_gone, (
    select coalesce(jsonb_agg(jsonb_build_object(
      'request_id', g.request_id, 'reserved', true, 'aborted', true,
      'input', 0, 'output', 0, 'cache_read', 0, 'cache_write_5m', 0, 'cache_write_1h', 0,
      'provenance', jsonb_build_object(
        'input', 'estimate', 'output', 'estimate', 'cache_read', 'estimate', 'cache_write_5m', 'estimate',
        'cache_write_1h', 'estimate', 'cost', 'estimate')
    )), '[]')
    from unnest(v_gone) as g
    where not exists (
      select from ledger l where l.request_id = g.request_id and l.settled_at > g.reserved_at - interval '2 days')));

  delete from processes p
  where (p.id = any (p_dead) or p_server_started < v_lapse and p.heartbeat_at < v_lapse)
    and not exists (select from reservations r where r.process_id = p.id);
  return cardinality(v_gone);
end $$;

-- Deletes some counters of minutes that ended two hours ago, which nobody asks for. Returns how many were deleted.
create function delete_minutes(p_now timestamptz, p_most integer) returns integer
language plpgsql as $$
declare
  v_deleted integer;
begin
  delete from spend_counters
  where id = any (array(
    select id from spend_counters
    where window_kind = 'minute' and window_start < coalesce(p_now, now()) - interval '2 hours' and in_flight = 0
    limit p_most
    for update skip locked));
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;

-- Deletes some counters of windows that began so long before the first row left that none of them can name one: a row
-- counts in windows that began at most 30 days and a month before it was settled.
create function delete_old_counters(p_most integer) returns integer
language plpgsql as $$
declare
  v_deleted integer;
begin
  with old as (
    select s.id from spend_counters s
    where s.window_kind in ('day', 'week', 'month')
      and s.window_start < (select dropped_before - interval '62 days' from ledger_bounds)
      and s.reserved = 0 and s.in_flight = 0
    order by s.id
    limit p_most
    for update skip locked
  ), gone as (
    delete from spend_counters s using old where s.id = old.id returning 1
  ) select count(*) into v_deleted from gone;
  return v_deleted;
end $$;
