import type { SchemaMigration } from '../migrate.ts';

const TABLES = `
-- A limit set at run time: it takes the place of every limit of gateway.yaml on that counter.
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
`;

/** Limits that are set and granted at run time. */
export const limitSettings: SchemaMigration = {
  name: '0004_limit_settings',
  async up(knex) {
    await knex.raw(TABLES);
  },
};
