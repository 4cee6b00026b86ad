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
