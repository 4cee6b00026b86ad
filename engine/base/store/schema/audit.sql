-- Audit log of requests, and changes by administrators.

create sequence audit_log_id;
create table audit_log (
  id bigint not null default nextval('audit_log_id'),
  at timestamptz not null,
  request_id text,
  record jsonb not null
) partition by range (at);
alter sequence audit_log_id owned by audit_log.id;
create index on audit_log (id);
create index on audit_log (request_id);
-- Indexes for lists of requests: by time, person, token, and failure. Other filters scan these in slices of time.
create index on audit_log (at, id);
create index on audit_log ((record ->> 'user'), at);
create index on audit_log ((record ->> 'token_id'), at);
create index on audit_log (at) where left(record ->> 'status', 1) in ('4', '5');
-- A record has 2 KB: pglz, the default, takes three tenths of the CPU time of writing it. Not every server has lz4.
do $$
begin
  if exists (select from pg_settings where name = 'default_toast_compression' and 'lz4' = any (enumvals)) then
    alter table audit_log alter column record set compression lz4;
  end if;
end $$;
create table audit_log_default partition of audit_log default;

create function audit_append(p_records jsonb, p_again boolean) returns void
language plpgsql as $$
begin
 -- Ids become visible in order, so that a reader of the rows after an id misses none.
  perform pg_advisory_xact_lock(hashtext('appscli.audit_append'));
  insert into audit_log (at, request_id, record)
  select to_timestamp(r.at_ms / 1000.0), r.request_id, r.record
  from jsonb_to_recordset(p_records) as r (at_ms double precision, request_id text, record jsonb)
  where not p_again or r.request_id is null
    or not exists (select from audit_log a where a.request_id = r.request_id);
end $$;

create table admin_changes (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  actor_kind text not null check (actor_kind in ('person', 'command', 'gateway', 'service')),
  actor text not null,
  action text not null,
  subject text not null,
  before jsonb,
  after jsonb
);
create index on admin_changes (at);
create index on admin_changes (subject);
create index on admin_changes (action, id);

create function note_change(
  p_at timestamptz, p_actor_kind text, p_actor text, p_action text, p_subject text, p_before jsonb, p_after jsonb
) returns void
language sql as $$
  insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
  values (p_at, p_actor_kind, p_actor, p_action, p_subject, p_before, p_after)
$$;

-- The words of a text in lower case: `user:ana@example.com per day` has `user`, `ana@example.com`, `per` and `day`.
create function words_of(p_text text) returns text[]
language sql immutable parallel safe as $$
  select array_remove(string_to_array(translate(lower(p_text), ':(),"', '     '), ' '), '')
$$;

-- Subject, owner and result of a change. It calls no own function, because index builds cannot find one by its bare name.
create function change_names(p_subject text, p_before jsonb, p_after jsonb) returns text
language sql immutable parallel safe as $$
  select p_subject
    || ' ' || coalesce(p_before ->> 'user', '') || ' ' || coalesce(p_after ->> 'user', '')
    || ' ' || coalesce(p_before ->> 'name', '') || ' ' || coalesce(p_after ->> 'name', '')
    || ' ' || coalesce(p_before ->> 'to', '') || ' ' || coalesce(p_after ->> 'to', '')
    || ' ' || coalesce(p_before ->> 'owner', '') || ' ' || coalesce(p_after ->> 'owner', '')
    || ' ' || coalesce(p_after ->> 'replaces', '') || ' ' || coalesce(p_after ->> 'replaced_by', '')
$$;

create index on admin_changes using gin (words_of(actor));
create index on admin_changes using gin (words_of(change_names(subject, before, after)));

-- Matches of each rule in shadow mode, by hour and serving upstream: sums instead of a scan of the audit log. Counted as audit records
-- are written.
create table shadow_hours (
  hour timestamptz not null,
  name text not null,
 -- Empty without an upstream.
  upstream text not null,
  requests bigint not null,
  last_at timestamptz not null,
  last_request_id text,
  primary key (hour, name, upstream)
);

create function count_shadows() returns trigger
language plpgsql as $$
begin
  insert into shadow_hours as s (hour, name, upstream, requests, last_at, last_request_id)
  select date_trunc('hour', a.at, 'UTC'), left(n.name, 200), left(coalesce(a.record ->> 'upstream', ''), 200), count(*), max(a.at),
    (array_agg(a.request_id order by a.at desc))[1]
  from added a, jsonb_array_elements_text(
    case jsonb_typeof(a.record -> 'shadow') when 'array' then a.record -> 'shadow' else '[]' end) as n (name)
 -- Almost no record has any, and the function is called only for those that do.
  where a.record ? 'shadow'
 -- In one order, so that gateways never deadlock.
  group by 1, 2, 3 order by 1, 2, 3
  on conflict (hour, name, upstream) do update set
    requests = s.requests + excluded.requests,
    last_at = greatest(s.last_at, excluded.last_at),
    last_request_id = case when excluded.last_at >= s.last_at then excluded.last_request_id else s.last_request_id end;
  return null;
end $$;

create trigger count_shadows after insert on audit_log
referencing new table as added for each statement execute function count_shadows();
