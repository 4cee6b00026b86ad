-- Lines of ledger rows as they wait for the sums; with a sign of -1, what takes them back.
create function usage_of(p_rows ledger[], p_sign integer) returns setof usage_waiting
language sql stable as $$
  select date_trunc('hour', l.forwarded_at, 'UTC'), l.settled_at, l.user_email, l.team, l.project, l.token_id, l.model,
         a.upstream, a.upstream_model, l.protocol, a.billed ->> 'model', a.billed ->> 'service_tier', a.billed ->> 'speed',
         left(l.status::text, 1) || 'xx',
         case a.cost_from when 'upstream' then 'no' when 'clamped' then 'clamped' else 'yes' end,
         p_sign, case when a.is_last and l.kind = 'request' then p_sign else 0 end,
         case when a.is_last then p_sign * l.input_tokens else 0 end,
         case when a.is_last then p_sign * l.output_tokens else 0 end,
         case when a.is_last then p_sign * l.cache_read_tokens else 0 end,
         case when a.is_last then p_sign * l.cache_write_5m_tokens else 0 end,
         case when a.is_last then p_sign * l.cache_write_1h_tokens else 0 end,
         p_sign * a.cost, case l.kind when 'adjustment' then p_sign * a.cost else 0 end,
         case when a.cost_from is distinct from 'possible' then p_sign * a.possible else 0 end,
         case when a.cost_from = 'possible' then p_sign * a.possible else 0 end
  from unnest(p_rows) as l
  cross join lateral (
    select l.upstream, l.upstream_model, true as is_last, l.billed, l.cost_nano_usd as cost,
           coalesce(l.provenance ->> 'of', l.provenance ->> 'cost') as cost_from,
           case l.kind when 'request' then coalesce((l.provenance ->> 'possibly_billed_nano_usd')::bigint, 0) else 0 end as possible
    where l.attempts is null or l.kind <> 'request'
    union all
    select a.upstream, a.upstream_model, i.is_last, case when i.is_last then l.billed end, a.cost_nano_usd, a.provenance,
           coalesce(a.possibly_billed_nano_usd, 0)
    from jsonb_to_recordset(l.attempts) as a (
      n int, upstream text, upstream_model text, provenance text, cost_nano_usd bigint, possibly_billed_nano_usd bigint)
    cross join lateral (select a.n = jsonb_array_length(l.attempts) as is_last) as i
    where l.kind = 'request' and (i.is_last or a.cost_nano_usd <> 0 or a.possibly_billed_nano_usd > 0)
  ) as a
$$;

-- Whoever writes the ledger, and whatever is changed in it, the sums hear of it in the same transaction. What moves to the
-- partition of its month is written to the partition itself, and is no change.
create function note_usage() returns trigger
language plpgsql as $$
begin
  if tg_op <> 'INSERT' then
    insert into usage_waiting select * from usage_of(array(select row(r.*)::ledger from removed r), -1);
  end if;
  if tg_op <> 'DELETE' then
    insert into usage_waiting select * from usage_of(array(select row(a.*)::ledger from added a), 1);
  end if;
  return null;
end $$;

create function note_no_usage() returns trigger
language plpgsql as $$
begin
  truncate usage_waiting, usage_hours, usage_days;
  return null;
end $$;

create trigger note_added after insert on ledger
  referencing new table as added for each statement execute function note_usage();
create trigger note_changed after update on ledger
  referencing old table as removed new table as added for each statement execute function note_usage();
create trigger note_removed after delete on ledger
  referencing old table as removed for each statement execute function note_usage();
create trigger note_truncated after truncate on ledger
  for each statement execute function note_no_usage();

-- From here on every line is noted, and of those before nobody is writing one any more.
insert into usage_state (summed_from)
select case when exists (select from ledger) then 'infinity' else '-infinity' end::timestamptz;
