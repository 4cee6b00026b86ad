-- `client`: of a program that signed in with a code; `console`: of a browser, whose cookie console_sessions has.
alter table sessions add column kind text not null default 'client';

-- What is kept of the cookies of browsers. The session of a person is in `sessions`, where all else about it is.
create table console_sessions (
  hash bytea primary key,
  session_id text references sessions (id) on delete cascade,
  -- Who printed the link that opened it, as user@host: where nobody can sign in.
  operator text,
  created_at timestamptz not null,
  seen_at timestamptz not null,
  -- When it ends unless it is used, and when it ends in any case.
  expires_at timestamptz not null,
  ends_at timestamptz not null,
  -- Another cookie has taken its place; requests under way still bring this one.
  replaced boolean not null default false,
  check ((session_id is null) <> (operator is null))
);
create index on console_sessions (session_id);
create index on console_sessions (expires_at);

-- Links that open the console where nobody can sign in, until they are used or over.
create table console_links (
  hash bytea primary key,
  operator text not null,
  expires_at timestamptz not null
);

-- Begins a person's session in a browser. False, and nothing is written, where the account may not have the address.
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

-- A cookie that is used lasts longer, and the session with it.
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

-- Gives a browser another cookie for the same session. False where the former is none any more.
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
