-- People, their sessions, and their access tokens.

-- One row for each person, for all e-mail addresses of tokens and sign-ins.
create table principals (
  id text primary key,
  email text not null,
 -- The account at the identity provider; null before the first sign-in.
  issuer text,
  subject text,
  name text,
 -- Groups of the latest sign-in.
  groups text[] not null default '{}',
  signed_in_at timestamptz,
 -- Since when the personal access tokens are suspended.
  blocked_at timestamptz,
 -- Set by an administrator: the next account that signs in with this address becomes the account of the person.
  open_to_sign_in boolean not null default false,
 -- Last account check at the identity provider for a person without a renewing session, with any result.
  asked_at timestamptz,
 -- Grace period of their tokens while the identity provider is unavailable for account checks.
  suspension_put_off_until timestamptz,
  created_at timestamptz not null default now()
);
create index on principals (issuer, subject) where subject is not null;

create table access_tokens (
  id text primary key,
  hash bytea not null unique,
  prefix text not null,
  principal_id text not null references principals (id),
  token_group text not null,
  name text not null,
  team text,
  project text,
  created_at timestamptz not null default now(),
  created_by text not null default 'command',
  self_service boolean not null default false,
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  replaced_by text references access_tokens (id)
);
create index on access_tokens (principal_id, name);

-- Service credentials for the admin API. The owner is responsible for it; null if it was created by a command.
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
 -- Since when its owner is known not to be an administrator.
  unowned_since timestamptz
);

create table sessions (
  id text primary key,
  principal_id text not null references principals (id),
  person jsonb not null,
  sealed_grant text not null,
  client text not null,
  client_address text not null,
  created_at timestamptz not null,
  checked_at timestamptz not null,
  expires_at timestamptz not null,
  refreshing_until timestamptz,
 -- Time and address of the latest renewal.
  renewed_at timestamptz,
  renewed_from text,
 -- Issue time of the newest session token seen in a request.
  seen_at timestamptz,
 -- Last rejection of a replaced refresh token, from an address that has not renewed the session since.
  refused_at timestamptz,
  refused_from text,
  revoked_at timestamptz,
  revoked_because text,
 -- `client`: a program that signed in with a device code; `console`: a browser, with its cookie in console_sessions.
  kind text not null default 'client'
);
create index on sessions (principal_id);
create index on sessions (expires_at);
create index on sessions (revoked_at) where revoked_at is not null;

create table refresh_tokens (
  hash bytea primary key,
  session_id text not null references sessions (id) on delete cascade,
  created_at timestamptz not null,
  used_at timestamptz,
 -- Hash of the replacing token, and that token encrypted under this one, so that only the holder of this one can decrypt it.
  replaced_by bytea,
  successor text,
 -- When the token was first rejected because the replacing one is in use.
  refused_at timestamptz
);
create index on refresh_tokens (session_id);
create index on refresh_tokens (replaced_by) where replaced_by is not null;

-- Pending device sign-ins (RFC 8628).
create table device_grants (
  id text primary key,
  device_code_hash bytea not null unique,
  user_code text not null unique,
  status text not null default 'pending' check (status in ('pending', 'approved', 'denied', 'redeemed')),
  client text not null,
  client_address text not null,
  surface text,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  polled_at timestamptz,
  state_hash bytea unique,
  person jsonb,
  sealed_grant text,
 -- Message for the waiting device; null if the person declined.
  denied_because text,
 -- When the device received the message.
  heard_at timestamptz,
 -- For a collected sign-in: time, session, and first refresh token of the session, encrypted under the device code.
  redeemed_at timestamptz,
  session_id text,
  sealed_refresh text
);
create index on device_grants (expires_at);

create table attempts (
  kind text not null,
  address text not null,
  window_start timestamptz not null,
  count integer not null,
  primary key (kind, address)
);
create index on attempts (window_start);

