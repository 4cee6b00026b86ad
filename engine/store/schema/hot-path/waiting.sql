-- As in reports/waiting.sql; but rows with one attempt, nearly all of them, wait for the sums without being made arrays first.
create or replace function note_usage() returns trigger
language plpgsql as $$
begin
  if tg_op <> 'INSERT' then
    insert into usage_waiting select * from usage_of(array(select row(r.*)::ledger from removed r), -1);
  end if;
  if tg_op <> 'DELETE' then
    insert into usage_waiting (
      hour, settled_at, user_email, team, project, token_id, model, upstream, upstream_model, protocol, answered_model,
      service_tier, speed, status, estimated, lines, requests, input_tokens, output_tokens, cache_read_tokens,
      cache_write_5m_tokens, cache_write_1h_tokens, cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd,
      possible_nano_usd)
    select date_trunc('hour', l.forwarded_at, 'UTC'), l.settled_at, l.user_email, l.team, l.project, l.token_id, l.model,
           l.upstream, l.upstream_model, l.protocol, l.billed ->> 'model', l.billed ->> 'service_tier', l.billed ->> 'speed',
           left(l.status::text, 1) || 'xx',
           case l.cost_from when 'upstream' then 'no' when 'clamped' then 'clamped' else 'yes' end,
           1, (l.kind = 'request')::integer, l.input_tokens, l.output_tokens, l.cache_read_tokens, l.cache_write_5m_tokens,
           l.cache_write_1h_tokens, l.cost_nano_usd, case l.kind when 'adjustment' then l.cost_nano_usd else 0 end,
           case when l.cost_from is distinct from 'possible' then l.possible else 0 end,
           case when l.cost_from = 'possible' then l.possible else 0 end
    from (
      select a.*, coalesce(a.provenance ->> 'of', a.provenance ->> 'cost') as cost_from,
             case a.kind when 'request' then coalesce((a.provenance ->> 'possibly_billed_nano_usd')::bigint, 0) else 0 end
               as possible
      from added a
      where a.attempts is null or a.kind <> 'request'
    ) as l;
    if exists (select from added a where a.attempts is not null and a.kind = 'request') then
      insert into usage_waiting select * from usage_of(
        array(select row(a.*)::ledger from added a where a.attempts is not null and a.kind = 'request'), 1);
    end if;
  end if;
  return null;
end $$;
