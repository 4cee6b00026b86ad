-- Two roles may share the database: one owns the tables and migrates, gateways run as the other, which can neither change a
-- table nor rewrite what was billed and audited. A role that owns the tables may go on doing both.

-- What a gateway needs of each table, view and sequence. Whoever is not the owner gets no more of the first lines than these.
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
    -- The sequence of an identity column needs no right of its own.
    and not (c.relkind = 'S' and exists (select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype = 'i'))
$$;

-- Takes back what default privileges give of these tables beyond that, from everybody but their owner. Partitions are written
-- through their table alone.
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

-- Whether who is connected may do all that the owner of the tables may.
create function is_owner() returns boolean
language sql stable as $$
  select pg_has_role(session_user, c.relowner, 'usage') from pg_class c where c.oid = 'ledger'::regclass
$$;

-- What gateways call, whoever owns the tables. Others than the owner can't choose the time, and keep two months at least.
create function make_months(p_now timestamptz) returns boolean
language plpgsql security definer as $$
begin
  if not ensure_partitions(case when is_owner() then p_now end) then
    return false;
  end if;
  perform close_tables();
  return true;
end $$;

create function drop_oldest_month(p_table text, p_months integer, p_now timestamptz)
returns table (dropped text, rows_before timestamptz)
language plpgsql security definer as $$
begin
  if p_table not in ('ledger', 'audit_log') then
    raise exception 'months of % are not dropped', p_table;
  end if;
  return query select d.dropped, d.rows_before from drop_oldest_partition(
    p_table, case when is_owner() then p_months else greatest(p_months, 2) end, case when is_owner() then p_now end) as d;
end $$;

-- Puts past requests right as adjust_batch does. It adds to a change of the same run alone: of others nobody rewrites what they did.
create function reprice_batch(
  p_from timestamptz, p_to timestamptz, p_rows jsonb, p_change bigint,
  p_actor_kind text, p_actor text, p_subject text, p_now timestamptz
) returns table (change bigint, adjusted bigint, difference numeric)
language plpgsql security definer as $$
begin
  if p_change is not null and not exists (
    select from admin_changes c
    where c.id = p_change and c.action = 'ledger.reprice'
      and c.actor_kind = p_actor_kind and c.actor = p_actor and c.subject = p_subject
  ) then
    raise exception 'change % is none of this run', p_change;
  end if;
  return query select a.change, a.adjusted, a.difference
    from adjust_batch(p_from, p_to, p_rows, p_change, p_actor_kind, p_actor, p_subject, p_now) as a;
end $$;

-- Corrects a row that else nobody changes.
alter function note_forwarded(timestamptz, timestamptz, jsonb) security definer;

revoke execute on function make_months, drop_oldest_month, note_forwarded, reprice_batch from public;

-- What is done after every migration: rights as above; and functions that run as the owner look for names where the tables are,
-- and nowhere that others can make some.
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