-- Rejected sign-ins with their reason, for administrators; kept for days, and only a few for each address.
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

-- Grants at the identity provider of ended sessions. A gateway with the key revokes them there, and removes the row.
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

-- Ids of the verification keys of gateways, with the last report of each.
create table signing_keys (
  id text primary key,
  seen_at timestamptz not null
);

-- Console cookies of browsers; their sessions are in `sessions`.
create table console_sessions (
  hash bytea primary key,
  session_id text references sessions (id) on delete cascade,
 -- Without sign-in: who printed the link that opened it, as user@host.
  operator text,
  created_at timestamptz not null,
  seen_at timestamptz not null,
 -- Idle expiry, and absolute expiry.
  expires_at timestamptz not null,
  ends_at timestamptz not null,
 -- Replaced by another cookie; requests in flight still carry this one.
  replaced boolean not null default false,
  check ((session_id is null) <> (operator is null))
);
create index on console_sessions (session_id);
create index on console_sessions (expires_at);

-- Links that open the console of a gateway without sign-in, until they are used or expired.
create table console_links (
  hash bytea primary key,
  operator text not null,
  expires_at timestamptz not null
);

-- Last request of each person's clients for managed settings, and the settings they have since.
create table policy_fetches (
  principal_id text primary key references principals (id) on delete cascade,
  fetched_at timestamptz not null,
  checksum text not null,
  policies text[] not null
);

-- Each function locks before it reads, so that of several concurrent replicas one wins and the others see its result. Order of locks:
-- sign-in, person, session, access tokens. The caller passes the time.

-- Why an account of the identity provider is not the person with its address: the address belongs to another account (of this or
-- another provider), or administrators created access tokens for it before any sign-in. Null if it is the person.
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

-- Notifies all gateways to discard cached access tokens of a person.
create function announce_tokens(p_principal text) returns void
language plpgsql as $$
begin
  perform pg_notify('appscli_tokens', encode(hash, 'base64'))
  from access_tokens where principal_id = p_principal and revoked_at is null;
end $$;

-- Records the claims of the identity provider about a person, and returns the id of the principal; null without any change if the
-- account may not have the address.
create function note_person(p_person jsonb, p_now timestamptz) returns text
language plpgsql as $$
declare
  v_id text := 'user:' || (p_person ->> 'email');
  v_groups text[] := array(select jsonb_array_elements_text(p_person -> 'groups'));
  v_former principals;
  v_moved record;
begin
  insert into principals (id, email, created_at) values (v_id, p_person ->> 'email', p_now) on conflict (id) do nothing;
  select * into v_former from principals where id = v_id for no key update;
  if account_problem(p_person) is not null then
    return null;
  end if;
  if v_former.groups is distinct from v_groups or v_former.blocked_at is not null then
    perform announce_tokens(v_id);
  end if;
 -- A person whose address changed at the identity provider keeps their personal access tokens.
  for v_moved in
    update access_tokens t set principal_id = v_id from principals o
    where o.issuer = p_person ->> 'issuer' and o.subject = p_person ->> 'subject' and o.id <> v_id
      and t.principal_id = o.id and t.self_service and t.revoked_at is null
    returning t.id, t.hash, o.id as owner
  loop
    perform pg_notify('appscli_tokens', encode(v_moved.hash, 'base64'));
    perform note_change(p_now, 'gateway', 'sign-in', 'token.move', v_moved.id,
      jsonb_build_object('owner', v_moved.owner), jsonb_build_object('owner', v_id));
  end loop;
  update principals
  set issuer = p_person ->> 'issuer', subject = p_person ->> 'subject', name = p_person ->> 'name',
    groups = v_groups, signed_in_at = p_now, blocked_at = null, open_to_sign_in = false
  where id = v_id;
  return v_id;
end $$;

-- Records the result of an account check for a session that is not renewed. False if the session has ended, or the address belongs to
-- another account.
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

