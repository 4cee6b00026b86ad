-- The files of a configuration as text, secrets blanked out, by a hash of them; and its rules in words, null while it has errors.
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
  -- Null where nothing could be read.
  version text references config_versions on delete cascade,
  -- As metrics tell it; null for a load that failed.
  config_hash text,
  changed text[] not null,
  needs_restart text[] not null,
  findings jsonb not null,
  -- What failed where no finding says so.
  problem text,
  program text not null
);
create index on config_loads (version);

-- What runs in each gateway. It says so again and again, and is gone when it has not done so for long.
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

-- A load with its version. What is known of the version stays, but rules are added that it lacked.
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

-- Forgets replicas that are gone, loads that are old or too many, and versions of which no load is left. What a replica runs stays.
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

-- Upstreams that get no new requests until somebody resumes them. Names of gateway.yaml, which need not be there any more.
create table drained_upstreams (
  name text primary key,
  reason text,
  drained_at timestamptz not null,
  drained_by text not null
);

-- What kept requests from upstreams and for how long, as each replica saw it itself: for people to look at, nothing goes by it.
create table upstream_troubles (
  id bigint generated always as identity primary key,
  -- Host and process.
  replica text not null,
  kind text not null check (kind in ('open', 'unreachable', 'credential', 'limited')),
  upstream text not null,
  -- Null where it is about the upstream as a whole.
  upstream_model text,
  began_at timestamptz not null,
  -- When it was to be tried again, as told last.
  until timestamptz not null,
  -- When it served again; null until that was seen.
  ended_at timestamptz,
  -- How often it began anew: each time that it was tried again in vain is one.
  times integer not null,
  -- The last failure, for people.
  last text,
  unique nulls not distinct (replica, began_at, upstream, kind, upstream_model)
);
create index on upstream_troubles (began_at);
