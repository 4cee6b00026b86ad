-- Months of usage are made and dropped with those of the ledger.

create or replace function ensure_partitions(p_now timestamptz) returns boolean
language plpgsql as $$
declare
  v_now timestamptz := coalesce(p_now, now());
begin
  perform set_config('lock_timeout', '1s', true);
  perform pg_advisory_xact_lock(hashtext('appscli.ensure_partitions'));
  for v_months in 0 .. 2 loop
    perform ensure_partition('ledger', 'settled_at', v_now + make_interval(months => v_months));
    perform ensure_partition('audit_log', 'at', v_now + make_interval(months => v_months));
    perform ensure_partition('usage_hours', 'start', v_now + make_interval(months => v_months));
    perform ensure_partition('usage_days', 'start', v_now + make_interval(months => v_months));
  end loop;
  return true;
exception when lock_not_available then
  -- A long report is reading; the default partition takes the rows meanwhile.
  return false;
end $$;

-- The monthly partitions of a table, and when each begins and ends.
create function months_of(p_table text) returns table (name text, since timestamptz, until timestamptz)
language sql stable as $$
  select c.relname::text, m.month at time zone 'UTC', (m.month + interval '1 month') at time zone 'UTC'
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  cross join lateral (select to_date(right(c.relname, 7), 'YYYY_MM')::timestamp as month) as m
  where i.inhparent = to_regclass(quote_ident(p_table)) and c.relname ~ ('^' || p_table || '_[0-9]{4}_[0-9]{2}$')
$$;

-- Makes the sums what the ledger comes to without what was settled from p_since until p_until, which is about to be dropped. Of
-- the hours before, only what was settled later is left, which is little.
create function forget_usage(p_since timestamptz, p_until timestamptz) returns void
language plpgsql as $$
declare
  v_summed_from timestamptz;
  v_last timestamptz;
  v_name text;
begin
  perform pg_advisory_xact_lock(hashtext('appscli.usage'));
  select summed_from into v_summed_from from usage_state;
  select greatest(
    (select max(settled_until) from usage_hours where start < p_until),
    (select max(settled_at) from usage_waiting where hour < p_until)) into v_last;
  for v_name in
    select name from months_of('usage_hours') where until <= p_until
    union all select name from months_of('usage_days') where until <= p_until
  loop
    execute format('drop table %I', v_name);
  end loop;
  delete from usage_hours where start < p_until;
  delete from usage_days where start < p_until;
  delete from usage_waiting where settled_at >= p_since and settled_at < p_until;
  perform wait_again('-infinity', p_until, greatest(v_summed_from, p_until), v_last + interval '1 microsecond');
  perform wait_again('-infinity', p_until, v_summed_from, p_since);
end $$;

-- As in functions/partitions.sql; and what is dropped of the ledger is dropped of the sums.
create or replace function drop_oldest_partition(p_table text, p_months integer, p_now timestamptz)
returns table (dropped text, rows_before timestamptz)
language plpgsql as $$
declare
  v_month timestamp := date_trunc('month', coalesce(p_now, now()) at time zone 'UTC');
  v_before timestamptz := (v_month - make_interval(months => p_months)) at time zone 'UTC';
  v_since timestamptz;
begin
  if not pg_try_advisory_xact_lock(hashtext('appscli.drop_oldest_partition')) then
    return;
  end if;
  perform set_config('lock_timeout', '250ms', true);
  select m.name, m.since, m.until into dropped, v_since, rows_before
  from months_of(p_table) as m
  where m.until <= v_before
  order by m.until
  limit 1;
  if dropped is null then
    return;
  end if;
  if p_table = 'ledger' then
    perform forget_usage(v_since, rows_before);
  end if;
  execute format('drop table %I', dropped);
  if p_table = 'ledger' then
    insert into ledger_bounds (dropped_before) values (rows_before)
    on conflict (only_row) do update set dropped_before = greatest(ledger_bounds.dropped_before, excluded.dropped_before);
  end if;
  return next;
exception when lock_not_available then
  dropped := null;
  return next;
end $$;

select ensure_partitions(null);
select ensure_partition('usage_hours', 'start', since), ensure_partition('usage_days', 'start', since) from months_of('ledger');
