-- Monthly partitions of ledger and audit_log, made ahead. An insert never depends on them: the default partition takes what has
-- no month yet, and making the month later moves it out of there.

create function ensure_partition(p_table text, p_column text, p_month timestamptz) returns void
language plpgsql as $$
declare
  v_from timestamptz := date_trunc('month', p_month, 'UTC');
  v_to timestamptz := (v_from at time zone 'UTC' + interval '1 month') at time zone 'UTC';
  v_name text := format('%s_%s', p_table, to_char(v_from at time zone 'UTC', 'YYYY_MM'));
  v_default text := p_table || '_default';
begin
  if to_regclass(quote_ident(v_name)) is not null then
    return;
  end if;
  execute format('lock table %I in access exclusive mode', v_default);
  execute format('create table %I (like %I including defaults including constraints)', v_name, p_table);
  execute format(
    'with moved as (delete from %1$I where %2$I >= %3$L and %2$I < %4$L returning *) insert into %5$I select * from moved',
    v_default, p_column, v_from, v_to, v_name);
  -- Attaching locks the parent less than creating a partition in place would.
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', p_table, v_name, v_from, v_to);
end $$;

create function ensure_partitions(p_now timestamptz) returns boolean
language plpgsql as $$
declare
  v_now timestamptz := coalesce(p_now, now());
begin
  perform set_config('lock_timeout', '1s', true);
  perform pg_advisory_xact_lock(hashtext('appscli.ensure_partitions'));
  for v_months in 0 .. 2 loop
    perform ensure_partition('ledger', 'settled_at', v_now + make_interval(months => v_months));
    perform ensure_partition('audit_log', 'at', v_now + make_interval(months => v_months));
  end loop;
  return true;
exception when lock_not_available then
  -- A long report is reading; the default partition takes the rows meanwhile.
  return false;
end $$;

-- Drops the oldest monthly partition of a table that ended p_months before this month began, or earlier. Tells its name, and
-- before when its rows were; no row when there is none, or when another process does it at this moment; a row without a name
-- when the table is being read for long.
--
-- Detaching a partition would lock the parent as much as dropping it does: while there is a default partition PostgreSQL
-- cannot do it concurrently. So this waits a quarter of a second for the lock, and otherwise the caller tries again later:
-- requests that settle stand behind a lock that is waited for.
create function drop_oldest_partition(p_table text, p_months integer, p_now timestamptz)
returns table (dropped text, rows_before timestamptz)
language plpgsql as $$
declare
  v_month timestamp := date_trunc('month', coalesce(p_now, now()) at time zone 'UTC');
  v_before timestamptz := (v_month - make_interval(months => p_months)) at time zone 'UTC';
begin
  if not pg_try_advisory_xact_lock(hashtext('appscli.drop_oldest_partition')) then
    return;
  end if;
  perform set_config('lock_timeout', '250ms', true);
  select p.name, p.until into dropped, rows_before
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
    insert into ledger_bounds (dropped_before) values (rows_before)
    on conflict (only_row) do update set dropped_before = greatest(ledger_bounds.dropped_before, excluded.dropped_before);
  end if;
  return next;
exception when lock_not_available then
  dropped := null;
  return next;
end $$;

select ensure_partitions(null);