-- Suspends the personal access tokens of a person until the next verification. False if already suspended.
create function suspend_person(p_email text, p_because text, p_now timestamptz) returns boolean
language plpgsql as $$
declare
  v_id text := 'user:' || p_email;
begin
  update principals set blocked_at = p_now where id = v_id and blocked_at is null;
  if not found then
    return false;
  end if;
  perform announce_tokens(v_id);
  perform note_change(p_now, 'gateway', 'sign-in', 'person.suspend', p_email, null,
    jsonb_build_object('because', p_because));
  return true;
end $$;

-- Revokes active access tokens, notifies all gateways, and records actor and reason. Returns their ids.
create function revoke_tokens(
  p_ids text[], p_because text, p_actor_kind text, p_actor text, p_now timestamptz
) returns setof text
language plpgsql as $$
declare
  v_token record;
begin
  for v_token in
    update access_tokens t set revoked_at = p_now from principals p
    where t.id = any (p_ids) and p.id = t.principal_id and t.revoked_at is null
    returning t.*, p.email
  loop
    perform pg_notify('appscli_tokens', encode(v_token.hash, 'base64'));
    perform note_change(p_now, p_actor_kind, p_actor, 'token.revoke', v_token.id,
      jsonb_build_object('user', v_token.email, 'group', v_token.token_group, 'name', v_token.name,
        'expires_at', v_token.expires_at),
      jsonb_strip_nulls(jsonb_build_object('revoked_at', p_now, 'because', p_because)));
    return next v_token.id;
  end loop;
end $$;

-- Ends a session. Without an actor, the actor is the person of the session.
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
  perform note_change(p_now, p_actor_kind, coalesce(p_actor, v_ended.email), 'session.end', p_session,
    jsonb_build_object('user', v_ended.email, 'client', v_ended.client, 'created_at', v_ended.created_at),
    jsonb_build_object('revoked_at', p_now, 'because', p_because));
  return true;
end $$;

-- Ends the sessions of a person but one, and returns how many it ended. A session that expired within the last day ends as well:
-- its last session token can live that long.
create function end_sessions(
  p_principal text, p_but text, p_because text, p_actor_kind text, p_actor text, p_now timestamptz
) returns integer
language plpgsql as $$
declare
  v_session text;
  v_count integer := 0;
begin
  for v_session in
    select id from sessions
    where principal_id = p_principal and revoked_at is null and expires_at > p_now - interval '1 day'
      and id is distinct from p_but
    order by id
  loop
    v_count := v_count + end_session(v_session, p_because, p_actor_kind, p_actor, p_now)::integer;
  end loop;
  return v_count;
end $$;

-- Ends sign-ins of a person that their device has not collected.
create function deny_sign_ins(p_email text) returns void
language sql as $$
  update device_grants set status = 'denied', person = null, sealed_grant = null
  where status = 'approved' and person ->> 'email' = p_email
$$;

-- Reassigns an address to another account: p_subject at p_issuer, or if both are null, the next account that signs in with it. Ends
-- sessions and pending sign-ins; with p_with_tokens, revokes all access tokens.
create function rebind_person(
  p_email text, p_issuer text, p_subject text, p_with_tokens boolean, p_actor_kind text, p_actor text, p_now timestamptz
) returns table (known boolean, sessions integer, tokens integer)
language plpgsql as $$
declare
  v_former principals;
  v_because text := 'the e-mail address was reassigned to another account';
