/*
 * Sign-ins first, the person next, then sessions, access tokens last, and each statement sees what the one before waited for: a
 * sign-in that turns into a session, or a session that makes a token, at this very moment ends as well.
 */

/** What ends everything of a person. The time is the caller's. */
export const CUT_OFF_FUNCTION = `
create function cut_off(
  p_email text, p_tokens text, p_because text, p_actor_kind text, p_actor text, p_now timestamptz
) returns table (known boolean, sessions integer, tokens integer)
language plpgsql as $$
declare
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
    values (p_now, p_actor_kind, p_actor, 'person.cut_off', p_email,
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
  -- Whoever was waited for may have put another in its place: once more, until there is none.
  loop
    v_tokens_before := tokens;
    for v_ended in
      update access_tokens t set revoked_at = p_now
      where t.principal_id = v_principal and t.revoked_at is null and (t.expires_at is null or t.expires_at > p_now)
        and (p_tokens = 'all' or p_tokens = 'self_service' and t.self_service)
      returning t.id, t.hash, t.token_group, t.name, t.expires_at
    loop
      perform pg_notify('appscli_tokens', encode(v_ended.hash, 'base64'));
      tokens := tokens + 1;
      insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
      values (p_now, p_actor_kind, p_actor, 'token.revoke', v_ended.id,
        jsonb_build_object('user', p_email, 'group', v_ended.token_group, 'name', v_ended.name,
          'expires_at', v_ended.expires_at),
        jsonb_build_object('revoked_at', p_now, 'because', p_because));
    end loop;
    exit when tokens = v_tokens_before;
  end loop;
  return next;
end $$;
`;
