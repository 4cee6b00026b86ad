import type { SchemaMigration } from '../migrate.ts';

const COLUMNS = `
-- What a token was replaced by, and that token itself, sealed under the one it replaced: only who has that can open it.
alter table refresh_tokens add column replaced_by bytea, add column successor text;

-- renewed_at, renewed_from: when and from where the newest refresh token was asked for. seen_at: when the newest session token
-- that came with a request was issued. refused_at, refused_from: the last refusal of a replaced refresh token from an address
-- that has not renewed the session since.
alter table sessions
  add column renewed_at timestamptz,
  add column renewed_from text,
  add column seen_at timestamptz,
  add column refused_at timestamptz,
  add column refused_from text;
`;

const RENEWAL = `
-- The first of three answers is for renewals of the newest token, and of the one before as long as nothing shows that
-- what replaced it arrived: no request came with a session token that was issued since.
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
  v_is_previous := v_token.successor is not null and exists (
    select from refresh_tokens t where t.hash = v_token.replaced_by and t.used_at is null
  );
  if v_session.revoked_at is not null then
    outcome := 'revoked';
  elsif v_session.expires_at <= p_now then
    outcome := 'expired';
  elsif v_is_previous and v_token.used_at > p_repeated_since then
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

-- Replaces the token p_hash by a new one, or says again what it was replaced by. Null: the session was ended, or the token
-- was replaced meanwhile by a renewal that this one had no part in.
create function finish_renewal(
  p_session text, p_hash bytea, p_from text, p_person jsonb, p_sealed_grant text, p_new_hash bytea, p_successor text,
  p_now timestamptz
) returns text
language plpgsql as $$
declare
  v_principal text;
  v_token refresh_tokens;
begin
  perform 1 from principals where id = 'user:' || (p_person ->> 'email') for no key update;
  -- Before anything is written: an ended session has no say in whose an address is.
  perform 1 from sessions where id = p_session and revoked_at is null for no key update;
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
    refreshing_until = null, renewed_at = p_now, renewed_from = p_from,
    refused_at = case when refused_from is distinct from p_from then refused_at end,
    refused_from = nullif(refused_from, p_from)
  where id = p_session and revoked_at is null;
  if not found then
    return null;
  end if;
  if v_token.used_at is not null then
    update refresh_tokens set used_at = p_now where hash = p_hash;
    return v_token.successor;
  end if;
  -- What is older than the token before the newest one is good for nothing.
  update refresh_tokens set successor = null where replaced_by = p_hash;
  update refresh_tokens set used_at = p_now, replaced_by = p_new_hash, successor = p_successor where hash = p_hash;
  insert into refresh_tokens (hash, session_id, created_at) values (p_new_hash, p_session, p_now);
  return p_successor;
end $$;

create index on refresh_tokens (replaced_by) where replaced_by is not null;

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
`;

/**
 * Refresh tokens that come again end no session. What gateways of the version before call, `begin_refresh` and
 * `finish_refresh`, stays for as long as some of them run.
 */
export const sessions: SchemaMigration = {
  name: '0011_sessions',
  async up(knex) {
    for (const statements of [COLUMNS, RENEWAL]) await knex.raw(statements);
  },
};
