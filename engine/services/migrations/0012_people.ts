import type { SchemaMigration } from '../migrate.ts';

const STANDING = `
-- When the identity provider was last asked about somebody who does not renew a session, whatever it said; and until when
-- what they made goes on although nobody vouched for them for too long, because the provider could not be asked.
alter table principals add column asked_at timestamptz, add column rest_put_off_until timestamptz;

-- Access tokens somebody made are refused from now on, until they are let in again. False where they were already.
create function rest_person(p_email text, p_because text, p_now timestamptz) returns boolean
language plpgsql as $$
declare
  v_id text := 'user:' || p_email;
begin
  update principals set barred_at = p_now where id = v_id and barred_at is null;
  if not found then
    return false;
  end if;
  perform pg_notify('appscli_tokens', encode(hash, 'base64'))
  from access_tokens where principal_id = v_id and self_service and revoked_at is null;
  insert into admin_changes (at, actor_kind, actor, action, subject, after)
  values (p_now, 'gateway', 'sign-in', 'person.rest', p_email, jsonb_build_object('because', p_because));
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

/** What is known of people beyond their sessions. */
export const people: SchemaMigration = {
  name: '0012_people',
  async up(knex) {
    await knex.raw(STANDING);
  },
};
