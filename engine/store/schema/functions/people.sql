-- Each function locks first and reads then, so that of several replicas that ask at the same moment one wins and the others
-- see that it did. All take their locks in one order: sign-in, person, session, access tokens. The time is the caller's.

-- Why an account of the identity provider is not the person with its address: another account is (of this provider or of
-- another one), or administrators made access tokens for the address before anybody signed in. Null when it is.
create function account_problem(p_person jsonb) returns text
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

-- Writes down what the identity provider says about a person, and returns the id of the principal; null, and nothing is
-- written, where the account may not have the address.
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
  if account_problem(p_person) is not null then
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

-- Writes down what the identity provider said of somebody whose session nobody renews. False where the session has ended,
-- or the address belongs to another account.
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

-- Access tokens somebody made are refused until they are verified again. False where they were already.
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

-- Tells every gateway that an access token is revoked, and writes down who did it and why.
create function tell_revoked(
  p_token access_tokens, p_email text, p_because text, p_actor_kind text, p_actor text, p_now timestamptz
) returns void
language plpgsql as $$
begin
  perform pg_notify('appscli_tokens', encode(p_token.hash, 'base64'));
  insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
  values (p_now, p_actor_kind, p_actor, 'token.revoke', p_token.id,
    jsonb_build_object('user', p_email, 'group', p_token.token_group, 'name', p_token.name,
      'expires_at', p_token.expires_at),
    jsonb_build_object('revoked_at', p_now, 'because', p_because));
end $$;

-- Lets an address go to another account: that of p_subject at p_issuer, or, where both are null, the next that signs in with it.
-- Sessions and sign-ins under way end; with p_with_tokens all access tokens, too.
create function rebind_person(
  p_email text, p_issuer text, p_subject text, p_with_tokens boolean, p_actor_kind text, p_actor text, p_now timestamptz
) returns table (known boolean, sessions integer, tokens integer)
language plpgsql as $$
declare
  v_token access_tokens;
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
  for v_token in
    update access_tokens t set revoked_at = p_now
    where p_with_tokens and t.principal_id = v_former.id and t.revoked_at is null
    returning t.*
  loop
    perform tell_revoked(v_token, p_email, v_because, p_actor_kind, p_actor, p_now);
    tokens := tokens + 1;
  end loop;
  update principals p set issuer = p_issuer, subject = p_subject, open_to_sign_in = p_subject is null
  where p.id = v_former.id;
  insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
  values (p_now, p_actor_kind, p_actor, 'person.rebind', p_email,
    jsonb_build_object('issuer', v_former.issuer, 'subject', v_former.subject),
    jsonb_build_object('issuer', p_issuer, 'subject', p_subject, 'sessions', sessions, 'tokens', tokens));
  return next;
end $$;

-- Ends everything of a person. Each statement sees what the one before waited for: a sign-in that turns into a session, or a
-- session that makes a token, at this very moment ends as well.
create function deprovision(
  p_email text, p_tokens text, p_because text, p_actor_kind text, p_actor text, p_now timestamptz
) returns table (known boolean, sessions integer, tokens integer)
language plpgsql as $$
declare
  v_token access_tokens;
  v_principal text := 'user:' || p_email;
  v_ended record;
  v_tokens_before integer;
begin
  sessions := 0;
  tokens := 0;
  update device_grants g set status = 'denied', person = null, sealed_grant = null
  where g.status = 'approved' and g.person ->> 'email' = p_email;
  perform 1 from principals where id = v_principal for no key update;
  known := found;
  if known then
    insert into admin_changes (at, actor_kind, actor, action, subject, after)
    values (p_now, p_actor_kind, p_actor, 'person.deprovision', p_email,
      jsonb_build_object('because', p_because, 'tokens', p_tokens));
  end if;
  for v_ended in
    update sessions s
    set revoked_at = p_now, revoked_because = p_because, sealed_grant = '', refreshing_until = null
    where s.principal_id = v_principal and s.revoked_at is null
    returning s.id, s.expires_at > p_now as mattered, s.client, s.created_at
  loop
    perform pg_notify('appscli_sessions', v_ended.id);
    continue when not v_ended.mattered;
    sessions := sessions + 1;
    insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
    values (p_now, p_actor_kind, p_actor, 'session.end', v_ended.id,
      jsonb_build_object('user', p_email, 'client', v_ended.client, 'created_at', v_ended.created_at),
      jsonb_build_object('revoked_at', p_now, 'because', p_because));
  end loop;
  if p_tokens = 'suspend' then
    update principals set blocked_at = p_now where id = v_principal;
    perform pg_notify('appscli_tokens', encode(hash, 'base64'))
    from access_tokens where principal_id = v_principal and self_service and revoked_at is null;
  end if;
  -- Whoever was waited for may have replaced a token: once more, until there is none.
  loop
    v_tokens_before := tokens;
    for v_token in
      update access_tokens t set revoked_at = p_now
      where t.principal_id = v_principal and t.revoked_at is null and (t.expires_at is null or t.expires_at > p_now)
        and (p_tokens = 'all' or p_tokens = 'self_service' and t.self_service)
      returning t.*
    loop
      perform tell_revoked(v_token, p_email, p_because, p_actor_kind, p_actor, p_now);
      tokens := tokens + 1;
    end loop;
    exit when tokens = v_tokens_before;
  end loop;
  return next;
end $$;

-- A function of its own sees what others committed while the caller's statement waited for the principal.
create function self_made_in_force(p_principal text, p_now timestamptz) returns bigint
language sql volatile as $$
  select count(*) from access_tokens t
  where t.principal_id = p_principal and t.self_service and t.revoked_at is null
    and (t.expires_at is null or t.expires_at > p_now)
$$;
