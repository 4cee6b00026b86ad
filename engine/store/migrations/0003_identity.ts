import type { SchemaMigration } from '../migrate.ts';
import { CUT_OFF_FUNCTION } from './0003_cut_off_function.ts';
import { IDENTITY_FUNCTIONS } from './0003_identity_functions.ts';

/* One person has one row, whatever e-mail tokens and sign-ins were made with; groups are those of the latest sign-in. */
const PEOPLE = `
alter table principals
  add column issuer text,
  add column subject text,
  add column name text,
  add column groups text[] not null default '{}',
  add column signed_in_at timestamptz,
  add column blocked_at timestamptz;
create index on principals (issuer, subject) where subject is not null;

alter table access_tokens
  add column created_by text not null default 'command',
  add column self_service boolean not null default false,
  add column replaced_by text references access_tokens (id);
`;

const SESSIONS = `
create table sessions (
  id text primary key,
  principal_id text not null references principals (id),
  person jsonb not null,
  sealed_grant text not null,
  client text not null,
  client_address text not null,
  created_at timestamptz not null,
  checked_at timestamptz not null,
  expires_at timestamptz not null,
  refreshing_until timestamptz,
  revoked_at timestamptz,
  revoked_because text
);
create index on sessions (principal_id);
create index on sessions (expires_at);
create index on sessions (revoked_at) where revoked_at is not null;

create table refresh_tokens (
  hash bytea primary key,
  session_id text not null references sessions (id) on delete cascade,
  created_at timestamptz not null,
  used_at timestamptz
);
create index on refresh_tokens (session_id);
`;

const DEVICE_GRANTS = `
create table device_grants (
  id text primary key,
  device_code_hash bytea not null unique,
  user_code text not null unique,
  status text not null default 'pending' check (status in ('pending', 'approved', 'denied', 'redeemed')),
  client text not null,
  client_address text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  polled_at timestamptz,
  state_hash bytea unique,
  person jsonb,
  sealed_grant text
);
create index on device_grants (expires_at);

create table attempts (
  kind text not null,
  address text not null,
  window_start timestamptz not null,
  count integer not null,
  primary key (kind, address)
);
create index on attempts (window_start);
`;

const ADMIN_CHANGES = `
create table admin_changes (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  actor_kind text not null check (actor_kind in ('person', 'command', 'gateway')),
  actor text not null,
  action text not null,
  subject text not null,
  before jsonb,
  after jsonb
);
create index on admin_changes (at);
create index on admin_changes (subject);
`;

/** People who sign in, their sessions, the sign-ins under way, and who changed what. */
export const identity: SchemaMigration = {
  name: '0003_identity',
  async up(knex) {
    for (const statements of [PEOPLE, SESSIONS, DEVICE_GRANTS, ADMIN_CHANGES, IDENTITY_FUNCTIONS, CUT_OFF_FUNCTION])
      await knex.raw(statements);
  },
};
