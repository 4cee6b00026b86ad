-- The database itself: its identity, its monthly partitions, and two roles. One role owns the tables and migrates. Gateways run as the
-- other, which can neither change tables nor rewrite the ledger and audit log. The owner may also run gateways.

-- Identity of the database, independent of address and name; copies and restored backups share it.
create table database_identity (
  only_row boolean primary key default true check (only_row),
  id uuid not null default gen_random_uuid()
);
insert into database_identity default values;

-- Raises if this is not the expected database. It has its own SQLSTATE, because the data is not wrong.
create function is_database(p_id uuid) returns boolean
language plpgsql as $$
begin
  if not exists (select from database_identity where id = p_id) then
    raise exception 'this is another database than %', p_id using errcode = 'GW001';
  end if;
  return true;
end $$;

-- For functions that change money: makes their commit durable, regardless of the default of the server.
create function ensure_durable_commit() returns void
language plpgsql as $$
begin
 -- A setting of the function itself would end before the commit.
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end $$;

-- Privileges that a gateway needs on each table, view and sequence. For the first lines, other roles than the owner get no more.
create function needed_rights() returns table (relation regclass, rights text[])
language sql stable as $$
  select c.oid::regclass, case
      when c.relkind = 'S' then '{usage}'
      when c.relkind = 'v' or c.relname in ('schema_migrations', 'ledger_bounds') then '{select}'
      when c.relname in ('ledger', 'audit_log', 'admin_changes', 'database_identity') then '{select,insert}'
      else '{select,insert,update,delete}'
    end::text[]
  from pg_class c
  where c.relnamespace = (select l.relnamespace from pg_class l where l.oid = 'ledger'::regclass)
    and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
   -- The sequence of an identity column needs no privilege.
    and not (c.relkind = 'S' and exists (select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype = 'i'))
$$;

-- Revokes further default privileges on these tables, except from the owner. Partitions are written through their table only.
create function close_tables() returns void
language plpgsql as $$
declare
  v_one record;
begin
  for v_one in
    select c.oid::regclass as relation, a.privilege_type as privilege,
           case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as grantee
    from pg_class c cross join lateral aclexplode(c.relacl) as a left join needed_rights() as n on n.relation = c.oid
    where c.relnamespace = (select l.relnamespace from pg_class l where l.oid = 'ledger'::regclass)
      and c.relkind in ('r', 'p') and a.grantee <> c.relowner
      and a.privilege_type in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
      and lower(a.privilege_type) <> all (coalesce(n.rights, '{}'))
  loop
    execute format('revoke %s on %s from %s cascade', v_one.privilege, v_one.relation, v_one.grantee);
  end loop;
end $$;

-- Whether the connected role has the privileges of the owner.
create function is_owner() returns boolean
language sql stable as $$
  select pg_has_role(session_user, c.relowner, 'usage') from pg_class c where c.oid = 'ledger'::regclass
$$;

-- Runs after every migration: sets the privileges, and the search_path of security definer functions to the schema of the tables.
create function secure_schema() returns void
language plpgsql as $$
declare
  v_path text;
  v_function regprocedure;
begin
  select string_agg(quote_ident(s.name), ', ' order by s.place) into v_path
  from unnest(current_schemas(false)) with ordinality as s (name, place)
  where s.place = 1 or not has_schema_privilege('public', s.name, 'create');
  for v_function in
    select p.oid::regprocedure from pg_proc p where p.pronamespace = current_schema()::regnamespace and p.prosecdef
  loop
    execute format('alter function %s set search_path = %s, pg_temp', v_function, v_path);
  end loop;
  perform close_tables();
end $$;

-- Creates monthly partitions of the ledger, its sums and audit_log in advance. Inserts do not depend on them: the default partition takes
-- rows without a month, and the later creation of the month moves them.

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
  execute format('create table %I (like %I including defaults including constraints including compression)', v_name, p_table);
  execute format(
    'with moved as (delete from %1$I where %2$I >= %3$L and %2$I < %4$L returning *) insert into %5$I select * from moved',
    v_default, p_column, v_from, v_to, v_name);
 -- Attaching takes a weaker lock on the parent than creating a partition in place.
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', p_table, v_name, v_from, v_to);
end $$;

-- Called by gateways of both roles. Only the owner can choose the time.
create function make_months(p_now timestamptz) returns boolean
language plpgsql security definer as $$
declare
  v_now timestamptz := coalesce(case when is_owner() then p_now end, now());
begin
  perform set_config('lock_timeout', '1s', true);
  perform pg_advisory_xact_lock(hashtext('appscli.ensure_partitions'));
  for v_months in 0 .. 2 loop
    perform ensure_partition('ledger', 'settled_at', v_now + make_interval(months => v_months));
    perform ensure_partition('audit_log', 'at', v_now + make_interval(months => v_months));
    perform ensure_partition('usage_hours', 'start', v_now + make_interval(months => v_months));
    perform ensure_partition('usage_days', 'start', v_now + make_interval(months => v_months));
  end loop;
  perform close_tables();
  return true;
exception when lock_not_available then
 -- A long report holds a lock; the default partition takes the rows meanwhile.
  return false;
end $$;

-- The monthly partitions of a table, with start and end.
create function months_of(p_table text) returns table (name text, since timestamptz, until timestamptz)
language sql stable as $$
  select c.relname::text, m.month at time zone 'UTC', (m.month + interval '1 month') at time zone 'UTC'
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  cross join lateral (select to_date(right(c.relname, 7), 'YYYY_MM')::timestamp as month) as m
  where i.inhparent = to_regclass(quote_ident(p_table)) and c.relname ~ ('^' || p_table || '_[0-9]{4}_[0-9]{2}$')
$$;

-- Recomputes the sums without the lines settled from p_since until p_until, which are about to be dropped. Of earlier hours, only the
-- few lines settled later are left.
create function forget_usage(p_since timestamptz, p_until timestamptz) returns void
language plpgsql as $$
declare
  v_last timestamptz;
  v_name text;
begin
  perform pg_advisory_xact_lock(hashtext('appscli.usage'));
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
  perform wait_again('-infinity', p_until, p_until, v_last + interval '1 microsecond');
  perform wait_again('-infinity', p_until, '-infinity', p_since);
end $$;

-- Drops the oldest monthly partition that ended at least p_months before this month, and its part of the sums. Returns its name and end.
-- No row: there is none, or another process is dropping it. A row without a name: a long query holds a lock.
--
-- With a default partition, PostgreSQL cannot detach concurrently, so detaching locks the parent like dropping. This waits 0.25 seconds
-- for the lock, because settling requests queue behind it; then the caller retries later.
--
-- Only the owner can choose the time; other roles keep at least two months.
create function drop_oldest_month(p_table text, p_months integer, p_now timestamptz)
returns table (dropped text, rows_before timestamptz)
language plpgsql security definer as $$
declare
  v_now timestamptz := coalesce(case when is_owner() then p_now end, now());
  v_months integer := case when is_owner() then p_months else greatest(p_months, 2) end;
  v_before timestamptz := (date_trunc('month', v_now at time zone 'UTC') - make_interval(months => v_months)) at time zone 'UTC';
  v_since timestamptz;
begin
  if p_table not in ('ledger', 'audit_log') then
    raise exception 'months of % are not dropped', p_table;
  end if;
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

revoke execute on function make_months, drop_oldest_month, reprice_batch from public;

select make_months(null);
