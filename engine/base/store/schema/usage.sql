-- Usage sums by hour and day, so that reports need not read the ledger. Each ledger line is first written to usage_waiting, in the same
-- transaction. One process at a time adds it to its hour and day, so settling never waits for locks on sums. Hours and days are in UTC, by
-- the time of forwarding.

-- Numbers for names, so that sums are narrow and group fast. 0: none.
create table usage_names (
  id integer generated always as identity primary key,
  -- SHA-256 of the name, which may be longer than an index allows.
  digest bytea not null unique,
  name text not null
);

-- Lines that are not in the sums yet. A row may stand for several lines, or subtract others (lines is negative).
create table usage_waiting (
  hour timestamptz not null,
  settled_at timestamptz not null,
  user_email text not null,
  team text,
  project text,
  token_id text,
  model text not null,
  upstream text not null,
  upstream_model text not null,
  protocol text not null,
  answered_model text,
  service_tier text,
  speed text,
 -- Status class, such as 2xx.
  status text,
 -- Whether usage is estimated: no (reported by the upstream), yes, or clamped.
  estimated text not null,
  lines bigint not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  cost_nano_usd bigint not null,
  adjusted_nano_usd bigint not null,
 -- What upstreams may bill for failed attempts: not included in the cost, and included.
  possibly_billed_nano_usd bigint not null,
  possible_nano_usd bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Column list of waiting rows for a statement: dimensions (text) and sums (bigint). p_form has %1$s for the name of a column.
create function usage_columns(p_type regtype, p_form text) returns text
language sql stable as $$
  select string_agg(format(p_form, attname), ', ' order by attnum)
  from pg_attribute where attrelid = 'usage_waiting'::regclass and atttypid = p_type and attnum > 0
$$;

-- Sums of each hour and day, with numbers in place of names, and the last settlement, which bounds the search for the lines in the ledger.
do $do$ begin
  execute format(
    'create table usage_hours (
       start timestamptz not null, %s, settled_until timestamptz not null, %s, primary key (start, %s)) partition by range (start)',
    usage_columns('text', '%1$s_n integer not null'), usage_columns('bigint', '%1$s bigint not null'),
    usage_columns('text', '%1$s_n'));
end $do$;
create table usage_hours_default partition of usage_hours default;

create table usage_days (like usage_hours including indexes) partition by range (start);
create table usage_days_default partition of usage_days default;

-- The waiting rows of a ledger row: its line, and one for each earlier attempt that cost something or may be billed, at its own upstream.
-- The line of the request excludes these. cost_from is the provenance of the cost: 'possible' means that possibly billed amounts are
-- included. With a sign of -1, the rows that subtract them.
create function usage_of(l ledger, p_sign integer) returns setof usage_waiting
language sql stable as $$
  select date_trunc('hour', l.forwarded_at, 'UTC'), l.settled_at, l.user_email, l.team, l.project, l.token_id, l.model,
         a.upstream, a.upstream_model, l.protocol, a.billed ->> 'model', a.billed ->> 'service_tier', a.billed ->> 'speed',
         left(l.status::text, 1) || 'xx',
         case a.cost_from when 'upstream' then 'no' when 'clamped' then 'clamped' else 'yes' end,
         p_sign, case l.kind when 'request' then a.last else 0 end, a.last * l.input_tokens, a.last * l.output_tokens,
         a.last * l.cache_read_tokens, a.last * l.cache_write_5m_tokens, a.last * l.cache_write_1h_tokens,
         p_sign * a.cost, case l.kind when 'adjustment' then p_sign * a.cost else 0 end,
         case when a.cost_from is distinct from 'possible' then p_sign * a.possible else 0 end,
         case when a.cost_from = 'possible' then p_sign * a.possible else 0 end
  from (
    select l.upstream, l.upstream_model, p_sign as last, l.billed, l.cost_nano_usd as cost,
           coalesce(l.provenance ->> 'of', l.provenance ->> 'cost') as cost_from,
           case l.kind when 'request' then coalesce((l.provenance ->> 'possibly_billed_nano_usd')::bigint, 0) else 0 end as possible
    where l.attempts is null or l.kind <> 'request'
    union all
    select a.upstream, a.upstream_model, i.is_last::integer * p_sign, case when i.is_last then l.billed end, a.cost_nano_usd,
           a.provenance, coalesce(a.possibly_billed_nano_usd, 0)
    from jsonb_to_recordset(l.attempts) as a (
      n int, upstream text, upstream_model text, provenance text, cost_nano_usd bigint, possibly_billed_nano_usd bigint)
    cross join lateral (select a.n = jsonb_array_length(l.attempts) as is_last) as i
    where l.attempts is not null and l.kind = 'request'
      and (i.is_last or a.cost_nano_usd <> 0 or a.possibly_billed_nano_usd > 0)
  ) as a
$$;

-- The lines of the ledger with the columns of reports.
create view usage_lines as
select l.forwarded_at, u.* from ledger l cross join lateral usage_of(l, 1) as u;

-- Ledger lines forwarded in an hour and settled in a period. A function, because a join of the view with several hours would read the
-- whole ledger for each.
create function lines_of_hour(p_hour timestamptz, p_settled_until timestamptz) returns setof usage_lines
language plpgsql stable
set enable_seqscan = off
as $$
begin
  return query
  select * from usage_lines
  where settled_at >= p_hour and settled_at <= p_settled_until
    and forwarded_at >= p_hour and forwarded_at < p_hour + interval '1 hour';
