-- A user code that somebody enters. Of an address that entered p_most wrong ones no further code is looked up. The row of the
-- address is locked first, so that codes tried at once are judged one after the other.
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

-- What a device learns that asks for its session. The answer to a device that collects it may get lost: with the same device
-- code it is given once more what it was given, unless that was used to renew by then. A later use is not the device's, or
-- somebody else has what the device got, so the session ends (RFC 6749 section 4.1.2).
create function collect_device_grant(
  p_device_code_hash bytea, p_now timestamptz, p_polled_before timestamptz, p_repeated_since timestamptz, p_session text,
  p_refresh_hash bytea, p_sealed_refresh text, p_session_expires_at timestamptz
) returns table (outcome text, session_id text, person jsonb, sealed_refresh text, ended boolean)
language plpgsql as $$
declare
  v_grant device_grants;
  v_principal text;
begin
  select g.* into v_grant from device_grants g where g.device_code_hash = p_device_code_hash for no key update;
  if not found then
    outcome := 'unknown';
  elsif v_grant.status = 'redeemed' then
    session_id := v_grant.session_id;
    select s.person into person from sessions s
    where s.id = v_grant.session_id and s.revoked_at is null and v_grant.redeemed_at > p_repeated_since
      and not exists (select from refresh_tokens t where t.session_id = s.id and t.used_at is not null);
    if found then
      outcome := 'repeated';
      sealed_refresh := v_grant.sealed_refresh;
    else
      outcome := 'unknown';
      ended := end_session(v_grant.session_id, 'its device code was used again', 'gateway', 'sign-in', p_now);
      update device_grants g set sealed_refresh = null where g.id = v_grant.id;
    end if;
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
    if v_principal is null then
      update device_grants g set status = 'denied', person = null, sealed_grant = null where g.id = v_grant.id;
      outcome := 'denied';
    else
      insert into sessions
        (id, principal_id, person, sealed_grant, client, client_address, created_at, checked_at, expires_at)
      values (p_session, v_principal, v_grant.person, v_grant.sealed_grant, v_grant.client, v_grant.client_address,
        p_now, p_now, p_session_expires_at);
      insert into refresh_tokens (hash, session_id, created_at) values (p_refresh_hash, p_session, p_now);
      update device_grants g
      set status = 'redeemed', person = null, sealed_grant = null, redeemed_at = p_now, session_id = p_session,
        sealed_refresh = p_sealed_refresh
      where g.id = v_grant.id;
      perform end_refused_sessions(p_session, p_now);
      outcome := 'signed_in';
      session_id := p_session;
      person := v_grant.person;
      sealed_refresh := p_sealed_refresh;
    end if;
  end if;
  return next;
end $$;
