import type { SchemaMigration } from '../migrate.ts';

/*
 * The signature stays as it was, so that a process of the version before goes on working: it never asks for what is new.
 */
const PLACE_RESERVATIONS = `
-- Makes reservations in the order given; returns one row per request that was refused. The counters are locked.
-- A request is {..., counters: positions in p_ids, each once, limits: one per counter or null, shadow_limits: like limits, or
-- absent}. A limit of shadow_limits refuses nothing: a request that was granted in spite of it has a row, in which
-- refused_claim counts on from the number of counters.
create or replace function place_reservations(
  p_process uuid, p_now timestamptz, p_time_zone text, p_ids bigint[], p_requests jsonb
) returns table (
  refused_request text, refused_claim integer,
  spent_nano_usd double precision, reserved_nano_usd double precision, resets_at_ms double precision
)
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_touched bigint[];
  v_totals bigint[];
  v_all_fit boolean;
  v_spent bigint[];
  v_reserved bigint[];
  v_added bigint[];
  v_resets timestamptz[];
  v_granted text[] := '{}';
  v_request record;
  v_refused integer;
  v_counter integer;
begin
  -- Nearly always there is room for all of them together, and then nobody has to be decided by himself.
  select array_agg(t.id), array_agg(t.total::bigint),
         bool_and(t.least is null or s.spent_nano_usd + s.reserved_nano_usd + t.total <= t.least)
  into v_touched, v_totals, v_all_fit
  from (
    select p_ids[c.counter] as id, sum(r.amount_nano_usd) as total, min(least(c.most, c.shadow)) as least
    from jsonb_to_recordset(p_requests) as r (
      amount_nano_usd bigint, counters int[], limits bigint[], shadow_limits bigint[])
    cross join unnest(r.counters, r.limits, r.shadow_limits) as c (counter, most, shadow)
    group by 1
  ) as t join spend_counters s on s.id = t.id;
  if coalesce(v_all_fit, true) then
    update spend_counters s set reserved_nano_usd = s.reserved_nano_usd + t.total
    from unnest(v_touched, v_totals) as t (id, total)
    where s.id = t.id and t.total > 0;
    perform insert_reservations(p_process, p_now, p_ids, p_requests, null);
    return;
  end if;

  select array_agg(s.spent_nano_usd order by i.position), array_agg(s.reserved_nano_usd order by i.position),
         array_agg(0 order by i.position),
         array_agg(window_end(s.window_kind, s.window_start, p_time_zone) order by i.position)
  into v_spent, v_reserved, v_added, v_resets
  from unnest(p_ids) with ordinality as i (id, position) join spend_counters s on s.id = i.id;

  for v_request in
    select r.request_id, r.amount_nano_usd as amount, r.counters, r.limits, r.shadow_limits
    from jsonb_to_recordset(p_requests) as r (
      request_id text, amount_nano_usd bigint, counters int[], limits bigint[], shadow_limits bigint[])
  loop
    refused_request := v_request.request_id;
    v_refused := null;
    for i in 1 .. cardinality(v_request.counters) loop
      v_counter := v_request.counters[i];
      if v_spent[v_counter] + v_reserved[v_counter] + v_request.amount > v_request.limits[i]
        and (v_refused is null or v_resets[v_counter] > v_resets[v_request.counters[v_refused]])
      then
        v_refused := i;
      end if;
    end loop;
    if v_refused is not null then
      v_counter := v_request.counters[v_refused];
      refused_claim := v_refused - 1;
      spent_nano_usd := v_spent[v_counter];
      reserved_nano_usd := v_reserved[v_counter];
      resets_at_ms := extract(epoch from v_resets[v_counter]) * 1000;
      return next;
      continue;
    end if;
    v_granted := v_granted || v_request.request_id;
    for i in 1 .. cardinality(v_request.counters) loop
      v_counter := v_request.counters[i];
      if v_spent[v_counter] + v_reserved[v_counter] + v_request.amount > v_request.shadow_limits[i] then
        refused_claim := cardinality(v_request.counters) + i - 1;
        spent_nano_usd := v_spent[v_counter];
        reserved_nano_usd := v_reserved[v_counter];
        resets_at_ms := extract(epoch from v_resets[v_counter]) * 1000;
        return next;
      end if;
      v_reserved[v_counter] := v_reserved[v_counter] + v_request.amount;
      v_added[v_counter] := v_added[v_counter] + v_request.amount;
    end loop;
  end loop;

  update spend_counters s set reserved_nano_usd = s.reserved_nano_usd + a.added
  from unnest(p_ids, v_added) as a (id, added)
  where s.id = a.id and a.added > 0;

  perform insert_reservations(p_process, p_now, p_ids, p_requests, v_granted);
end $$;
`;

/** Limits that are reported and never refuse. */
export const shadowLimits: SchemaMigration = {
  name: '0002_shadow_limits',
  async up(knex) {
    await knex.raw(PLACE_RESERVATIONS);
  },
};
