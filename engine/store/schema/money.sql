-- Limits, what counts against them, and the ledger.

-- What a limit counts in one window, in its unit: what was spent, what is reserved, by how many requests in flight, and the
-- most that these can come to. Counters and reservations are updated all the time by few: room in each page lets an update
-- stay in its page, and an eager vacuum keeps the dead versions few.
create table spend_counters (
  id bigint generated always as identity unique,
  scope text not null,
  key text not null,
  window_kind text not null,
  window_start timestamptz not null,
  unit text not null default 'nano_usd',
  spent bigint not null default 0,
  reserved bigint not null default 0,
  most bigint not null default 0,
  in_flight integer not null default 0,
  primary key (scope, key, window_kind, window_start, unit)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index on spend_counters (window_start) where window_kind = 'minute';

create table reservations (
  request_id text primary key,
  process_id uuid not null,
  reserved_at timestamptz not null,
  amount_nano_usd bigint not null,
  most_nano_usd bigint not null,
  tokens bigint not null default 0,
  -- Counters of money: those that the ledger row will name. The others are in rate_counter_ids.
  counter_ids bigint[] not null,
  rate_counter_ids bigint[] not null default '{}',
  protocol text not null,
  principal_id text not null,
  user_email text not null,
  team text,
  project text,
  token_id text,
  model text not null,
  upstream text not null,
  upstream_model text not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create table processes (
  id uuid primary key,
  machine text not null,
  identity text not null,
  heartbeat_at timestamptz not null
);

-- A request that was forwarded has one row of the kind 'request', and rows of the kind 'adjustment' that put it right.
create table ledger (
  request_id text not null,
  kind text not null default 'request' check (kind in ('request', 'adjustment')),
  protocol text not null,
  principal_id text not null,
  user_email text not null,
  team text,
  project text,
  token_id text,
  model text not null,
  upstream text not null,
  upstream_model text not null,
  status integer,
  aborted boolean not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  server_tools jsonb,
  -- What was billed, where it differs from the model that was asked for at its usual price: the model that answered, its service
  -- tier, speed and region, and what each of several models used. The other columns hold the sum.
  billed jsonb,
  cost_nano_usd bigint not null,
  provenance jsonb not null,
  counter_ids bigint[] not null,
  forwarded_at timestamptz not null,
  settled_at timestamptz not null
) partition by range (settled_at);
create index on ledger (request_id);
create index on ledger using brin (settled_at);
create table ledger_default partition of ledger default;

-- Rows settled before this moment were dropped. No row: none were.
create table ledger_bounds (
  only_row boolean primary key default true check (only_row),
  dropped_before timestamptz not null
);

-- A limit set at run time: it replaces every limit of gateway.yaml on that counter.
create table limit_settings (
  scope text not null,
  key text not null,
  window_kind text not null,
  unit text not null default 'nano_usd',
  amount bigint not null check (amount >= 0),
  reason text,
  set_at timestamptz not null,
  set_by text not null,
  primary key (scope, key, window_kind, unit)
);

-- Room on top of whatever limit is in force, for a time.
create table limit_grants (
  id text primary key,
  scope text not null,
  key text not null,
  window_kind text not null,
  unit text not null default 'nano_usd',
  amount bigint not null check (amount > 0),
  reason text,
  granted_at timestamptz not null,
  granted_by text not null,
  expires_at timestamptz not null,
  revoked_at timestamptz
);
create index on limit_grants (scope, key, window_kind, unit) where revoked_at is null;
create index on limit_grants (granted_at);
