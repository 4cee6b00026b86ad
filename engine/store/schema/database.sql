-- Which database this is, wherever it is moved and whatever it is called: a copy and a restored backup have it too.
create table database_identity (
  only_row boolean primary key default true check (only_row),
  id uuid not null default gen_random_uuid()
);
insert into database_identity default values;

-- Raises where this is another database than the one that something was meant for. An SQLSTATE of its own, for nothing is
-- wrong with the data.
create function is_database(p_id uuid) returns boolean
language plpgsql as $$
begin
  if not exists (select from database_identity where id = p_id) then
    raise exception 'this is another database than %', p_id using errcode = 'GW001';
  end if;
  return true;
end $$;

-- A call can't have a condition, but its arguments can be computed.
create function process_in_database(p_process uuid, p_id uuid) returns uuid
language sql as $$
  select p_process where is_database(p_id)
$$;

-- For functions that move money: their commit waits for the disk, whatever the server's default is.
create function ensure_durable_commit() returns void
language plpgsql as $$
begin
  -- A setting on the function itself would be gone again before the commit it is meant for.
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
end $$;
