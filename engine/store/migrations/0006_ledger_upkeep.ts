import type { SchemaMigration } from '../migrate.ts';

const BOUNDS = `
-- What the ledger no longer holds: rows settled before this moment were dropped. No row: nothing was.
create table ledger_bounds (
  only_row boolean primary key default true check (only_row),
  dropped_before timestamptz not null
);
`;

/*
 * Detaching a partition would lock the parent as much as dropping it does: while there is a default partition PostgreSQL
 * cannot do it concurrently. So whoever drops waits a quarter of a second for the lock, and otherwise tries again later:
 * requests that settle stand behind a lock that is waited for.
 */
const RETENTION = `
-- Drops the oldest monthly partition of a table that ended p_months before this month began, or earlier. Says which and
-- until when it reserved rows; no row when there is none, or when another process does it at this moment. A table that is being read
-- for long gives a row without a name.
create function drop_oldest_partition(p_table text, p_months integer, p_now timestamptz)
returns table (dropped text, held_until timestamptz)
language plpgsql as $$
declare
  v_month timestamp := date_trunc('month', coalesce(p_now, now()) at time zone 'UTC');
  v_before timestamptz := (v_month - make_interval(months => p_months)) at time zone 'UTC';
begin
  if not pg_try_advisory_xact_lock(hashtext('appscli.drop_oldest_partition')) then
    return;
  end if;
  perform set_config('lock_timeout', '250ms', true);
  select p.name, p.until into dropped, held_until
  from (
    select c.relname::text as name,
           (to_date(right(c.relname, 7), 'YYYY_MM')::timestamp + interval '1 month') at time zone 'UTC' as until
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass(quote_ident(p_table)) and c.relname ~ ('^' || p_table || '_[0-9]{4}_[0-9]{2}$')
  ) as p
  where p.until <= v_before
  order by p.until
  limit 1;
  if dropped is null then
    return;
  end if;
  execute format('drop table %I', dropped);
  if p_table = 'ledger' then
    insert into ledger_bounds (dropped_before) values (held_until)
    on conflict (only_row) do update set dropped_before = greatest(ledger_bounds.dropped_before, excluded.dropped_before);
  end if;
  return next;
exception when lock_not_available then
  dropped := null;
  return next;
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
`;

const ADJUSTMENTS = `
-- Adds an adjusting row to some requests that were settled from p_from to p_to, and the difference to their counters. It
-- has the times of the request, so that it counts in the same window, day and month, and is dropped with it. A row of p_rows is
-- {request_id, was: what the rows of the request came to, cost: what they shall come to}; a request whose rows come to
-- something else by now is left alone. p_change is the row of admin_changes that tells the sum, made when it is null.
-- Locks counters by id, as everything does that moves money.
create function adjust_batch(
  p_from timestamptz, p_to timestamptz, p_rows jsonb, p_change bigint,
  p_actor_kind text, p_actor text, p_subject text, p_now timestamptz
) returns table (change bigint, adjusted bigint, difference numeric)
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, now());
  v_due ledger[];
begin
  perform ensure_durable_commit();
  -- Each of two runs at once would add the difference.
  perform pg_advisory_xact_lock(hashtext('appscli.adjust_ledger'));

  with wanted as (
    select r.request_id, r.was, r.cost
    from jsonb_to_recordset(p_rows) as r (request_id text, was bigint, cost bigint)
  ), known as (
    select w.request_id, w.cost, min(w.was) as was, sum(l.cost_nano_usd) as now_at
    from wanted w join ledger l on l.request_id = w.request_id and l.settled_at >= p_from and l.settled_at < p_to
    group by 1, 2
    having count(*) filter (where l.kind = 'request') = 1
  ), due as (
    select distinct on (l.request_id) l as original, k.cost - k.was as difference, k.was
    from known k join ledger l
      on l.request_id = k.request_id and l.kind = 'request' and l.settled_at >= p_from and l.settled_at < p_to
    where k.now_at = k.was and k.cost <> k.was
  )
  select coalesce(array_agg(
      jsonb_populate_record(d.original, jsonb_build_object(
        'kind', 'adjustment', 'input_tokens', 0, 'output_tokens', 0, 'cache_read_tokens', 0,
        'cache_write_5m_tokens', 0, 'cache_write_1h_tokens', 0, 'server_tools', null, 'cost_nano_usd', d.difference,
        'provenance', jsonb_build_object(
          'cost', 'repriced', 'of', (d.original).provenance -> 'cost', 'was_nano_usd', d.was, 'at', v_now, 'by', p_actor)))),
    '{}')
  into v_due from due d;

  perform lock_counters(array(select unnest(g.counter_ids) from unnest(v_due) as g));
  insert into ledger select g.* from unnest(v_due) as g;
  with moved as (
    select c.id, sum(g.cost_nano_usd)::bigint as amount
    from unnest(v_due) as g cross join unnest(g.counter_ids) as c (id)
    group by c.id
  )
  update spend_counters s set spent = s.spent + m.amount from moved m where s.id = m.id;

  select count(*), coalesce(sum(g.cost_nano_usd), 0) into adjusted, difference from unnest(v_due) as g;
  change := p_change;
  if adjusted > 0 then
    if change is null then
      insert into admin_changes (at, actor_kind, actor, action, subject, after)
      values (v_now, p_actor_kind, p_actor, 'ledger.reprice', p_subject,
        jsonb_build_object('requests', adjusted, 'difference_usd', trim_scale(difference / 1000000000)::text))
      returning id into change;
    else
      update admin_changes c set after = jsonb_build_object(
        'requests', (c.after ->> 'requests')::bigint + adjusted,
        'difference_usd', trim_scale((c.after ->> 'difference_usd')::numeric + difference / 1000000000)::text)
      where c.id = change;
    end if;
  end if;
  return next;
end $$;
`;

/** Dropping old months, and rows that put a price right. */
export const ledgerUpkeep: SchemaMigration = {
  name: '0006_ledger_upkeep',
  async up(knex) {
    for (const statements of [BOUNDS, RETENTION, ADJUSTMENTS]) await knex.raw(statements);
  },
};
