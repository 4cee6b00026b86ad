import { PLANNED_ONCE } from './0005_plans.ts';

/** What a gateway asks of the ledger in one statement. */
export const EXCHANGE_FUNCTIONS = `
-- Everything that waits in a process, in one transaction: settles what is over, then places new reservations, so that what was
-- just given back can be reserved again. Unreserved requests count at p_counted_at,
-- but at most 30 days ago, because counters of long ago are deleted; everything else now. Returns JSON: {repeated: requests
-- that were written before, remarks and statuses as place_reservations has them, decided_at: milliseconds since the epoch}, or null
-- when there is nothing to tell.
create function exchange_batch(
  p_process uuid, p_now timestamptz, p_counted_at timestamptz, p_time_zone text,
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[], p_rows jsonb, p_requests jsonb
) returns text
language plpgsql ${PLANNED_ONCE} as $$
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
    array(select unnest(g.counter_ids || g.rate_counter_ids) from unnest(v_gone) as g)
    || array(select unnest(e.counter_ids) from unnest(v_estimates) as e) || v_ids);
  if p_rows <> '[]' then
    v_repeated := array(select write_ledger(v_now, v_counted_at, v_ids, v_gone, p_rows));
    if cardinality(v_estimates) > 0 then
      v_repeated := array(select unnest(v_repeated) except select correct_estimates(v_now, v_estimates, p_rows));
    end if;
  end if;
  if p_requests <> '[]' then
    select c.amounts, c.granted into v_set, v_granted
    from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;
    select h.remarks, h.statuses into v_remarks, v_statuses
    from place_reservations(p_process, v_now, p_time_zone, v_ids, v_set, v_granted, p_requests) as h;
  end if;
  if coalesce(cardinality(v_repeated), 0) = 0 and coalesce(v_remarks, '[]') = '[]' and v_statuses is null then
    return null;
  end if;
  return json_build_object(
    'repeated', coalesce(v_repeated, '{}'), 'remarks', coalesce(v_remarks, '[]'), 'statuses', coalesce(v_statuses, '[]'),
    'decided_at', (extract(epoch from v_now) * 1000)::bigint);
end $$;

-- What a gateway calls. The locks of exchange_batch end with its commit, and nobody waits for them while the disk is
-- written: a counter that everybody shares would otherwise allow one batch per write, whoever it comes from. The answer is
-- given when all of it is on the disk, with everything that was committed before and may have decided it.
create procedure exchange(
  p_process uuid, p_now timestamptz, p_counted_at timestamptz, p_time_zone text,
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[], p_rows jsonb, p_requests jsonb, inout answer text
)
language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  answer := exchange_batch(
    p_process, p_now, p_counted_at, p_time_zone, p_scopes, p_keys, p_kinds, p_units, p_rows, p_requests);
  commit;
  perform ensure_durable_commit();
  -- A commit waits for the disk only when its transaction wrote something.
  perform pg_logical_emit_message(true, 'appscli', '');
end $$;

-- Some counters of money as they stand, in the order given, as JSON: [spent, reserved, in_flight, most, set, granted, resets_at_ms].
create function read_statuses(
  p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[], p_units text[]
) returns text
language plpgsql stable ${PLANNED_ONCE} as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_set bigint[];
  v_granted bigint[];
begin
  select c.amounts, c.granted into v_set, v_granted
  from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;
  return (
    select json_agg(json_build_array(
      coalesce(s.spent, 0), coalesce(s.reserved, 0), coalesce(s.in_flight, 0), coalesce(s.most, 0),
      v_set[c.position], v_granted[c.position],
      (extract(epoch from window_end(c.kind, w.start, p_time_zone)) * 1000)::bigint) order by c.position)
    from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
    cross join lateral (select window_start(c.kind, v_now, p_time_zone) as start) as w
    left join spend_counters s
      on s.scope = c.scope and s.key = c.key and s.window_kind = c.kind and s.unit = c.unit and s.window_start = w.start);
end $$;
`;
