-- Usage summed up by hour and by day, so that reports need not read the ledger. Every line of the ledger waits in usage_waiting
-- first, written with it in one transaction, and is added to its hour and day soon afterwards, by one process at a time: so
-- nobody who settles waits for a sum that others change. Hours and days are those of UTC, by the time of forwarding.

-- Numbers for names, so that sums are narrow and are grouped fast. 0 stands for none.
create table usage_names (
  id integer generated always as identity primary key,
  -- SHA-256 of the name, which may be longer than an index allows.
  digest bytea not null unique,
  name text not null
);

-- Lines not yet in the sums. A row may stand for several lines, or take back what others say (lines is negative).
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
  -- The class: 2xx.
  status text,
  -- Whether the upstream said what was used: no (it did), yes or clamped.
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
  -- What upstreams may bill for attempts that failed: beyond the cost, and as part of it.
  possibly_billed_nano_usd bigint not null,
  possible_nano_usd bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create table usage_hours (
  start timestamptz not null,
  user_n integer not null,
  team_n integer not null,
  project_n integer not null,
  token_n integer not null,
  model_n integer not null,
  upstream_n integer not null,
  upstream_model_n integer not null,
  protocol_n integer not null,
  answered_model_n integer not null,
  service_tier_n integer not null,
  speed_n integer not null,
  status_n integer not null,
  estimated_n integer not null,
  -- The last settlement of these lines: whoever looks for them in the ledger need not read on.
  settled_until timestamptz not null,
  lines bigint not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  cost_nano_usd bigint not null,
  adjusted_nano_usd bigint not null,
  possibly_billed_nano_usd bigint not null,
  possible_nano_usd bigint not null,
  primary key (
    start, user_n, team_n, project_n, token_n, model_n, upstream_n, upstream_model_n, protocol_n, answered_model_n,
    service_tier_n, speed_n, status_n, estimated_n
  )
) partition by range (start);
create table usage_hours_default partition of usage_hours default;

create table usage_days (like usage_hours including indexes) partition by range (start);
create table usage_days_default partition of usage_days default;

-- From which settlement on lines are in the sums, or wait for them; only the ledger has those before. A database that had a
-- ledger before it had sums begins at infinity and works backwards.
create table usage_state (
  only_row boolean primary key default true check (only_row),
  summed_from timestamptz not null
);

-- The lines of the ledger with what reports look at. The trigger below does the same arithmetic for rows that are being written.
create view usage_lines as
select l.forwarded_at, date_trunc('hour', l.forwarded_at, 'UTC') as hour, l.settled_at, l.user_email, l.team, l.project, l.token_id,
       l.model, l.upstream, l.upstream_model, l.protocol, l.billed ->> 'model' as answered_model,
       l.billed ->> 'service_tier' as service_tier, l.billed ->> 'speed' as speed, left(l.status::text, 1) || 'xx' as status,
       case l.cost_from when 'upstream' then 'no' when 'clamped' then 'clamped' else 'yes' end as estimated,
       1::bigint as lines, case l.kind when 'request' then 1::bigint else 0 end as requests, l.input_tokens, l.output_tokens,
       l.cache_read_tokens, l.cache_write_5m_tokens, l.cache_write_1h_tokens, l.cost_nano_usd,
       case l.kind when 'adjustment' then l.cost_nano_usd else 0 end as adjusted_nano_usd,
       case when l.cost_from = 'possible' then 0 else l.possibly_billed_nano_usd end as possibly_billed_nano_usd,
       case when l.cost_from = 'possible' then l.possibly_billed_nano_usd else 0 end as possible_nano_usd
from ledger_lines l;
