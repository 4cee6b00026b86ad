/**
 * Monthly partitions of `ledger` and `audit_log`, made ahead. An insert never depends on them: the default partition
 * takes what has no month yet, and making the month later moves it out of there.
 */
export const PARTITION_FUNCTIONS = `
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

create function audit_append(p_records jsonb, p_again boolean) returns void
language plpgsql as $$
begin
  -- Ids become visible in their order, so that a reader who asks for what came after an id misses nothing.
  perform pg_advisory_xact_lock(hashtext('appscli.audit_append'));
  insert into audit_log (at, request_id, record)
  select to_timestamp(r.at_ms / 1000.0), r.request_id, r.record
  from jsonb_to_recordset(p_records) as r (at_ms double precision, request_id text, record jsonb)
  where not p_again or r.request_id is null
    or not exists (select from audit_log a where a.request_id = r.request_id);
end $$;
`;
