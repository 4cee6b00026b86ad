-- Room on a counter that a process has taken for requests to come, which it places without asking: in the counter's unit. It is
-- part of what is reserved on the counter, of the most, and of the requests in flight. A process that had trouble begins anew with
-- another lease_id; what it had under the one before is returned.
create table reservation_leases (
  lease_id uuid not null,
  counter_id bigint not null,
  process_id uuid not null,
  amount bigint not null,
  most bigint not null,
  requests integer not null,
  primary key (lease_id, counter_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index on reservation_leases (counter_id);

-- Order of locks: reservations, counters by id, leases by counter id.

-- Takes room from counters: p_amounts, p_most and p_requests say how much in the unit of each, p_limits the limit that it has to be
-- within. All of it or nothing for each counter, and only where p_share times as much is left. The answer has a line per counter, in
-- the order given: [whether it was taken, id, until when it may be used or null, spent, reserved, in_flight, most, set, granted,
-- resets_at], times in milliseconds since the epoch.
create function take_leases(
  p_process uuid, p_lease uuid, p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[], p_units text[],
  p_limits bigint[], p_amounts bigint[], p_most bigint[], p_requests integer[], p_share integer
) returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_ids bigint[] := open_counters(p_scopes, p_keys, p_kinds, p_units, v_now, p_time_zone);
  v_set bigint[];
  v_granted bigint[];
  v_taken bigint[];
begin
  perform lock_counters(v_ids);
  -- Whoever changes a limit waits for leases that are being taken, and those that come later see the change.
  perform pg_advisory_xact_lock_shared(7204817102);
  select c.amounts, c.granted into v_set, v_granted
  from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;

  with wanted as (
    select w.*, limit_in_force(w.configured, v_set[w.position], v_granted[w.position]) as lim
    from unnest(v_ids, p_limits, p_amounts, p_most, p_requests) with ordinality
      as w (id, configured, amount, most, requests, position)
  ), taken as (
    update spend_counters s
    set reserved = s.reserved + w.amount, most = s.most + w.most, in_flight = s.in_flight + w.requests
    from wanted w
    where s.id = w.id and (w.lim is null
      or s.spent + s.reserved + p_share * w.amount <= w.lim and s.spent + s.most + p_share * w.most <= w.lim)
    returning s.id, w.amount, w.most, w.requests
  ), leased as (
    insert into reservation_leases as l (lease_id, counter_id, process_id, amount, most, requests)
    select p_lease, t.id, p_process, t.amount, t.most, t.requests from taken t order by t.id
    on conflict (lease_id, counter_id) do update
    set amount = l.amount + excluded.amount, most = l.most + excluded.most, requests = l.requests + excluded.requests
  )
  select coalesce(array_agg(t.id), '{}') into v_taken from taken t;

  return (
    select json_agg(json_build_array(
      s.id = any (v_taken), s.id, (extract(epoch from least(e.window_end, e.grant_end)) * 1000)::bigint,
      s.spent, s.reserved, s.in_flight, s.most, v_set[c.position], v_granted[c.position],
      (extract(epoch from e.window_end) * 1000)::bigint) order by c.position)
    from unnest(v_ids) with ordinality as c (id, position)
    join spend_counters s on s.id = c.id
    cross join lateral (
      select window_end(s.window_kind, s.window_start, p_time_zone) as window_end,
             case when v_granted[c.position] > 0 then (
               select min(g.expires_at) from limit_grants g
               where g.scope = s.scope and g.key = s.key and g.window_kind = s.window_kind and g.unit = s.unit
                 and g.revoked_at is null and g.expires_at > v_now) end as grant_end) as e);
end $$;

-- Gives back so much of some leases, as far as they are there.
create function return_leases(
  p_lease uuid, p_ids bigint[], p_amounts bigint[], p_most bigint[], p_requests integer[]
) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  perform lock_counters(p_ids);
  with back as (
    select r.id, sum(r.amount)::bigint as amount, sum(r.most)::bigint as most, sum(r.requests)::integer as requests
    from unnest(p_ids, p_amounts, p_most, p_requests) as r (id, amount, most, requests) group by r.id
  ), locked as (
    select l.* from reservation_leases l where l.lease_id = p_lease and l.counter_id = any (p_ids)
    order by l.counter_id for update
  ), taken as (
    -- Never more than is there: others may have given some of it away.
    select b.id, least(b.amount, k.amount) as amount, least(b.most, k.most) as most, least(b.requests, k.requests) as requests
    from locked k join back b on b.id = k.counter_id
  ), returned as (
    update reservation_leases l
    set amount = l.amount - t.amount, most = l.most - t.most, requests = l.requests - t.requests
    from taken t
    where l.lease_id = p_lease and l.counter_id = t.id
    returning t.*
  )
  update spend_counters s
  set reserved = s.reserved - r.amount, most = s.most - r.most, in_flight = s.in_flight - r.requests
  from returned r where s.id = r.id;
  delete from reservation_leases l
  where l.lease_id = p_lease and l.counter_id = any (p_ids) and l.amount = 0 and l.most = 0 and l.requests = 0;
end $$;

-- Gives back all leases of some processes, but for one.
create function return_all_leases(p_processes uuid[], p_but uuid) returns void
language plpgsql as $$
declare
  v_ids bigint[];
begin
  select array_agg(distinct l.counter_id) into v_ids
  from reservation_leases l where l.process_id = any (p_processes) and l.lease_id is distinct from p_but;
  if v_ids is null then
    return;
  end if;
  perform lock_counters(v_ids);
  with locked as (
    select l.lease_id, l.counter_id from reservation_leases l
    where l.process_id = any (p_processes) and l.lease_id is distinct from p_but and l.counter_id = any (v_ids)
    order by l.counter_id, l.lease_id for update
  ), gone as (
    delete from reservation_leases l using locked k
    where l.lease_id = k.lease_id and l.counter_id = k.counter_id
    returning l.*
  ), back as (
    select g.counter_id as id, sum(g.amount)::bigint as amount, sum(g.most)::bigint as most, sum(g.requests)::integer as requests
    from gone g group by g.counter_id
  )
  update spend_counters s
  set reserved = s.reserved - b.amount, most = s.most - b.most, in_flight = s.in_flight - b.requests
  from back b where s.id = b.id;
end $$;

-- What a process does about its leases from time to time: it gives back, then takes. As in run_batch, locks end before the disk is
-- written, and the answer is given when all is on the disk.
create procedure keep_leases(
  p_process uuid, p_lease uuid, p_now timestamptz, p_time_zone text,
  p_ids bigint[], p_back bigint[], p_back_most bigint[], p_back_requests integer[],
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[],
  p_limits bigint[], p_amounts bigint[], p_most bigint[], p_requests integer[], p_share integer,
  inout answer text
)
language plpgsql as $$
begin
  if cardinality(p_ids) > 0 then
    perform set_config('synchronous_commit', 'off', true);
    perform return_leases(p_lease, p_ids, p_back, p_back_most, p_back_requests);
    commit;
  end if;
  if cardinality(p_scopes) > 0 then
    perform set_config('synchronous_commit', 'off', true);
    answer := take_leases(
      p_process, p_lease, p_now, p_time_zone, p_scopes, p_keys, p_kinds, p_units, p_limits, p_amounts, p_most, p_requests,
      p_share);
    commit;
  end if;
  perform ensure_durable_commit();
  perform pg_logical_emit_message(true, 'appscli', '');
end $$;

-- Counters that had no room for a request, as they are at one moment: [whether a process that lives has leases there, spent,
-- reserved, in_flight, most, set, granted, resets_at] in the order given. A process is taken for one that gives back while it
-- was heard of within the last 15 seconds.
create function look_for_leases(
  p_now timestamptz, p_time_zone text, p_scopes text[], p_keys text[], p_kinds text[], p_units text[], out told text, out ids bigint[]
)
language plpgsql stable as $$
declare
  v_now timestamptz := coalesce(p_now, now());
  v_set bigint[];
  v_granted bigint[];
begin
  select c.amounts, c.granted into v_set, v_granted
  from limit_changes(p_scopes, p_keys, p_kinds, p_units, v_now) as c;
  select json_agg(json_build_array(
           l.is_leased, coalesce(s.spent, 0), coalesce(s.reserved, 0), coalesce(s.in_flight, 0), coalesce(s.most, 0),
           v_set[c.position], v_granted[c.position],
           (extract(epoch from window_end(c.kind, w.start, p_time_zone)) * 1000)::bigint) order by c.position),
         array_agg(s.id) filter (where l.is_leased)
  into told, ids
  from unnest(p_scopes, p_keys, p_kinds, p_units) with ordinality as c (scope, key, kind, unit, position)
  cross join lateral (select window_start(c.kind, v_now, p_time_zone) as start) as w
  left join spend_counters s
    on s.scope = c.scope and s.key = c.key and s.window_kind = c.kind and s.unit = c.unit and s.window_start = w.start
  cross join lateral (
    select exists (
      select from reservation_leases r join processes p on p.id = r.process_id
      where r.counter_id = s.id and (r.amount > 0 or r.requests > 0) and p.heartbeat_at > v_now - interval '15 seconds')
      as is_leased) as l;
end $$;

-- Asks all processes for their leases on some counters.
create function recall_leases(p_ids bigint[]) returns void
language sql as $$
  select pg_notify('appscli_leases', array_to_string(p_ids[:200], ',')) where cardinality(p_ids) > 0
$$;

-- A limit that is set, granted or taken back is meant for the next request: leases on its counter were taken under another.
create function recall_for_limit() returns trigger
language plpgsql as $$
declare
  v_changed record;
begin
  if tg_op = 'DELETE' then
    v_changed := old;
  else
    v_changed := new;
  end if;
  perform pg_advisory_xact_lock(7204817102);
  perform recall_leases(array(
    select distinct l.counter_id from reservation_leases l join spend_counters s on s.id = l.counter_id
    where s.scope = v_changed.scope and s.key = v_changed.key and s.window_kind = v_changed.window_kind and s.unit = v_changed.unit));
  return null;
end $$;
create trigger recall_leases after insert or update or delete on limit_settings
  for each row execute function recall_for_limit();
create trigger recall_leases after insert or update or delete on limit_grants
  for each row execute function recall_for_limit();
