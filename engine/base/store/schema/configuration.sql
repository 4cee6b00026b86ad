-- Configuration versions: the files as text without secrets, by their hash, and the rules in words (null for a version with errors).
create table config_versions (
  version text primary key,
  first_loaded_at timestamptz not null,
  files jsonb not null,
  rules jsonb
);

create table config_loads (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  replica text not null,
  cause text not null check (cause in ('start', 'files', 'signal')),
  failed boolean not null,
 -- Null if nothing could be read.
  version text references config_versions on delete cascade,
 -- Hash as in metrics; null for a failed load.
  config_hash text,
  changed text[] not null,
  needs_restart text[] not null,
  findings jsonb not null,
 -- The error, if no finding has it.
  problem text,
  program text not null
);
create index on config_loads (version);

-- Running version of each gateway, with a heartbeat; removed without one.
create table config_replicas (
  id uuid primary key,
  name text not null,
  version text not null,
  cause text not null,
  loaded_at timestamptz not null,
  failing_since timestamptz,
  program text not null,
  seen_at timestamptz not null
);

-- Records a load with its version. A known version stays, and only missing rules are added.
create function record_config_load(p_at timestamptz, p_load jsonb) returns void
language sql as $$
  with put as (
    insert into config_versions as v (version, first_loaded_at, files, rules)
    select p_load ->> 'version', p_at, p_load -> 'files', nullif(p_load -> 'rules', 'null')
    where p_load ->> 'version' is not null
    on conflict (version) do update set rules = coalesce(v.rules, excluded.rules)
  )
  insert into config_loads (at, replica, cause, failed, version, config_hash, changed, needs_restart, findings, problem, program)
  select p_at, l.replica, l.cause, l.failed, l.version, l.config_hash, l.changed, l.needs_restart, l.findings, l.problem, l.program
  from jsonb_to_record(p_load) as l (
    replica text, cause text, failed boolean, version text, config_hash text, changed text[], needs_restart text[], findings jsonb,
    problem text, program text)
$$;

-- Removes dead replicas, old or excess loads, and versions without loads. Versions of running replicas stay.
create function tidy_config_loads(p_now timestamptz, p_days integer, p_versions integer, p_loads integer) returns void
language plpgsql as $$
begin
  if not pg_try_advisory_xact_lock(hashtext('appscli.tidy_config_loads')) then
    return;
  end if;
  delete from config_replicas where seen_at < p_now - interval '1 day';
  delete from config_loads l
  where (l.at < p_now - make_interval(days => p_days)
      or l.id <= (select id from config_loads order by id desc offset p_loads limit 1)
      or l.version is not null and l.version not in (
        select version from config_loads where version is not null group by version order by max(id) desc limit p_versions))
    and not exists (select from config_replicas r where r.version = l.version);
  delete from config_versions v
  where not exists (select from config_loads l where l.version = v.version)
    and not exists (select from config_replicas r where r.version = v.version);
  delete from shadow_hours where hour < p_now - make_interval(days => p_days);
end $$;

-- Drained upstreams, until an administrator resumes them. Names of gateway.yaml, which may since have been removed.
create table drained_upstreams (
  name text primary key,
  reason text,
  drained_at timestamptz not null,
  drained_by text not null
);

-- Incidents of upstreams, as seen by each replica. For display only.
create table upstream_incidents (
  id bigint generated always as identity primary key,
  -- Host and process.
  replica text not null,
  kind text not null check (kind in ('open', 'unreachable', 'credential', 'limited')),
  upstream text not null,
 -- Null for the whole upstream.
  upstream_model text,
  began_at timestamptz not null,
 -- Time of the next retry, as last reported.
  until timestamptz not null,
 -- When it served again; null if not yet seen.
  ended_at timestamptz,
 -- Number of failed retries.
  times integer not null,
  -- The last failure, for people.
  last text,
  unique nulls not distinct (replica, began_at, upstream, kind, upstream_model)
);
create index on upstream_incidents (began_at);
