-- A large ledger by chance: 400 people in 20 teams with two tokens each, six models at three upstreams. See large-ledger.ts.

create schema large;

create table large.models (n int primary key, id text, input bigint, output bigint, read bigint, write bigint);
insert into large.models values
  (0, 'coder-large', 3000, 15000, 300, 3750), (1, 'coder-medium', 1000, 5000, 100, 1250),
  (2, 'coder-small', 250, 1250, 25, 310), (3, 'thinker-large', 15000, 75000, 1500, 18750),
  (4, 'writer-large', 2500, 10000, 250, 2500), (5, 'writer-small', 150, 600, 15, 150);

create function large.model_of(r double precision) returns int language sql immutable as $$
  select case when r < 0.42 then 0 when r < 0.64 then 1 when r < 0.8 then 2 when r < 0.88 then 3 when r < 0.95 then 4 else 5 end
$$;

-- People, their tokens, and the counters that the day of each and the month of each team are counted on.
create function large.make_people(p_first date, p_days int) returns void language sql as $$
  insert into principals (id, email, name, groups, created_at)
  select 'user:person-' || p || '@example.com', 'person-' || p || '@example.com', 'Person ' || p,
         array['engineering', 'team-' || p % 20], p_first
  from generate_series(0, 399) as p;

  insert into access_tokens (id, hash, prefix, principal_id, token_group, name, team, created_at, last_used_at)
  select 'tok_' || lpad(t::text, 20, '0'), sha256(t::text::bytea), 'gw_' || lpad(t::text, 6, '0'),
         'user:person-' || t / 2 || '@example.com',
         (array['everyday', 'everyday', 'research', 'automation'])[1 + t % 4], (array['laptop', 'build'])[1 + t % 2],
         'team-' || (t / 2) % 20, p_first, p_first + p_days
  from generate_series(0, 799) as t;

  insert into spend_counters (id, scope, key, window_kind, window_start) overriding system value
  select 1 + p * 1000 + d, 'user', 'person-' || p || '@example.com', 'day', (p_first + d) at time zone 'UTC'
  from generate_series(0, 399) as p cross join generate_series(0, p_days - 1) as d;
  insert into spend_counters (id, scope, key, window_kind, window_start) overriding system value
  select distinct on (t, m) 1000000 + t * 10000 + extract(year from m)::int % 100 * 12 + extract(month from m)::int,
         'team', 'team-' || t, 'month', m at time zone 'UTC'
  from generate_series(0, 19) as t cross join generate_series(0, p_days - 1) as d
  cross join lateral (select date_trunc('month', (p_first + d)::timestamp) as m) as month;
$$;