begin
  sessions := 0;
  tokens := 0;
  perform deny_sign_ins(p_email);
  select * into v_former from principals p where p.id = 'user:' || p_email for no key update;
  known := found;
  if known then
    sessions := end_sessions(v_former.id, null, v_because, p_actor_kind, p_actor, p_now);
    select count(*) into tokens from revoke_tokens(
      array(select t.id from access_tokens t where p_with_tokens and t.principal_id = v_former.id),
      v_because, p_actor_kind, p_actor, p_now);
    update principals p set issuer = p_issuer, subject = p_subject, open_to_sign_in = p_subject is null
    where p.id = v_former.id;
    perform note_change(p_now, p_actor_kind, p_actor, 'person.rebind', p_email,
      jsonb_build_object('issuer', v_former.issuer, 'subject', v_former.subject),
      jsonb_build_object('issuer', p_issuer, 'subject', p_subject, 'sessions', sessions, 'tokens', tokens));
  end if;
  return next;
end $$;

-- Deprovisions a person. Each statement sees the changes that the previous one waited for, so concurrent sign-ins, sessions and tokens
-- end as well.
create function deprovision(
  p_email text, p_tokens text, p_because text, p_actor_kind text, p_actor text, p_now timestamptz
) returns table (known boolean, sessions integer, tokens integer)
language plpgsql as $$
declare
  v_principal text := 'user:' || p_email;
  v_revoked integer;
begin
  tokens := 0;
  perform deny_sign_ins(p_email);
  perform 1 from principals where id = v_principal for no key update;
  known := found;
  if known then
    perform note_change(p_now, p_actor_kind, p_actor, 'person.deprovision', p_email, null,
      jsonb_build_object('because', p_because, 'tokens', p_tokens));
  end if;
  sessions := end_sessions(v_principal, null, p_because, p_actor_kind, p_actor, p_now);
  if p_tokens = 'suspend' then
    update principals set blocked_at = p_now where id = v_principal;
    perform announce_tokens(v_principal);
  end if;
 -- A concurrent transaction may have replaced a token: repeat until none is left.
  loop
    select count(*) into v_revoked from revoke_tokens(
      array(
        select t.id from access_tokens t
        where t.principal_id = v_principal and t.revoked_at is null and (t.expires_at is null or t.expires_at > p_now)
          and (p_tokens = 'all' or p_tokens = 'self_service' and t.self_service)),
      p_because, p_actor_kind, p_actor, p_now);
    tokens := tokens + v_revoked;
    exit when v_revoked = 0;
  end loop;
  return next;
end $$;

-- A separate function, because it sees what others committed while the caller's statement waited for the principal.
create function self_made_in_force(p_principal text, p_now timestamptz) returns bigint
language sql volatile as $$
  select count(*) from access_tokens t
  where t.principal_id = p_principal and t.self_service and t.revoked_at is null
    and (t.expires_at is null or t.expires_at > p_now)
$$;

-- Starts the renewal of a session. It accepts the newest refresh token, and the previous one while no request shows that the client
-- received its successor (a session token issued since). A token replaced a moment ago returns its successor again.
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

-- Rotates the token p_hash. If it was already replaced, and nothing shows that its client received the successor, the successor is
-- replaced as well: its holder may be a thief who renewed first. The first of the two tokens in use then invalidates the other. Null: the
-- session has ended, or a concurrent renewal replaced the token.
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
 -- Before any write: an ended session must not change the owner of an address.
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
   -- Issue times have seconds: of two tokens in one second, use of the first must not count for the second.
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
   -- Another renewal took over after a timeout of this one, and the token returns the same successor again.
    update refresh_tokens set used_at = p_now where hash = p_hash;
    return v_token.successor;
  end if;
  if v_token.used_at is not null then
    update refresh_tokens set replaced_by = p_new_hash, successor = null where replaced_by = v_token.replaced_by;
    update refresh_tokens set used_at = p_now, replaced_by = p_new_hash where hash = v_token.replaced_by;
  else
   -- Tokens older than the previous one are never accepted.
    update refresh_tokens set successor = null where replaced_by = p_hash;
  end if;
  update refresh_tokens set used_at = p_now, replaced_by = p_new_hash, successor = p_successor where hash = p_hash;
  insert into refresh_tokens (hash, session_id, created_at) values (p_new_hash, p_session, p_now);
  return p_successor;
