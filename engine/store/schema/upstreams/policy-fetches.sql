-- When the clients of each person asked for their managed settings last, and which they have since.
create table policy_fetches (
  principal_id text primary key references principals (id) on delete cascade,
  fetched_at timestamptz not null,
  checksum text not null,
  policies text[] not null
);
