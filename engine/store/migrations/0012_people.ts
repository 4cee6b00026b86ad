import type { SchemaMigration } from '../migrate.ts';

const STATUS = `
-- When the identity provider was last asked about somebody who does not renew a session, whatever it said; and until when
-- what they made goes on although nobody verified them for too long, because the provider could not be asked.
alter table principals add column asked_at timestamptz, add column suspension_put_off_until timestamptz;

-- Access tokens somebody made are refused from now on, until they are let in again. False where they were already.
create function suspend_person(p_email text, p_because text, p_now timestamptz) returns boolean
language plpgsql as $$
declare
  v_id text := 'user:' || p_email;
begin
  update principals set blocked_at = p_now where id = v_id and blocked_at is null;
  if not found then
    return false;
  end if;
  perform pg_notify('appscli_tokens', encode(hash, 'base64'))
  from access_tokens where principal_id = v_id and self_service and revoked_at is null;
  insert into admin_changes (at, actor_kind, actor, action, subject, after)
  values (p_now, 'gateway', 'sign-in', 'person.suspend', p_email, jsonb_build_object('because', p_because));
  return true;
end $$;

-- Writes down what the identity provider said of somebody whose session nobody renews. False where the session has ended,
-- or the address goes to another account. Locks as finish_refresh does: the person first.
create function note_checked(p_session text, p_person jsonb, p_sealed_grant text, p_now timestamptz) returns boolean
language plpgsql as $$
begin
  perform 1 from principals where id = 'user:' || (p_person ->> 'email') for no key update;
  perform 1 from sessions where id = p_session and revoked_at is null for no key update;
  if not found or note_person(p_person, p_now) is null then
    return false;
  end if;
  update sessions
  set person = p_person, sealed_grant = p_sealed_grant, checked_at = p_now, refreshing_until = null
  where id = p_session;
  return true;
end $$;
`;

const SERVICE_TOKENS = `
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
alter table admin_changes drop constraint admin_changes_actor_kind_check;
alter table admin_changes add constraint admin_changes_actor_kind_check
  check (actor_kind in ('person', 'command', 'gateway', 'service'));
`;

const CODES = `
-- A user code that somebody enters, from an address that has so many failures to go: only a code that is none counts. The row
-- of the address is locked first, so that codes tried at once are judged one after the other.
create function try_user_code(
  p_address text, p_code text, p_now timestamptz, p_began_after timestamptz, p_most integer
) returns table (
  failures integer, began timestamptz, id text, user_code text, client text, client_address text, created_at timestamptz,
  expires_at timestamptz
)
language plpgsql as $$
declare
  v_failures integer;
begin
  insert into attempts as a (kind, address, window_start, count) values ('code_submission', p_address, p_now, 0)
  on conflict (kind, address) do update set
    count = case when a.window_start <= p_began_after then 0 else a.count end,
    window_start = case when a.window_start <= p_began_after then excluded.window_start else a.window_start end
  returning a.count, a.window_start into v_failures, began;
  if v_failures < p_most then
    select g.id, g.user_code, g.client, g.client_address, g.created_at, g.expires_at
    into id, user_code, client, client_address, created_at, expires_at
    from device_grants g where g.user_code = p_code and g.status = 'pending' and g.expires_at > p_now;
    if found then
      failures := v_failures;
      return next;
      return;
    end if;
  end if;
  -- Counting stops at two too many: who goes on gains nothing.
  failures := least(v_failures, p_most + 1) + 1;
  update attempts a set count = failures where a.kind = 'code_submission' and a.address = p_address;
  return next;
end $$;
`;

/** What is known of people beyond their sessions. */
export const people: SchemaMigration = {
  name: '0012_people',
  async up(knex) {
    for (const statements of [STATUS, SERVICE_TOKENS, CODES]) await knex.raw(statements);
  },
};