end $$;

-- A trigger, because sessions end in many functions. It moves the encrypted grant out of the session; a gateway with the key revokes it
-- at the identity provider.
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

-- Checks an entered user code. An address with p_most wrong codes gets no further lookup. The row of the address is locked first, so that
-- concurrent codes are checked one after the other.
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
 -- Counting stops at two above the limit.
  failures := least(v_failures, p_most + 1) + 1;
  update attempts a set count = failures where a.kind = 'code_submission' and a.address = p_address;
  return next;
end $$;

-- The response to a device that polls for its session. If the response was lost, the same device code returns the same session again,
-- until its refresh token was used. A later use means that the code or the session was stolen, so the session ends (RFC 6749 section 4.1.2).
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
     -- A person whose program was rejected with a replaced refresh token signs in again: the holder of the newer token is someone
      -- else. Sessions of other programs, and those renewed from the rejected address, are not affected.
      perform end_session(s.id, 'its person signed in again after a replaced refresh token was rejected',
        'gateway', 'sign-in', p_now)
      from sessions s
      where s.principal_id = v_principal and s.id <> p_session and s.revoked_at is null and s.expires_at > p_now
        and s.refused_at is not null and split_part(s.client, '/', 1) = split_part(v_grant.client, '/', 1)
      order by s.id;
      outcome := 'signed_in';
      session_id := p_session;
      person := v_grant.person;
      sealed_refresh := p_sealed_refresh;
    end if;
  end if;
  return next;
end $$;

-- Starts a browser session. False without any change if the account may not have the address.
create function open_console_session(
  p_session text, p_hash bytea, p_person jsonb, p_sealed_grant text, p_client text, p_client_address text,
  p_expires_at timestamptz, p_ends_at timestamptz, p_now timestamptz
) returns boolean
language plpgsql as $$
declare
  v_principal text := note_person(p_person, p_now);
begin
  if v_principal is null then
    return false;
  end if;
  insert into sessions
    (id, kind, principal_id, person, sealed_grant, client, client_address, created_at, checked_at, expires_at)
  values (p_session, 'console', v_principal, p_person, p_sealed_grant, p_client, p_client_address, p_now, p_now,
    p_expires_at);
  insert into console_sessions (hash, session_id, created_at, seen_at, expires_at, ends_at)
  values (p_hash, p_session, p_now, p_now, p_expires_at, p_ends_at);
  return true;
end $$;

-- Extends a used cookie and its session.
create function keep_console_session(p_hash bytea, p_expires_at timestamptz, p_now timestamptz) returns void
language plpgsql as $$
declare
  v_session text;
  v_expires_at timestamptz;
begin
  select session_id into v_session from console_sessions where hash = p_hash;
  perform 1 from sessions where id = v_session for no key update;
  update console_sessions set seen_at = p_now, expires_at = least(ends_at, p_expires_at)
  where hash = p_hash and not replaced and expires_at > p_now
  returning expires_at into v_expires_at;
  update sessions set expires_at = v_expires_at
  where id = v_session and revoked_at is null and v_expires_at is not null;
end $$;

-- Rotates the cookie of a browser session. False if the old cookie is no longer valid.
create function replace_console_cookie(p_hash bytea, p_new_hash bytea, p_until timestamptz, p_now timestamptz)
returns boolean
language plpgsql as $$
declare
  v_former console_sessions;
begin
  select * into v_former from console_sessions
  where hash = p_hash and not replaced and expires_at > p_now for no key update;
  if not found then
    return false;
  end if;
  insert into console_sessions (hash, session_id, operator, created_at, seen_at, expires_at, ends_at)
  values (p_new_hash, v_former.session_id, v_former.operator, v_former.created_at, p_now, v_former.expires_at,
    v_former.ends_at);
  update console_sessions set replaced = true, expires_at = least(expires_at, p_until) where hash = p_hash;
  return true;
end $$;
