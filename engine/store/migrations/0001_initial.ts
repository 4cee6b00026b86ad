import type { SchemaMigration } from '../migrate.ts';
import { LEDGER_FUNCTIONS } from './0001_ledger_functions.ts';
import { PARTITION_FUNCTIONS } from './0001_partition_functions.ts';

const IDENTITY_TABLES = `
create table principals (
  id text primary key,
  email text not null,
  created_at timestamptz not null default now()
);

create table access_tokens (
  id text primary key,
  hash bytea not null unique,
  prefix text not null,
  principal_id text not null references principals (id),
  token_group text not null,
  name text not null,
  team text,
  project text,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index on access_tokens (principal_id, name);
`;

/*
 * Counters and reservations are updated all the time by few: room in each page lets an update stay in its page, and an
 * eager vacuum keeps the dead versions few.
 */
const MONEY_TABLES = `
create table spend_counters (
  id bigint generated always as identity unique,
  scope text not null,
  key text not null,
  window_kind text not null,
  window_start timestamptz not null,
  spent_nano_usd bigint not null default 0,
  reserved_nano_usd bigint not null default 0,
  primary key (scope, key, window_kind, window_start)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create table reservations (
  request_id text primary key,
  process_id uuid not null,
  reserved_at timestamptz not null,
  amount_nano_usd bigint not null,
  counter_ids bigint[] not null,
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

create table ledger (
  request_id text not null,
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
  cost_nano_usd bigint not null,
  provenance jsonb not null,
  counter_ids bigint[] not null,
  forwarded_at timestamptz not null,
  settled_at timestamptz not null
) partition by range (settled_at);
create index on ledger (request_id);
create index on ledger using brin (settled_at);
create table ledger_default partition of ledger default;
`;

const AUDIT_TABLES = `
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
`;

/** Tokens, counters, reservations, ledger and audit log, with the functions that move money between them. */
export const initial: SchemaMigration = {
  name: '0001_initial',
  async up(knex) {
    await knex.raw(IDENTITY_TABLES);
    await knex.raw(MONEY_TABLES);
    await knex.raw(AUDIT_TABLES);
    await knex.raw(LEDGER_FUNCTIONS);
    await knex.raw(PARTITION_FUNCTIONS);
    await knex.raw('select ensure_partitions(null)');
  },
};
