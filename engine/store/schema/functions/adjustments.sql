-- Adds an adjusting row to some requests that were settled from p_from to p_to, and the difference to their counters. It
-- has the times of the request, so that it counts in the same window, day and month, and is dropped with it. A row of p_rows is
-- {request_id, was: what the rows of the request came to, cost: what they shall come to}; a request whose rows come to
-- something else by now is left alone. p_change is the row of admin_changes that tells the sum, made when it is null.
create function adjust_batch(
  p_from timestamptz, p_to timestamptz, p_rows jsonb, p_change bigint,
  p_actor_kind text, p_actor text, p_subject text, p_now timestamptz
) returns table (change bigint, adjusted bigint, difference numeric)
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
  v_now timestamptz := coalesce(p_now, now());
  v_due ledger[];
begin
  perform ensure_durable_commit();
  -- Two runs at once would both add the difference.
  perform pg_advisory_xact_lock(hashtext('appscli.adjust_ledger'));

  with wanted as (
    select r.request_id, r.was, r.cost
    from jsonb_to_recordset(p_rows) as r (request_id text, was bigint, cost bigint)
  ), known as (
    select w.request_id, w.cost, min(w.was) as was, sum(l.cost_nano_usd) as now_at
    from wanted w join ledger l on l.request_id = w.request_id and l.settled_at >= p_from and l.settled_at < p_to
    group by 1, 2
    having count(*) filter (where l.kind = 'request') = 1
  ), due as (
    select distinct on (l.request_id) l as original, k.cost - k.was as difference, k.was
    from known k join ledger l
      on l.request_id = k.request_id and l.kind = 'request' and l.settled_at >= p_from and l.settled_at < p_to
    where k.now_at = k.was and k.cost <> k.was
  )
  select coalesce(array_agg(
      jsonb_populate_record(d.original, jsonb_build_object(
        'kind', 'adjustment', 'input_tokens', 0, 'output_tokens', 0, 'cache_read_tokens', 0,
        'cache_write_5m_tokens', 0, 'cache_write_1h_tokens', 0, 'server_tools', null, 'cost_nano_usd', d.difference,
        'provenance', jsonb_build_object(
          'cost', 'repriced', 'of', (d.original).provenance -> 'cost', 'was_nano_usd', d.was, 'at', v_now, 'by', p_actor)))),
    '{}')
  into v_due from due d;

  perform lock_counters(array(select unnest(g.counter_ids) from unnest(v_due) as g));
  insert into ledger select g.* from unnest(v_due) as g;
  with moved as (
    select c.id, sum(g.cost_nano_usd)::bigint as amount
    from unnest(v_due) as g cross join unnest(g.counter_ids) as c (id)
    group by c.id
  )
  update spend_counters s set spent = s.spent + m.amount from moved m where s.id = m.id;

  select count(*), coalesce(sum(g.cost_nano_usd), 0) into adjusted, difference from unnest(v_due) as g;
  change := p_change;
  if adjusted > 0 then
    if change is null then
      insert into admin_changes (at, actor_kind, actor, action, subject, after)
      values (v_now, p_actor_kind, p_actor, 'ledger.reprice', p_subject,
        jsonb_build_object('requests', adjusted, 'difference_usd', trim_scale(difference / 1000000000)::text))
      returning id into change;
    else
      update admin_changes c set after = jsonb_build_object(
        'requests', (c.after ->> 'requests')::bigint + adjusted,
        'difference_usd', trim_scale((c.after ->> 'difference_usd')::numeric + difference / 1000000000)::text)
      where c.id = change;
    end if;
  end if;
  return next;
end $$;