-- The requests of one day: their ledger rows and audit records. More in the afternoon, few at night, and some refused before
-- they cost anything, which only the audit log has.
create function large.make_day(p_day date, p_index int, p_requests int) returns void language plpgsql as $$
begin
  create temp table made on commit drop as
  select r.*, is_second, m.id as model, gen_random_uuid()::text as request_id,
         'person-' || p || '@example.com' as user_email, 'team-' || p % 20 as team,
         -- People stay with a project for half a day, with a client and an upstream for the day, and mostly with one model.
         case when (p * 7 + p_index * 2 + extract(hour from forwarded_at)::int / 13) % 10 < 7
           then 'project-' || p % 20 || '-' || (p * 7 + p_index * 2 + extract(hour from forwarded_at)::int / 13) % 3 end as project,
         'tok_' || lpad((p * 2 + is_second)::text, 20, '0') as token_id,
         (array['everyday', 'everyday', 'research', 'automation'])[1 + (p * 2 + is_second) % 4] as token_group,
         (array['main', 'main', 'main', 'spare', 'cloud'])[1 + (p + p_index + (chance[3] > 0.99)::int) % 5] as upstream,
         case when chance[4] > 0.97 then 'count_tokens' when p % 10 < 7 then 'messages' when p % 10 < 9 then 'chat'
           else 'responses' end as protocol,
         case when chance[5] < 0.94 then 200 when chance[5] < 0.955 then 429 when chance[5] < 0.965 then 500
           when chance[5] < 0.98 then 400 when chance[5] < 0.99 then 529 end as status,
         case when chance[5] < 0.94 then i else 0 end as input, case when chance[5] < 0.94 then o else 0 end as output,
         case when chance[5] < 0.94 and chance[6] < 0.7 then cr else 0 end as cache_read,
         case when chance[5] < 0.94 and chance[6] between 0.5 and 0.9 then cw else 0 end as cache_write,
         m.input as input_price, m.output as output_price, m.read as read_price, m.write as write_price
  from (
    select floor(400 * power(random(), 1.7))::int as p, large.model_of(random()) as n,
           array(select random() from generate_series(1, 8) where g > 0) as chance,
           least(180000, exp(random_normal(7.2, 1.2)))::bigint as i, least(32000, exp(random_normal(6, 1.1)))::bigint as o,
           least(200000, exp(random_normal(10.3, 0.8)))::bigint as cr, least(60000, exp(random_normal(8, 1)))::bigint as cw,
           least(290000, exp(random_normal(8.6, 1)))::int as ms,
           p_day::timestamp at time zone 'UTC'
             + make_interval(secs => least(86399.9, greatest(0, random_normal(14 * 3600, 3.4 * 3600)))) as forwarded_at
    from generate_series(1, p_requests) as g
  ) as r
  cross join lateral (
    select (chance[2] < 0.1)::int as is_second,
           case when chance[1] < 0.25 then 2 when chance[1] < 0.98 then large.model_of(p % 83 / 83.0) else r.n end as m) as usual
  join large.models m on m.n = usual.m
  order by r.forwarded_at;

  -- What would be settled in the future is left out with the rest of today.
  delete from made where forwarded_at + make_interval(secs => ms / 1000.0) > now() - interval '1 minute';

  insert into ledger (
    request_id, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model, status, aborted,
    input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, billed, cost_nano_usd,
    provenance, counter_ids, attempts, upstream_ms, forwarded_at, settled_at)
  select request_id, protocol, 'user:' || user_email, user_email, team, project, token_id, model, upstream, model, status,
         status is null, input, output, cache_read,
         case when chance[7] < 0.9 then cache_write else 0 end, case when chance[7] < 0.9 then 0 else cache_write end,
         case when chance[8] < 0.02 then jsonb_build_object('model', model || '-2026', 'service_tier', 'priority') end,
         input * input_price + output * output_price + cache_read * read_price + cache_write * write_price,
         jsonb_build_object('input', 'upstream', 'output', 'upstream', 'cost',
             case when chance[8] > 0.985 then 'estimate' when chance[8] > 0.984 then 'clamped' else 'upstream' end)
           || case when failed.billed > 0 then jsonb_build_object('possibly_billed_nano_usd', failed.billed) else '{}' end,
         array[1 + p * 1000 + p_index,
               1000000 + p % 20 * 10000 + extract(year from p_day)::int % 100 * 12 + extract(month from p_day)::int],
         case when failed.yes then jsonb_build_array(
           jsonb_build_object(
             'n', 1, 'upstream', case upstream when 'spare' then 'main' else 'spare' end, 'upstream_model', model,
             'certainty', case when failed.billed > 0 then 'possibly_accepted' else 'answered' end,
             'status', case when failed.billed > 0 then null else 529 end,
             'outcome', case when failed.billed > 0 then 'unanswered' else 'overloaded' end,
             'reason', case when failed.billed > 0 then 'next_unconfirmed' else 'next_overloaded' end, 'sends', 1, 'ms', 140,
             'cost_nano_usd', 0, 'provenance', case when failed.billed > 0 then 'estimate' else 'refused' end,
             'possibly_billed_nano_usd', failed.billed),
           jsonb_build_object(
             'n', 2, 'upstream', upstream, 'upstream_model', model, 'certainty', 'answered', 'status', status,
             'outcome', 'answered', 'reason', 'served', 'sends', 1, 'ms', ms,
             'cost_nano_usd', input * input_price + output * output_price + cache_read * read_price + cache_write * write_price,
             'provenance', 'upstream')) end,
         ms, forwarded_at, forwarded_at + make_interval(secs => ms / 1000.0)
  from made
  cross join lateral (
    select chance[3] > 0.98 as yes, case when chance[3] > 0.995 then input * input_price else 0 end as billed) as failed
  order by forwarded_at;

  insert into audit_log (at, request_id, record)
  select forwarded_at + make_interval(secs => ms / 1000.0), request_id, jsonb_build_object(
      'at', to_char((forwarded_at + make_interval(secs => ms / 1000.0)) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'request_id', request_id, 'trace_id', replace(request_id, '-', ''), 'user', user_email,
      'principal', 'user:' || user_email, 'token_id', token_id, 'team', team, 'project', project, 'protocol', protocol,
      'method', 'POST', 'path', case protocol when 'chat' then '/v1/chat/completions' when 'responses' then '/v1/responses'
        when 'messages' then '/v1/messages' else '/v1/messages/count_tokens' end,
      'model', model, 'stream', true, 'upstream', upstream, 'upstream_protocol', 'messages', 'route_rule', 'models.' || model,
      'spend_rule', 'defaults.user_daily_usd', 'reserved_usd', 0.21, 'status', status, 'upstream_status', status, 'sends', 1,
      'upstream_request_id', 'req_' || replace(request_id, '-', ''))
    || jsonb_build_object(
      'error', case status when 429 then 'rate_limited' when 400 then 'invalid_request' when 529 then 'overloaded'
        when 500 then 'upstream_error' end,
      'stage', case when status >= 400 then 'forward' end, 'aborted', status is null, 'rewrites', '[]'::jsonb,
      'input_tokens', input, 'output_tokens', output, 'cache_read_tokens', cache_read,
      'cache_write_5m_tokens', case when chance[7] < 0.9 then cache_write else 0 end,
      'cache_write_1h_tokens', case when chance[7] < 0.9 then 0 else cache_write end,
      'cost_usd', (input * input_price + output * output_price + cache_read * read_price + cache_write * write_price) / 1e9,
      'cost_from', 'upstream', 'duration_ms', ms, 'client', (array['coder', 'editor', 'sdk'])[1 + p % 3],
      'client_version', '1.' || p % 9 || '.0', 'session_id', md5(user_email || p_day || floor(chance[2] * 6)),
      'received_at', to_char(forwarded_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'address', '10.1.' || p / 200 || '.' || p % 200,
      'groups', jsonb_build_array('engineering', team), 'token_name', 'laptop', 'token_group', token_group,
      'body_bytes', input * 4 + 900, 'image_count', 0, 'max_tokens', 32000, 'tool_count', 14, 'message_count', 1 + i % 90,
      'input_tokens_estimate', input + cache_read, 'input_tokens_max', input + cache_read + 400, 'cache_ttl', '5m',
      'estimate_usd', 0.18)
  from made
  order by forwarded_at + make_interval(secs => ms / 1000.0);

  insert into audit_log (at, request_id, record)
  select forwarded_at, gen_random_uuid()::text, jsonb_build_object(
    'at', to_char(forwarded_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'request_id', gen_random_uuid(),
    'trace_id', md5(request_id), 'user', user_email, 'principal', 'user:' || user_email, 'token_id', token_id, 'team', team,
    'project', project, 'protocol', protocol, 'method', 'POST', 'path', '/v1/messages', 'model', model, 'stream', true,
    'upstream', null, 'route_rule', null, 'spend_rule', 'defaults.user_daily_usd', 'status', refused.status,
    'upstream_status', null, 'upstream_request_id', null, 'error', refused.error, 'stage', refused.stage, 'aborted', false,
    'rewrites', '[]'::jsonb, 'duration_ms', 3, 'client', 'coder', 'client_version', '1.2.0', 'session_id', null,
    'address', '10.1.' || p / 200 || '.' || p % 200, 'groups', jsonb_build_array('engineering', team),
    'token_name', 'laptop', 'token_group', token_group, 'body_bytes', 20000)
  from made
  cross join lateral (
    select case when chance[1] < 0.5 then 'budget_exceeded' when chance[1] < 0.8 then 'model_forbidden' else 'rate_limited' end
             as error,
           case when chance[1] < 0.5 then 'check-budget' when chance[1] < 0.8 then 'resolve-route' else 'check-budget' end
             as stage, case when chance[1] < 0.5 then 429 when chance[1] < 0.8 then 403 else 429 end as status) as refused
  where chance[6] > 0.985
  order by forwarded_at;

  -- A few were priced again.
  insert into ledger (
    request_id, kind, protocol, principal_id, user_email, team, project, token_id, model, upstream, upstream_model, status,
    aborted, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cost_nano_usd,
    provenance, counter_ids, forwarded_at, settled_at)
  select l.request_id, 'adjustment', l.protocol, l.principal_id, l.user_email, l.team, l.project, l.token_id, l.model, l.upstream,
         l.upstream_model, l.status, l.aborted, 0, 0, 0, 0, 0, -l.cost_nano_usd / 10,
         jsonb_build_object('cost', 'repriced', 'of', l.provenance ->> 'cost', 'was_nano_usd', l.cost_nano_usd),
         l.counter_ids, l.forwarded_at, l.settled_at
  from made m join ledger l on l.request_id = m.request_id
  where m.chance[8] between 0.5 and 0.503 and l.attempts is null and l.cost_nano_usd > 0;
  drop table made;
end $$;

-- Says on the counters what their rows come to.
create function large.count_spent() returns void language sql as $$
  update spend_counters s set spent = m.cost
  from (select c.id, sum(l.cost_nano_usd) as cost from ledger l cross join unnest(l.counter_ids) as c (id) group by 1) as m
  where s.id = m.id;
  select setval(pg_get_serial_sequence('spend_counters', 'id'), 10000000);
$$;
