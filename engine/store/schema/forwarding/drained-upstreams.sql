-- Upstreams that get no new requests until somebody resumes them. Names of gateway.yaml, which need not be there any more.
create table drained_upstreams (
  name text primary key,
  reason text,
  drained_at timestamptz not null,
  drained_by text not null
);
