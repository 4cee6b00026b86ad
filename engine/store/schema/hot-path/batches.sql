-- What settle_and_reserve does, for a batch in columns: what nearly every batch needs is done in few statements, everything else
-- by the functions of old. Locks are taken in their order: reservations, then counters by id.
--
-- p_windows are kinds of windows, each once. p_scopes, p_keys, p_window_ns (indexes of their windows, from 1) and p_units name
-- the counters of the batch. p_rows are settlements as settle_and_reserve takes them, of requests that nothing was reserved for or
-- that had several attempts; all others are in columns, as write_reserved takes them. Of reservations the columns are those of
-- change_counters and insert_reserved, and p_limits_of is the JSON that requests_of wants, parsed only when it is needed.
-- Nothing is reserved after p_valid_until.
--
-- Returns JSON, or null when there is nothing to tell: {repeated, remarks, late, decided_at} as settle_and_reserve has them, and
-- statuses likewise, unless there is room for all of it: then counters are columns of all counters of money that
-- something was reserved on: [positions, spent, reserved, in_flight, most, set, granted], the last two null where nothing was
-- set or granted for anybody; and resets are the ends of the windows, in milliseconds since the epoch.
create function settle_and_reserve_columns(
  p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz,
  p_windows text[], p_scopes text[], p_keys text[], p_window_ns integer[], p_units text[], p_rows jsonb,
  -- Settlements.
  s_request_ids text[], s_statuses integer[], s_aborted boolean[], s_input bigint[], s_output bigint[], s_cache_read bigint[],
  s_cache_write_5m bigint[], s_cache_write_1h bigint[], s_costs bigint[], s_upstream_ms double precision[],
  s_upstream_request_ids text[], s_note_ns integer[], s_notes jsonb,
  -- What is asked of each counter.
  c_requests integer[], c_amount bigint[], c_most bigint[], c_tokens bigint[], c_limits bigint[], c_shadow_limits bigint[],
  c_ppms bigint[],
  -- Reservations.
  r_request_ids text[], r_amount bigint[], r_most bigint[], r_tokens bigint[], r_protocols text[], r_principals text[],
  r_users text[], r_teams text[], r_projects text[], r_token_ids text[], r_models text[], r_upstreams text[],
  r_upstream_models text[], r_at integer[], r_first integer[], r_rates integer[], r_last integer[], r_limits text
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_reserves boolean := cardinality(r_request_ids) > 0;
  v_starts timestamptz[];
  v_ids bigint[] := '{}';
  v_written text[];
  -- The counters of what is settled, with what change_counters wants to know.
  v_settled bigint[];
  v_cost bigint[];
  v_used bigint[];
  v_amount bigint[];
  v_most bigint[];
  v_tokens bigint[];
  v_repeated text[] := '{}';
  v_rest jsonb := p_rows;
  v_set bigint[];
  v_granted bigint[];
  v_changed record;
  v_late boolean := false;
  v_made record;
begin
  if cardinality(p_scopes) > 0 then
    v_starts := array(select window_start(k, v_now, p_time_zone) from unnest(p_windows) as k);
    v_ids := find_counters(p_scopes, p_keys, p_window_ns, p_units, p_windows, v_starts, v_now, p_time_zone);
  end if;
  if cardinality(s_request_ids) > 0 then
    select w.written, w.ids, w.cost, w.used, w.amount, w.most, w.tokens
    into v_written, v_settled, v_cost, v_used, v_amount, v_most, v_tokens
    from write_reserved(
      v_now, s_request_ids, s_statuses, s_aborted, s_input, s_output, s_cache_read, s_cache_write_5m, s_cache_write_1h, s_costs,
      s_upstream_ms, s_upstream_request_ids, s_note_ns, s_notes) as w;
    if coalesce(cardinality(v_written), 0) < cardinality(s_request_ids) then
      v_rest := v_rest || unwritten_rows(
        v_written, s_request_ids, s_statuses, s_aborted, s_input, s_output, s_cache_read, s_cache_write_5m,
        s_cache_write_1h, s_costs, s_upstream_ms, s_upstream_request_ids, s_note_ns, s_notes);
    end if;
  end if;
  if v_rest <> '[]' then
    v_repeated := settle_rest(v_now, v_ids, v_settled, v_rest);
  end if;
  if v_reserves then
    perform insert_reserved(
      p_process, v_now, v_ids, r_request_ids, r_amount, r_most, r_tokens, r_protocols, r_principals, r_users, r_teams,
      r_projects, r_token_ids, r_models, r_upstreams, r_upstream_models, r_at, r_first, r_rates, r_last);
    select c.amounts, c.granted into v_set, v_granted
    from changes_of(p_scopes, p_keys, p_window_ns, p_units, p_windows, v_now) as c;
  end if;
  select * into v_changed from change_counters(
    v_settled, v_cost, v_used, v_amount, v_most, v_tokens,
    v_ids, c_requests, c_amount, c_most, c_tokens, c_limits, c_shadow_limits, c_ppms, v_set, v_granted);
  if v_reserves then
    v_late := coalesce(p_valid_until < clock_timestamp(), false);
    if v_late or not v_changed.fits then
      perform take_back(r_request_ids, v_ids, c_requests, c_amount, c_most, c_tokens);
    end if;
    if not v_late and not v_changed.fits then
      select r.remarks, r.statuses into v_made
      from make_reservations(p_process, v_now, p_time_zone, v_ids, v_set, v_granted, requests_of(
        r_request_ids, r_amount, r_most, r_tokens, r_protocols, r_principals, r_users, r_teams, r_projects, r_token_ids,
        r_models, r_upstreams, r_upstream_models, r_limits::jsonb)) as r;
      return json_build_object(
        'repeated', v_repeated, 'remarks', v_made.remarks, 'statuses', coalesce(v_made.statuses, '[]'), 'late', false,
        'decided_at', (extract(epoch from v_now) * 1000)::bigint);
    end if;
  end if;
  if cardinality(v_repeated) = 0 and not v_late and v_changed.positions is null then
    return null;
  end if;
  if v_late then
    return json_build_object('repeated', v_repeated, 'late', true);
  end if;
  return json_build_object(
    'repeated', v_repeated, 'counters', json_build_array(
      v_changed.positions, v_changed.spent, v_changed.reserved, v_changed.in_flight, v_changed.most, v_set, v_granted),
    'resets', array(
      select (extract(epoch from window_end(p_windows[k], v_starts[k], p_time_zone)) * 1000)::bigint
      from generate_subscripts(p_windows, 1) as k));
end $$;

-- What a gateway calls: run_batch for a batch in columns. All settlements count now.
create procedure run_columns(
  p_process uuid, p_now timestamptz, p_time_zone text, p_valid_until timestamptz,
  p_windows text[], p_scopes text[], p_keys text[], p_window_ns integer[], p_units text[], p_rows jsonb,
  -- Settlements.
  s_request_ids text[], s_statuses integer[], s_aborted boolean[], s_input bigint[], s_output bigint[], s_cache_read bigint[],
  s_cache_write_5m bigint[], s_cache_write_1h bigint[], s_costs bigint[], s_upstream_ms double precision[],
  s_upstream_request_ids text[], s_note_ns integer[], s_notes jsonb,
  -- What is asked of each counter.
  c_requests integer[], c_amount bigint[], c_most bigint[], c_tokens bigint[], c_limits bigint[], c_shadow_limits bigint[],
  c_ppms bigint[],
  -- Reservations.
  r_request_ids text[], r_amount bigint[], r_most bigint[], r_tokens bigint[], r_protocols text[], r_principals text[],
  r_users text[], r_teams text[], r_projects text[], r_token_ids text[], r_models text[], r_upstreams text[],
  r_upstream_models text[], r_at integer[], r_first integer[], r_rates integer[], r_last integer[], r_limits text,
  inout answer text
)
language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  answer := settle_and_reserve_columns(
    p_process, p_now, p_time_zone, p_valid_until, p_windows, p_scopes, p_keys, p_window_ns, p_units, p_rows,
    s_request_ids, s_statuses, s_aborted, s_input, s_output, s_cache_read, s_cache_write_5m, s_cache_write_1h,
    s_costs, s_upstream_ms, s_upstream_request_ids, s_note_ns, s_notes, c_requests, c_amount, c_most, c_tokens,
    c_limits, c_shadow_limits, c_ppms, r_request_ids, r_amount, r_most, r_tokens, r_protocols, r_principals,
    r_users, r_teams, r_projects, r_token_ids, r_models, r_upstreams, r_upstream_models, r_at, r_first, r_rates,
    r_last, r_limits);
  commit;
  perform ensure_durable_commit();
  -- A commit waits for the disk only when its transaction wrote something.
  perform pg_logical_emit_message(true, 'appscli', '');
end $$;