end $$;

-- Triggers: each change of the ledger adds waiting rows in the same transaction. Moves to the partition of a month are no change.
create function note_usage() returns trigger
language plpgsql as $$
begin
  if tg_op <> 'INSERT' then
    insert into usage_waiting select u.* from removed r cross join lateral usage_of(row(r.*)::ledger, -1) as u;
  end if;
  if tg_op <> 'DELETE' then
    insert into usage_waiting select u.* from added a cross join lateral usage_of(row(a.*)::ledger, 1) as u;
  end if;
  return null;
end $$;

create function note_no_usage() returns trigger
language plpgsql as $$
begin
  truncate usage_waiting, usage_hours, usage_days;
  return null;
end $$;

create trigger note_added after insert on ledger
  referencing new table as added for each statement execute function note_usage();
create trigger note_changed after update on ledger
  referencing old table as removed new table as added for each statement execute function note_usage();
create trigger note_removed after delete on ledger
  referencing old table as removed for each statement execute function note_usage();
create trigger note_truncated after truncate on ledger
  for each statement execute function note_no_usage();

create function lock_usage() returns boolean
language sql as $$ select pg_try_advisory_xact_lock(hashtext('appscli.usage')) $$;

create function name_digest(p_name text) returns bytea
language sql immutable as $$ select sha256(convert_to(p_name, 'UTF8')) $$;

-- The number of a name, from an object of numbers; 0 for none.
create function name_number(p_numbers jsonb, p_name text) returns integer
language sql immutable as $$ select coalesce((p_numbers ->> p_name)::integer, 0) $$;

-- Adds at most p_most waiting rows to their hours and days. Returns their number; null while another process does it.
create function sum_usage(p_most integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
  v_rows tid[];
  v_names text[];
  v_numbers jsonb;
  v_span text;
begin
  if not lock_usage() then
    return null;
  end if;
 -- Only the holder of the lock deletes waiting rows, and they never change.
  v_rows := array(select w.ctid from usage_waiting w limit p_most);
  execute format(
    'select array_agg(distinct n.name) from usage_waiting w cross join lateral unnest(array[%s]) as n (name)
     where w.ctid = any ($1) and n.name is not null', usage_columns('text', '%1$s')) into v_names using v_rows;
  insert into usage_names (digest, name)
  select name_digest(n.name), n.name from unnest(v_names) as n (name)
  where not exists (select from usage_names k where k.digest = name_digest(n.name));
 -- A name changed by hand is fixed by a new summation.
  update usage_names k set name = n.name
  from unnest(v_names) as n (name) where k.digest = name_digest(n.name) and k.name <> n.name;
  select jsonb_object_agg(k.name, k.id) into v_numbers
  from unnest(v_names) as n (name) join usage_names k on k.digest = name_digest(n.name);

  foreach v_span in array array['hour', 'day'] loop
    execute format(
      'insert into usage_%1$ss as u (start, %2$s, settled_until, %3$s)
       select date_trunc(%1$L, hour, ''UTC''), %4$s, max(settled_at), %5$s
       from usage_waiting where ctid = any ($1) group by 1, %6$s
       on conflict (start, %2$s) do update set settled_until = greatest(u.settled_until, excluded.settled_until), %7$s',
      v_span, usage_columns('text', '%1$s_n'), usage_columns('bigint', '%1$s'),
      usage_columns('text', 'name_number($2, %1$s)'), usage_columns('bigint', 'sum(%1$s)'), usage_columns('text', '%1$s'),
      usage_columns('bigint', '%1$s = u.%1$s + excluded.%1$s')) using v_rows, v_numbers;
  end loop;
  delete from usage_waiting w where w.ctid = any (v_rows);
  return cardinality(v_rows);
end $$;

-- Queues the ledger lines settled from p_settled_from until p_settled_until and forwarded from p_from until p_until again, in place of
-- their waiting rows. One snapshot, so that a concurrent line counts once.
create function wait_again(
  p_from timestamptz, p_until timestamptz, p_settled_from timestamptz, p_settled_until timestamptz
) returns bigint
language plpgsql as $$
declare
  v_lines bigint;
begin
  execute format(
    'with gone as (
       delete from usage_waiting where hour >= $1 and hour < $2 and settled_at >= $3 and settled_at < $4
     ), added as (
       insert into usage_waiting (hour, settled_at, %1$s, %2$s)
       select hour, max(settled_at), %1$s, %3$s from usage_lines
       where forwarded_at >= $1 and forwarded_at < $2 and settled_at >= $3 and settled_at < $4
       group by hour, %1$s
       returning lines
     ) select coalesce(sum(lines), 0)::bigint from added',
    usage_columns('text', '%1$s'), usage_columns('bigint', '%1$s'), usage_columns('bigint', 'sum(%1$s)')
  ) into v_lines using p_from, p_until, p_settled_from, p_settled_until;
  return v_lines;
end $$;

-- Queues the days from p_from until p_until (midnights in UTC) for a new summation. Returns the number of their lines; null while another
-- process works on the sums.
create function sum_again(p_from timestamptz, p_until timestamptz) returns bigint
language plpgsql as $$
begin
  if not lock_usage() then
    return null;
  end if;
  delete from usage_hours where start >= p_from and start < p_until;
  delete from usage_days where start >= p_from and start < p_until;
  return wait_again(p_from, p_until, '-infinity', 'infinity');
end $$;
