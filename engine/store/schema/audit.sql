-- What happened, and who changed what.

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
create table audit_log_default partition of audit_log default;

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
