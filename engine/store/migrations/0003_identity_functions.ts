/*
 * Each function locks first and reads then, so that of several replicas that ask at the same moment one wins and the
 * others see that it did. All take their locks in one order: grant, principal, session. The time is the caller's.
 */

const PEOPLE = `
-- Where no actor is named, it is the person of the session.
create function end_session(
  p_session text, p_because text, p_actor_kind text, p_actor text, p_now timestamptz
) returns boolean
language plpgsql as $$
declare
  v_ended record;
begin
  update sessions set revoked_at = p_now, revoked_because = p_because, sealed_grant = '', refreshing_until = null
  where id = p_session and revoked_at is null
  returning person ->> 'email' as email, client, created_at into v_ended;
  if not found then
    return false;
  end if;
  perform pg_notify('appscli_sessions', p_session);
  insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
  values (p_now, p_actor_kind, coalesce(p_actor, v_ended.email), 'session.end', p_session,
    jsonb_build_object('user', v_ended.email, 'client', v_ended.client, 'created_at', v_ended.created_at),
    jsonb_build_object('revoked_at', p_now, 'because', p_because));
  return true;
end $$;

create function end_sessions_of(p_principal text, p_because text, p_now timestamptz) returns void
language plpgsql as $$
declare
  v_ended record;
begin
  for v_ended in
    select id from sessions where principal_id = p_principal and revoked_at is null
  loop
    perform end_session(v_ended.id, p_because, 'gateway', 'sign-in', p_now);
  end loop;
end $$;

create function end_tokens_of(p_principal text, p_because text, p_now timestamptz) returns void
language plpgsql as $$
declare
  v_ended record;
begin
  for v_ended in
    update access_tokens set revoked_at = p_now
    where principal_id = p_principal and revoked_at is null returning id, hash, token_group, name, expires_at
  loop
    perform pg_notify('appscli_tokens', encode(v_ended.hash, 'base64'));
    insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
    values (p_now, 'gateway', 'sign-in', 'token.revoke', v_ended.id,
      jsonb_build_object('user', substr(p_principal, 6), 'group', v_ended.token_group, 'name', v_ended.name,
        'expires_at', v_ended.expires_at),
      jsonb_build_object('revoked_at', p_now, 'because', p_because));
  end loop;
end $$;

-- Somebody whose address changed at the identity provider keeps the access tokens they made themselves.
create function move_own_tokens(p_from text, p_to text, p_now timestamptz) returns void
language plpgsql as $$
declare
  v_moved record;
begin
  for v_moved in
    update access_tokens set principal_id = p_to
    where principal_id = p_from and self_service and revoked_at is null returning id, hash
  loop
    perform pg_notify('appscli_tokens', encode(v_moved.hash, 'base64'));
    insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
    values (p_now, 'gateway', 'sign-in', 'token.move', v_moved.id,
      jsonb_build_object('owner', p_from), jsonb_build_object('owner', p_to));
  end loop;
end $$;

-- Writes down what the identity provider says about a person, and returns the id of the principal.
create function note_person(p_person jsonb, p_now timestamptz) returns text
language plpgsql as $$
declare
  v_id text := 'user:' || (p_person ->> 'email');
  v_groups text[] := array(select jsonb_array_elements_text(p_person -> 'groups'));
  v_former principals;
  v_other record;
begin
  insert into principals (id, email, created_at) values (v_id, p_person ->> 'email', p_now) on conflict (id) do nothing;
  select * into v_former from principals where id = v_id for no key update;
  if v_former.issuer <> p_person ->> 'issuer' then
    -- The operator changed the provider, and its people keep their tokens: only the former one's word is void.
    perform end_sessions_of(v_id, 'the identity provider was changed', p_now);
  elsif v_former.subject <> p_person ->> 'subject' then
    perform end_sessions_of(v_id, 'the e-mail address now belongs to somebody else', p_now);
    perform end_tokens_of(v_id, 'the e-mail address now belongs to somebody else', p_now);
  elsif v_former.groups is distinct from v_groups or v_former.blocked_at is not null then
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
    groups = v_groups, signed_in_at = p_now, blocked_at = null
  where id = v_id;
  return v_id;
end $$;
`;

const ACCESS_TOKENS = `
-- A function of its own sees what others committed while the caller's statement waited for the principal.
create function self_made_in_force(p_principal text, p_now timestamptz) returns bigint
language sql volatile as $$
  select count(*) from access_tokens t
  where t.principal_id = p_principal and t.self_service and t.revoked_at is null
    and (t.expires_at is null or t.expires_at > p_now)
$$;
`;

const REFRESH_TOKENS = `
create function begin_refresh(p_hash bytea, p_now timestamptz, p_busy_until timestamptz)
returns table (outcome text, id text, person jsonb, sealed_grant text)
language plpgsql as $$
declare
  v_session sessions;
  v_used_at timestamptz;
begin
  select s.* into v_session from sessions s
  where s.id = (select t.session_id from refresh_tokens t where t.hash = p_hash) for no key update;
  if not found then
    return query select 'unknown', null::text, null::jsonb, null::text;
    return;
  end if;
  select t.used_at into v_used_at from refresh_tokens t where t.hash = p_hash;
  if v_session.revoked_at is not null then
    outcome := 'revoked';
  elsif v_used_at is not null then
    perform end_session(v_session.id, 'a refresh token was used twice', 'gateway', 'sign-in', p_now);
    outcome := 'reused';
  elsif v_session.expires_at <= p_now then
    outcome := 'expired';
  elsif v_session.refreshing_until > p_now then
    outcome := 'busy';
  else
    update sessions s set refreshing_until = p_busy_until where s.id = v_session.id;
    return query select 'ready', v_session.id, v_session.person, v_session.sealed_grant;
    return;
  end if;
  return next;
end $$;

create function finish_refresh(
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
`;

const DEVICE_CODES = `
create function poll_device_grant(
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
    update device_grants g set status = 'redeemed', person = null, sealed_grant = null where g.id = v_grant.id;
    v_principal := note_person(v_grant.person, p_now);
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

/** Functions over the tables of sign-in. */
export const IDENTITY_FUNCTIONS = [PEOPLE, ACCESS_TOKENS, REFRESH_TOKENS, DEVICE_CODES].join('\n');
