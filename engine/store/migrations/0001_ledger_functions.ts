/**
 * Moves money between limits, holds and the ledger, many requests at a time.
 *
 * Order of locks, the same everywhere so that processes never deadlock: reservations, then counters by id. Counters
 * that do not exist yet are inserted in the order of their key before anything is locked.
 * `p_now` replaces the database's clock when it is not null.
 */
export const LEDGER_FUNCTIONS = `
create function window_start(p_kind text, p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select date_trunc(p_kind, p_at, p_time_zone)
$$;

create function window_end(p_kind text, p_start timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select (p_start at time zone p_time_zone + ('1 ' || p_kind)::interval) at time zone p_time_zone
$$;

create function ensure_durable_commit() returns void
language plpgsql as $$
begin
  -- A setting on the function itself would be gone again before the commit it is meant for.
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end $$;

-- Ids of the current windows of some counters, in the order given.
create function open_counters(p_scopes text[], p_keys text[], p_kinds text[], p_now timestamptz, p_time_zone text)
returns bigint[]
language plpgsql set enable_seqscan = off as $$
declare
  v_ids bigint[];
begin
  insert into spend_counters (scope, key, window_kind, window_start)
  select c.scope, c.key, c.kind, window_start(c.kind, p_now, p_time_zone)
  from unnest(p_scopes, p_keys, p_kinds) as c (scope, key, kind)
  where not exists (
    select from spend_counters s
    where s.scope = c.scope and s.key = c.key and s.window_kind = c.kind
      and s.window_start = window_start(c.kind, p_now, p_time_zone))
  order by 1, 2, 3, 4
  on conflict do nothing;

  select array_agg(s.id order by c.position) into v_ids
  from unnest(p_scopes, p_keys, p_kinds) with ordinality as c (scope, key, kind, position)
  join spend_counters s
    on s.scope = c.scope and s.key = c.key and s.window_kind = c.kind
    and s.window_start = window_start(c.kind, p_now, p_time_zone);
  return v_ids;
end $$;

create function lock_counters(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off as $$
begin
  perform from spend_counters where id = any (p_ids) order by id for update;
end $$;

-- Writes the reservations of the requests in p_granted; null means all.
create function insert_reservations(
  p_process uuid, p_now timestamptz, p_ids bigint[], p_requests jsonb, p_granted text[]
) returns void
language plpgsql as $$
begin
  insert into reservations (
    request_id, process_id, reserved_at, amount_nano_usd, counter_ids,
    protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model)
  select r.request_id, p_process, p_now, r.amount_nano_usd,
         array(select p_ids[c] from unnest(r.counters) as c),
         r.protocol, r.principal_id, r."user", r.team, r.project, r.token_id, r.model, r.upstream, r.upstream_model
  from jsonb_to_recordset(p_requests) as r (
    request_id text, amount_nano_usd bigint, counters int[],
    protocol text, principal_id text, "user" text, team text, project text, token_id text,
    model text, upstream text, upstream_model text)
  where p_granted is null or r.request_id = any (p_granted);
end $$;

-- Makes reservations in the order given; returns one row per request that was refused. The counters are locked.
-- A request is {..., counters: positions in p_ids, limits: one per counter or null}.
create function place_reservations(p_process uuid, p_now timestamptz, p_time_zone text, p_ids bigint[], p_requests jsonb)
returns table (
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
    select p_ids[c.counter] as id, sum(r.amount_nano_usd) as total, min(c.most) as least
    from jsonb_to_recordset(p_requests) as r (amount_nano_usd bigint, counters int[], limits bigint[])
    cross join unnest(r.counters, r.limits) as c (counter, most)
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
    select r.request_id, r.amount_nano_usd as amount, r.counters, r.limits
    from jsonb_to_recordset(p_requests) as r (request_id text, amount_nano_usd bigint, counters int[], limits bigint[])
  loop
    v_refused := null;
    for i in 1 .. cardinality(v_request.counters) loop
      v_counter := v_request.counters[i];
      if v_spent[v_counter] + v_reserved[v_counter] + v_request.amount > v_request.limits[i]
        and (v_refused is null or v_resets[v_counter] > v_resets[v_request.counters[v_refused]])
      then
        v_refused := i;
      end if;
    end loop;
    if v_refused is null then
      v_granted := v_granted || v_request.request_id;
      foreach v_counter in array v_request.counters loop
        v_reserved[v_counter] := v_reserved[v_counter] + v_request.amount;
        v_added[v_counter] := v_added[v_counter] + v_request.amount;
      end loop;
    else
      v_counter := v_request.counters[v_refused];
      refused_request := v_request.request_id;
      refused_claim := v_refused - 1;
      spent_nano_usd := v_spent[v_counter];
      reserved_nano_usd := v_reserved[v_counter];
      resets_at_ms := extract(epoch from v_resets[v_counter]) * 1000;
      return next;
    end if;
  end loop;

  update spend_counters s set reserved_nano_usd = s.reserved_nano_usd + a.added
  from unnest(p_ids, v_added) as a (id, added)
  where s.id = a.id and a.added > 0;

  perform insert_reservations(p_process, p_now, p_ids, p_requests, v_granted);
end $$;

-- Writes one ledger row per request, releases its reservation and adds its true cost to the counters of the reservation, which are
-- those of the window it was reserved in. Returns the requests that have been written before. The counters are locked.
-- An unreserved request says who asked for what, and names its counters like one of place_reservations. A cost of null means the amount that was reserved.
create function write_ledger(p_now timestamptz, p_ids bigint[], p_gone reservations[], p_rows jsonb)
returns setof text
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return query
  with incoming as (
    select distinct on (r.request_id) r.*
    from jsonb_to_recordset(p_rows) as r (
      request_id text, protocol text, principal_id text, "user" text, team text, project text, token_id text,
      model text, upstream text, upstream_model text, status integer, aborted boolean, reserved boolean,
      input bigint, output bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint,
      cost_nano_usd bigint, provenance jsonb, counters int[])
  ), gone as (
    select g.* from unnest(p_gone) as g
  ), written as (
    insert into ledger (
      request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
      status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
      cost_nano_usd, provenance, counter_ids, forwarded_at, settled_at)
    select i.request_id, coalesce(g.protocol, i.protocol), coalesce(g.principal_id, i.principal_id),
           coalesce(g.user_email, i."user"), coalesce(g.team, i.team), coalesce(g.project, i.project),
           coalesce(g.token_id, i.token_id), coalesce(g.model, i.model), coalesce(g.upstream, i.upstream),
           coalesce(g.upstream_model, i.upstream_model), i.status, i.aborted, i.input, i.output, i.cache_read, i.cache_write_5m, i.cache_write_1h,
           coalesce(i.cost_nano_usd, g.amount_nano_usd, 0), i.provenance,
           coalesce(g.counter_ids, array(select p_ids[c] from unnest(i.counters) as c)),
           coalesce(g.reserved_at, p_now), p_now
    from incoming i left join gone g on g.request_id = i.request_id
    -- The counters are locked: of two attempts to write the same unreserved request the second sees the first.
    where g.request_id is not null or not i.reserved and not exists (
      select from ledger l where l.request_id = i.request_id and l.settled_at > p_now - interval '2 days')
    returning request_id, cost_nano_usd, counter_ids
  ), moved as (
    select c.id, sum(w.cost_nano_usd)::bigint as spent, sum(coalesce(g.amount_nano_usd, 0))::bigint as released
    from written w left join gone g on g.request_id = w.request_id cross join unnest(w.counter_ids) as c (id)
    group by c.id
  ), updated as (
    update spend_counters s
    set spent_nano_usd = s.spent_nano_usd + m.spent, reserved_nano_usd = s.reserved_nano_usd - m.released
    from moved m where s.id = m.id
  )
  select i.request_id from incoming i where not exists (select from written w where w.request_id = i.request_id);
end $$;

-- Everything that waits in a process, in one transaction: settles what is over, then places new reservations, so that what was
-- just given back can be reserved again. One commit and one round trip serve both.
create function exchange_batch(
  p_process uuid, p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[],
  p_rows jsonb, p_requests jsonb
) returns table (
  repeated_request text, refused_request text, refused_claim integer,
  spent_nano_usd double precision, reserved_nano_usd double precision, resets_at_ms double precision
)
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, now());
  v_ids bigint[] := '{}';
  v_gone reservations[] := '{}';
begin
  perform ensure_durable_commit();
  if cardinality(p_scopes) > 0 then
    v_ids := open_counters(p_scopes, p_keys, p_kinds, v_now, p_time_zone);
  end if;
  if p_rows <> '[]' then
    with gone as (
      delete from reservations
      where request_id = any (array(select r.request_id from jsonb_to_recordset(p_rows) as r (request_id text)))
      returning reservations
    ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
  end if;
  perform lock_counters(array(select unnest(g.counter_ids) from unnest(v_gone) as g) || v_ids);
  if p_rows <> '[]' then
    return query
    select r, null::text, null::integer, null::double precision, null::double precision, null::double precision
    from write_ledger(v_now, v_ids, v_gone, p_rows) as r;
  end if;
  if p_requests <> '[]' then
    return query select null::text, h.* from place_reservations(p_process, v_now, p_time_zone, v_ids, p_requests) as h;
  end if;
end $$;

-- Gives holds back without a trace, for requests that never left.
create function release_batch(p_request_ids text[]) returns void
language plpgsql set enable_seqscan = off as $$
declare
  v_gone reservations[];
begin
  with gone as (
    delete from reservations where request_id = any (p_request_ids) returning reservations
  ) select coalesce(array_agg(gone.reservations), '{}') into v_gone from gone;
  perform lock_counters(array(select unnest(g.counter_ids) from unnest(v_gone) as g));
  with moved as (
    select c.id, sum(g.amount_nano_usd)::bigint as released
    from unnest(v_gone) as g cross join unnest(g.counter_ids) as c (id)
    group by c.id
  )
  update spend_counters s set reserved_nano_usd = s.reserved_nano_usd - m.released from moved m where s.id = m.id;
end $$;

-- Turns reservations nobody will settle into ledger rows at the amount that was reserved: those of processes known to be
-- dead, and those of processes that have not said for p_patience that they live. Returns how many.
create function recover_orphans(p_now timestamptz, p_dead uuid[], p_patience interval, p_server_started timestamptz)
returns integer
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
  perform lock_counters(array(select unnest(g.counter_ids) from unnest(v_gone) as g));

  insert into ledger (
    request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model,
    status, aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
    cost_nano_usd, provenance, counter_ids, forwarded_at, settled_at)
  select g.request_id, g.protocol, g.principal_id, g.user_email, g.team, g.project, g.token_id, g.model, g.upstream,
         g.upstream_model, null, true, 0, 0, 0, 0, 0, g.amount_nano_usd,
         '{"input":"estimate","output":"estimate","cache_read":"estimate","cache_write_5m":"estimate","cache_write_1h":"estimate","cost":"estimate"}',
         g.counter_ids, g.reserved_at, v_now
  from unnest(v_gone) as g;

  with moved as (
    select c.id, sum(g.amount_nano_usd)::bigint as amount
    from unnest(v_gone) as g cross join unnest(g.counter_ids) as c (id)
    group by c.id
  )
  update spend_counters s
  set spent_nano_usd = s.spent_nano_usd + m.amount, reserved_nano_usd = s.reserved_nano_usd - m.amount
  from moved m where s.id = m.id;

  delete from processes p
  where (p.id = any (p_dead) or p_server_started < v_lapse and p.heartbeat_at < v_lapse)
    and not exists (select from reservations r where r.process_id = p.id);
  return cardinality(v_gone);
end $$;
`;
