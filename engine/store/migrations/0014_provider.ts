import type { SchemaMigration } from '../migrate.ts';

const DEVICE_GRANTS = `
-- denied_because: a sentence for whoever waits; null where the person declined. heard_at: when the device was told.
alter table device_grants
  add column surface text,
  add column denied_because text,
  add column denied_at timestamptz,
  add column heard_at timestamptz;
`;

const REFUSED_SIGN_INS = `
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
`;

/*
 * A trigger, since sessions end in many functions. The sealed grant leaves the session in any case: where one waits here, the
 * gateway that has the key tells the provider, and removes it.
 */
const ENDED_GRANTS = `
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

create function keep_ended_grant() returns trigger
language plpgsql as $$
begin
  insert into ended_grants (session_id, principal_id, issuer, subject, sealed_grant, ended_at, due_at)
  values (old.id, old.principal_id, old.person ->> 'issuer', old.person ->> 'subject', old.sealed_grant,
    coalesce(new.revoked_at, old.expires_at), coalesce(new.revoked_at, old.expires_at))
  on conflict (session_id) do nothing;
  return null;
end $$;

create trigger keep_ended_grant after update of sealed_grant on sessions
for each row when (
  old.sealed_grant <> '' and new.sealed_grant = '' and old.person ->> 'issuer' <> '' and old.person ->> 'subject' <> ''
) execute function keep_ended_grant();
`;

/** What people are told when they are refused, and what becomes of the provider's grants of sessions that end. */
export const provider: SchemaMigration = {
  name: '0014_provider',
  async up(knex) {
    for (const statements of [DEVICE_GRANTS, REFUSED_SIGN_INS, ENDED_GRANTS]) await knex.raw(statements);
  },
};
