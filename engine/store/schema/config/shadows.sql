-- How often each rule in shadow mode held, by hour and by the upstream that served: whole numbers instead of a search through
-- the audit log. It counts what audit records say, as they are written.
create table shadow_hours (
  hour timestamptz not null,
  name text not null,
  -- Empty where none was chosen.
  upstream text not null,
  requests bigint not null,
  last_at timestamptz not null,
  last_request_id text,
  primary key (hour, name, upstream)
);

create function count_shadows() returns trigger
language plpgsql as $$
begin
  insert into shadow_hours as s (hour, name, upstream, requests, last_at, last_request_id)
  select date_trunc('hour', a.at, 'UTC'), left(n.name, 200), left(coalesce(a.record ->> 'upstream', ''), 200), count(*), max(a.at),
    (array_agg(a.request_id order by a.at desc))[1]
  from added a, jsonb_array_elements_text(
    case jsonb_typeof(a.record -> 'shadow') when 'array' then a.record -> 'shadow' else '[]' end) as n (name)
  -- In one order, so that gateways never wait for each other in a circle.
  group by 1, 2, 3 order by 1, 2, 3
  on conflict (hour, name, upstream) do update set
    requests = s.requests + excluded.requests,
    last_at = greatest(s.last_at, excluded.last_at),
    last_request_id = case when excluded.last_at >= s.last_at then excluded.last_request_id else s.last_request_id end;
  return null;
end $$;

create trigger count_shadows after insert on audit_log
referencing new table as added for each statement execute function count_shadows();
