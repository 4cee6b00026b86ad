-- What settle_and_reserve does, for what nearly every batch needs in few statements, for everything else by the functions it
-- calls, too. Locks are taken in their order: reservations, then counters by id. The functions that only this one calls have no
-- settings of their own.
--
-- p_windows are kinds of windows, each once. p_rows are settlements as settle_and_reserve takes them, of requests that nothing was
-- reserved for or that had several attempts. p_at belongs to insert_reserved, p_limits is the JSON of decide_reserved,
-- parsed only when it is needed. Nothing is reserved after p_valid_until.
--
-- Returns JSON, or null when there is nothing to tell: {repeated, remarks, late, decided_at} as settle_and_reserve, and counters of
-- money that something was reserved on, as columns: [positions, spent, reserved, in_flight, most, set, granted], the last two null
-- where nothing was set or granted for anybody, and by position of all counters; resets has the end of each window, in
-- milliseconds since the epoch.
create function settle_and_reserve_batch(
  p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz,
  p_windows text[], p_counters batch_counter[], p_asked asked_counters, p_settlements batch_settlement[],
  p_notes jsonb, p_rows jsonb, p_requests batch_request[], p_at integer[], p_limits text
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_reserves boolean := cardinality(p_requests) > 0;
  v_starts timestamptz[];
  v_resets bigint[];
  v_ids bigint[] := '{}';
  v_is_changed boolean;
  v_settled settled_counters;
  v_repeated text[] := '{}';
  v_rest jsonb := p_rows;
  v_set bigint[];
  v_granted bigint[];
  v_asked asked_counters := p_asked;
  v_changed changed_counters;
  v_late boolean;
  v_remarks jsonb := '[]';
begin
  if cardinality(p_counters) > 0 then
    select array_agg(w.start), array_agg((extract(epoch from window_end(w.kind, w.start, p_time_zone)) * 1000)::bigint)
    into v_starts, v_resets
    from (select kind, window_start(kind, v_now, p_time_zone) as start from unnest(p_windows) as kind offset 0) as w;
    select f.ids, f.is_changed into v_ids, v_is_changed
    from find_counters(p_counters, p_windows, v_starts, v_now, p_time_zone) as f;
  end if;
  if cardinality(p_settlements) > 0 then
    v_settled := write_reserved(v_now, p_settlements, p_notes);
    if v_settled.requests < cardinality(p_settlements) then
      v_rest := v_rest || unwritten_rows(v_settled.request_ids, p_settlements, p_notes);
    end if;
  end if;
  if v_rest <> '[]' then
    v_repeated := settle_rest(v_now, v_ids, v_settled.ids, v_rest);
  end if;
  if v_reserves then
    perform insert_reserved(p_process, v_now, v_ids, p_requests, p_at);
    if v_is_changed then
      select c.amounts, c.granted, c.limits, c.bounds into v_set, v_granted, v_asked.limits, v_asked.bounds
      from limits_with_changes(p_counters, p_windows, v_now) as c;
    end if;
  end if;
  v_changed := change_counters(v_settled, v_ids, v_asked);
  v_late := v_reserves and coalesce(p_valid_until < clock_timestamp(), false);
  if v_late then
    delete from reservations where request_id = any (array(select r.request_id from unnest(p_requests) as r));
    perform take_back(v_ids, p_asked);
    return json_build_object('repeated', v_repeated, 'late', true);
  elsif not v_changed.fits then
    select d.remarks, (d.changed).positions, (d.changed).spent, (d.changed).reserved, (d.changed).in_flight, (d.changed).most
    into v_remarks, v_changed.positions, v_changed.spent, v_changed.reserved, v_changed.in_flight, v_changed.most
    from decide_reserved(
      p_time_zone, v_ids, p_asked, v_set, v_granted, p_requests, p_at, p_limits::jsonb) as d;
  end if;
  if cardinality(v_repeated) = 0 and v_changed.positions is null and v_remarks = '[]' then
    return null;
  end if;
  return json_build_object(
    'repeated', v_repeated, 'remarks', v_remarks, 'decided_at', (extract(epoch from v_now) * 1000)::bigint,
    'resets', v_resets, 'counters', json_build_array(
      v_changed.positions, v_changed.spent, v_changed.reserved, v_changed.in_flight, v_changed.most, v_set, v_granted));
end $$;

-- No counter is looked up twice in a batch: remembering what was found costs a tenth of it.
alter function settle_and_reserve_batch set enable_memoize = off;

-- What a gateway calls, as run_batch for late settlements: see there.
create procedure carry_batch(
  p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz,
  p_windows text[], p_counters batch_counter[], p_asked asked_counters, p_settlements batch_settlement[],
  p_notes jsonb, p_rows jsonb, p_requests batch_request[], p_at integer[], p_limits text, inout answer text
)
language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  answer := settle_and_reserve_batch(
    p_process, p_now, p_time_zone, p_valid_until, p_windows, p_counters, p_asked, p_settlements, p_notes, p_rows,
    p_requests, p_at, p_limits);
  commit;
  if current_setting('server_version_num')::integer >= 170000 and current_setting('synchronous_standby_names') = '' then
    -- Waits for the disk, with everything that was written before.
    perform pg_logical_emit_message(false, 'appscli', '', true);
  else
    perform ensure_durable_commit();
    -- A commit waits for the disk, and for standbys, only when its transaction wrote something.
    perform pg_logical_emit_message(true, 'appscli', '');
  end if;
end $$;
