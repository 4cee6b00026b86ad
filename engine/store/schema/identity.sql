-- People, what they sign in with, and what programs of theirs use.

-- One person has one row, whatever e-mail tokens and sign-ins were made with.
create table principals (
  id text primary key,
  email text not null,
  -- The account at the identity provider; null until somebody signs in.
  issuer text,
  subject text,
  name text,
  -- Those of the latest sign-in.
  groups text[] not null default '{}',
  signed_in_at timestamptz,
  -- Since when the access tokens the person made are suspended.
  blocked_at timestamptz,
  -- Set by an administrator: the next account that signs in with this address is the person's, whoever had it before.
  open_to_sign_in boolean not null default false,
  -- When the identity provider was last asked about somebody who does not renew a session, whatever it said.
  asked_at timestamptz,
  -- Until when their tokens go on although nobody verified them for too long, because the provider could not be asked.
  suspension_put_off_until timestamptz,
  created_at timestamptz not null default now()
);
create index on principals (issuer, subject) where subject is not null;

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
  created_by text not null default 'command',
  self_service boolean not null default false,
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  replaced_by text references access_tokens (id)
);
create index on access_tokens (principal_id, name);

-- Credentials of automation for the admin API. The owner answers for one; none where it was made at a command line.
create table service_tokens (
  id text primary key,
  hash bytea not null unique,
  prefix text not null,
  name text not null,
  scopes text[] not null,
  owner_id text references principals (id),
  created_at timestamptz not null,
  created_by text not null,
  expires_at timestamptz not null,
  last_used_at timestamptz,
  revoked_at timestamptz,
  replaced_by text references service_tokens (id),
  -- Since when its owner is known to be no administrator any more.
  unowned_since timestamptz
);

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
  -- When and from where the newest refresh token was asked for.
  renewed_at timestamptz,
  renewed_from text,
  -- When the newest session token that came with a request was issued.
  seen_at timestamptz,
  -- The last refusal of a replaced refresh token from an address that has not renewed the session since.
  refused_at timestamptz,
  refused_from text,
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
  used_at timestamptz,
  -- What the token was replaced by, and that token itself, sealed under this one: only who has this one can open it.
  replaced_by bytea,
  successor text,
  -- When the token was first refused because what replaced it is in use.
  refused_at timestamptz
);
create index on refresh_tokens (session_id);
create index on refresh_tokens (replaced_by) where replaced_by is not null;

-- Sign-ins under way, of devices that show a code.
create table device_grants (
  id text primary key,
  device_code_hash bytea not null unique,
  user_code text not null unique,
  status text not null default 'pending' check (status in ('pending', 'approved', 'denied', 'redeemed')),
  client text not null,
  client_address text not null,
  surface text,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  polled_at timestamptz,
  state_hash bytea unique,
  person jsonb,
  sealed_grant text,
  -- A sentence for whoever waits; null where the person declined.
  denied_because text,
  -- When the device was told.
  heard_at timestamptz,
  -- Of a sign-in that was collected: when, its session, and the session's first refresh token, sealed under the device code.
  redeemed_at timestamptz,
  session_id text,
  sealed_refresh text
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

-- Who was turned away and why, for administrators; kept for days, and few of one address.
create table refused_sign_ins (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  email text not null,
  subject text,
  issuer text,
  client text not null,
  client_address text not null,
  request_id text not null,
  refused text not null,
  detail text not null,
  groups text[] not null,
  expected text[] not null
);
create index on refused_sign_ins (email, at);
create index on refused_sign_ins (at);

-- The provider's grants of sessions that have ended. A gateway that has the key tells the provider, and removes the row.
create table ended_grants (
  session_id text primary key,
  principal_id text not null,
  issuer text not null,
  subject text not null,
  sealed_grant text not null,
  ended_at timestamptz not null,
  due_at timestamptz not null,
  attempts integer not null default 0
);
create index on ended_grants (due_at);
create index on ended_grants (ended_at);

-- Ids of the keys that gateways verify and open with, and when one of them last said that it has it.
create table signing_keys (
  id text primary key,
  seen_at timestamptz not null
);
