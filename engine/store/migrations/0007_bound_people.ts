import type { SchemaMigration } from '../migrate.ts';

const COLUMNS = `
-- Set by an administrator: the next account that signs in with this address is the person's, whoever had it before.
alter table principals add column open_to_sign_in boolean not null default false;
`;

const BINDING = `
-- Why an account of the identity provider is not the person whose address it tells: another account is (of this provider or
-- of another one), or administrators made access tokens for the address before anybody signed in. Null: nothing is in the way.
create function claim_problem(p_person jsonb) returns text
language plpgsql as $$
declare
  v_found principals;
begin
  select * into v_found from principals where id = 'user:' || (p_person ->> 'email');
  if not found or v_found.open_to_sign_in then
    return null;
  elsif v_found.subject is not null then
    return case
      when rtrim(v_found.issuer, '/') is distinct from rtrim(p_person ->> 'issuer', '/') then 'other_provider'
      when v_found.subject <> p_person ->> 'subject' then 'other_account'
    end;
  elsif exists (select from access_tokens t where t.principal_id = v_found.id and not t.self_service) then
    return 'administrator_made';
  end if;
  return null;
end $$;

-- Writes down what the identity provider says about a person, and returns the id of the principal; null, and nothing is
-- written, where the account may not have the address.
create or replace function note_person(p_person jsonb, p_now timestamptz) returns text
language plpgsql as $$
declare
  v_id text := 'user:' || (p_person ->> 'email');
  v_groups text[] := array(select jsonb_array_elements_text(p_person -> 'groups'));
  v_former principals;
  v_other record;
begin
  insert into principals (id, email, created_at) values (v_id, p_person ->> 'email', p_now) on conflict (id) do nothing;
  select * into v_former from principals where id = v_id for no key update;
  if claim_problem(p_person) is not null then
    return null;
  end if;
  if v_former.groups is distinct from v_groups or v_former.blocked_at is not null then
    perform pg_notify('appscli_tokens', encode(hash, 'base64'))
    from access_tokens where principal_id = v_id and revoked_at is null;
  end if;
  for v_other in
    select id from principals where issuer = p_person ->> 'issuer' and subject = p_person ->> 'subject' and id <> v_id
  loop
    perform move_own_tokens(v_other.id, v_id, p_now);
  end loop;
  update principals
  set issuer = p_person ->> 'issuer', subject = p_person ->> 'subject', name = p_person ->> 'name',
    groups = v_groups, signed_in_at = p_now, blocked_at = null, open_to_sign_in = false
  where id = v_id;
  return v_id;
end $$;
`;

const SIGN_IN = `
create or replace function finish_refresh(
  p_session text, p_person jsonb, p_sealed_grant text, p_new_hash bytea, p_now timestamptz
) returns boolean
language plpgsql as $$
declare
  v_principal text;
begin
  perform 1 from principals where id = 'user:' || (p_person ->> 'email') for no key update;
  -- Before anything is written: an ended session has no say in whose an address is.
  perform 1 from sessions where id = p_session and revoked_at is null for no key update;
  if not found then
    return false;
  end if;
  v_principal := note_person(p_person, p_now);
  if v_principal is null then
    perform end_session(p_session, 'the e-mail address belongs to another account', 'gateway', 'sign-in', p_now);
    return false;
  end if;
  update sessions
  set principal_id = v_principal, person = p_person, sealed_grant = p_sealed_grant, checked_at = p_now,
    refreshing_until = null
  where id = p_session and revoked_at is null;
  if not found then
    return false;
  end if;
  update refresh_tokens set used_at = p_now where session_id = p_session and used_at is null;
  insert into refresh_tokens (hash, session_id, created_at) values (p_new_hash, p_session, p_now);
  return true;
end $$;

create or replace function poll_device_grant(
  p_device_code_hash bytea, p_now timestamptz, p_polled_before timestamptz, p_session text, p_refresh_hash bytea,
  p_session_expires_at timestamptz
) returns table (outcome text, person jsonb)
language plpgsql as $$
declare
  v_grant device_grants;
  v_principal text;
begin
  select g.* into v_grant from device_grants g where g.device_code_hash = p_device_code_hash for no key update;
  if not found or v_grant.status = 'redeemed' then
    outcome := 'unknown';
  elsif v_grant.status = 'denied' then
    outcome := 'denied';
  elsif v_grant.expires_at <= p_now then
    outcome := 'expired';
  elsif v_grant.status = 'pending' and v_grant.polled_at > p_polled_before then
    outcome := 'slow_down';
  elsif v_grant.status = 'pending' then
    update device_grants g set polled_at = p_now where g.id = v_grant.id;
    outcome := 'pending';
  else
    v_principal := note_person(v_grant.person, p_now);
    update device_grants g
    set status = case when v_principal is null then 'denied' else 'redeemed' end, person = null, sealed_grant = null
    where g.id = v_grant.id;
    if v_principal is null then
      outcome := 'denied';
      return next;
      return;
    end if;
    insert into sessions
      (id, principal_id, person, sealed_grant, client, client_address, created_at, checked_at, expires_at)
    values (p_session, v_principal, v_grant.person, v_grant.sealed_grant, v_grant.client, v_grant.client_address,
      p_now, p_now, p_session_expires_at);
    insert into refresh_tokens (hash, session_id, created_at) values (p_refresh_hash, p_session, p_now);
    outcome := 'signed_in';
    person := v_grant.person;
  end if;
  return next;
end $$;
`;

