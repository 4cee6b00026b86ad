-- For the order of locks see people.sql.

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

-- Somebody whose program was told that its refresh token is a replaced one signs in again with it: who has the newer one
-- is not them. Sessions of other programs, and those that went on from where the refusal was, are not concerned.
create function end_refused_sessions(p_session text, p_now timestamptz) returns integer
language plpgsql as $$
declare
  v_ended record;
  v_count integer := 0;
begin
  for v_ended in
    select s.id from sessions s join sessions anew on anew.id = p_session
    where s.principal_id = anew.principal_id and s.id <> anew.id and s.revoked_at is null and s.expires_at > p_now
      and s.refused_at is not null and split_part(s.client, '/', 1) = split_part(anew.client, '/', 1)
  loop
    perform end_session(v_ended.id, 'its person signed in again after a replaced refresh token was refused',
      'gateway', 'sign-in', p_now);
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;

-- Begins to renew a session. Those may who have the newest refresh token, or the one before as long as nothing shows that what
-- replaced it arrived: no request came with a session token that was issued since. A token that was replaced a moment ago, and
-- has a successor, gives that once more.
create function begin_renewal(
  p_hash bytea, p_from text, p_now timestamptz, p_busy_until timestamptz, p_repeated_since timestamptz
) returns table (outcome text, id text, person jsonb, sealed_grant text, successor text)
language plpgsql as $$
declare
  v_session sessions;
  v_token refresh_tokens;
  v_is_previous boolean;
begin
  select s.* into v_session from sessions s
  where s.id = (select t.session_id from refresh_tokens t where t.hash = p_hash) for no key update;
  if not found then
    outcome := 'unknown';
    return next;
    return;
  end if;
  select t.* into v_token from refresh_tokens t where t.hash = p_hash;
  v_is_previous := v_token.used_at is not null and exists (
    select from refresh_tokens t where t.hash = v_token.replaced_by and t.used_at is null
  );
  if v_session.revoked_at is not null then
    outcome := 'revoked';
  elsif v_session.expires_at <= p_now then
    outcome := 'expired';
  elsif v_is_previous and v_token.successor is not null and v_token.used_at > p_repeated_since then
    return query select 'repeated', v_session.id, v_session.person, null::text, v_token.successor;
    return;
  elsif v_token.used_at is not null
    and not (v_is_previous and coalesce(v_session.seen_at < date_trunc('second', v_session.renewed_at), true)) then
    update sessions s set refused_at = p_now, refused_from = p_from
    where s.id = v_session.id and s.renewed_from is distinct from p_from;
    outcome := 'replaced';
    id := v_session.id;
    person := v_session.person;
  elsif v_session.refreshing_until > p_now then
    outcome := 'busy';
  else
    update sessions s set refreshing_until = p_busy_until where s.id = v_session.id;
    return query select 'ready', v_session.id, v_session.person, v_session.sealed_grant, null::text;
    return;
  end if;
  return next;
end $$;

-- Replaces the token p_hash by a new one. Where it was replaced before, and nothing shows that this reached its client, what
-- replaced it is replaced as well: whoever has that, such as a thief who renewed first and then kept quiet, is not on the same
-- footing as who asks now. Whichever of the two is seen first then rules the other out. Null: the session was ended, or the
-- token was replaced meanwhile by a renewal that this one had no part in.
create function finish_renewal(
  p_session text, p_hash bytea, p_from text, p_person jsonb, p_sealed_grant text, p_new_hash bytea, p_successor text,
  p_now timestamptz
) returns text
language plpgsql as $$
declare
  v_principal text;
  v_token refresh_tokens;
  v_is_unseen boolean;
  v_issued_at timestamptz;
begin
  perform 1 from principals where id = 'user:' || (p_person ->> 'email') for no key update;
  -- Before anything is written: an ended session has no say in whose an address is.
  select coalesce(s.seen_at < date_trunc('second', s.renewed_at), true),
         date_trunc('second', coalesce(s.renewed_at, s.created_at))
  into v_is_unseen, v_issued_at
  from sessions s where s.id = p_session and s.revoked_at is null for no key update;
  if not found then
    return null;
  end if;
  select t.* into v_token from refresh_tokens t where t.session_id = p_session and t.hash = p_hash;
  if not found or v_token.used_at is not null and not exists (
    select from refresh_tokens t where t.hash = v_token.replaced_by and t.used_at is null
  ) then
    return null;
  end if;
  v_principal := note_person(p_person, p_now);
  if v_principal is null then
    perform end_session(p_session, 'the e-mail address belongs to another account', 'gateway', 'sign-in', p_now);
    return null;
  end if;
  update sessions
  set principal_id = v_principal, person = p_person, sealed_grant = p_sealed_grant, checked_at = p_now,
    refreshing_until = null, renewed_from = p_from,
    -- Session tokens tell seconds: of two in one second the first must not count as a sign of the second.
    renewed_at = case
      when v_issued_at < date_trunc('second', p_now) then p_now
      else date_trunc('second', p_now) + interval '1 second'
    end,
    refused_at = case when refused_from is distinct from p_from then refused_at end,
    refused_from = nullif(refused_from, p_from)
  where id = p_session and revoked_at is null;
  if not found then
    return null;
  end if;
  if v_token.used_at is not null and (not v_is_unseen or v_token.used_at > p_now - interval '30 seconds') then
    -- Another renewal took over from this one, which was away for too long, and the token is one that gives the same again.
    update refresh_tokens set used_at = p_now where hash = p_hash;
    return v_token.successor;
  end if;
  if v_token.used_at is not null then
    update refresh_tokens set replaced_by = p_new_hash, successor = null where replaced_by = v_token.replaced_by;
    update refresh_tokens set used_at = p_now, replaced_by = p_new_hash where hash = v_token.replaced_by;
  else
    -- What is older than the token before the newest one is good for nothing.
    update refresh_tokens set successor = null where replaced_by = p_hash;
  end if;
  update refresh_tokens set used_at = p_now, replaced_by = p_new_hash, successor = p_successor where hash = p_hash;
  insert into refresh_tokens (hash, session_id, created_at) values (p_new_hash, p_session, p_now);
  return p_successor;
end $$;

-- A trigger, since sessions end in many functions. The sealed grant leaves the session in any case: where one waits here, the
-- gateway that has the key tells the provider, and removes it.
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
