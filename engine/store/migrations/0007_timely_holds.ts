import type { SchemaMigration } from '../migrate.ts';
import { PLANNED_ONCE } from './0005_plans.ts';

const EXCHANGE = `
-- Everything that waits in a process, in one transaction: settles what is over, then places new reservations, so that what was
-- just given back can be reserved again. Unreserved requests count at p_counted_at,
-- but at most 30 days ago, because counters of long ago are deleted; everything else now. Returns JSON: {repeated: requests
-- that were written before, remarks and statuses as place_reservations has them, decided_at: milliseconds since the epoch}, or null
-- when there is nothing to tell. No reservation is placed after the valid_until of the first request, when nobody waits for it
-- any more and the process may have ended: then late is true.
create or replace function exchange_batch(
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
    array(select unnest(g.counter_ids || g.rate_counter_ids) from unnest(v_gone) as g)
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
    select h.remarks, h.statuses into v_remarks, v_statuses
    from place_reservations(p_process, v_now, p_time_zone, v_ids, v_set, v_granted, p_requests) as h;
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
`;

/** No reservation is placed once nobody waits for it: a statement may lie in a socket while the server stands still. */
export const timelyReservations: SchemaMigration = {
  name: '0007_timely_reservations',
  async up(knex) {
    await knex.raw(EXCHANGE);
  },
};