const REBINDING = `
-- Lets an address go to another account: that of p_subject at p_issuer, or, where both are null, the next that signs in with it.
-- Sessions and sign-ins under way end; with p_with_tokens all access tokens, too. Locks as cut_off does: sign-ins first.
create function rebind_person(
  p_email text, p_issuer text, p_subject text, p_with_tokens boolean, p_actor_kind text, p_actor text, p_now timestamptz
) returns table (known boolean, sessions integer, tokens integer)
language plpgsql as $$
declare
  v_former principals;
  v_because text := 'the e-mail address was bound to another account';
  v_ended record;
begin
  sessions := 0;
  tokens := 0;
  update device_grants g set status = 'denied', person = null, sealed_grant = null
  where g.status = 'approved' and g.person ->> 'email' = p_email;
  select * into v_former from principals p where p.id = 'user:' || p_email for no key update;
  known := found;
  if not known then
    return next;
    return;
  end if;
  for v_ended in
    select s.id, s.expires_at > p_now as mattered from sessions s
    where s.principal_id = v_former.id and s.revoked_at is null
  loop
    perform end_session(v_ended.id, v_because, p_actor_kind, p_actor, p_now);
    sessions := sessions + v_ended.mattered::integer;
  end loop;
  for v_ended in
    update access_tokens t set revoked_at = p_now
    where p_with_tokens and t.principal_id = v_former.id and t.revoked_at is null
    returning t.id, t.hash, t.token_group, t.name, t.expires_at
  loop
    perform pg_notify('appscli_tokens', encode(v_ended.hash, 'base64'));
    tokens := tokens + 1;
    insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
    values (p_now, p_actor_kind, p_actor, 'token.revoke', v_ended.id,
      jsonb_build_object('user', p_email, 'group', v_ended.token_group, 'name', v_ended.name,
        'expires_at', v_ended.expires_at),
      jsonb_build_object('revoked_at', p_now, 'because', v_because));
  end loop;
  update principals p set issuer = p_issuer, subject = p_subject, open_to_sign_in = p_subject is null
  where p.id = v_former.id;
  insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
  values (p_now, p_actor_kind, p_actor, 'person.rebind', p_email,
    jsonb_build_object('issuer', v_former.issuer, 'subject', v_former.subject),
    jsonb_build_object('issuer', p_issuer, 'subject', p_subject, 'sessions', sessions, 'tokens', tokens));
  return next;
end $$;
`;

/** People are bound to the account that signed in first; only an administrator binds an address to another one. */
export const boundPeople: SchemaMigration = {
  name: '0007_bound_people',
  async up(knex) {
    for (const statements of [COLUMNS, BINDING, SIGN_IN, REBINDING]) await knex.raw(statements);
  },
};
