-- What became of each attempt to have a request served, in order; null where the first was the only one and served: the
-- row then tells all about it. An attempt whose upstream may bill it, and which counts, names its counters in counter_ids: it is
-- in the cost of the row, and counts there in place of where the row counts. A row that corrects one has its attempts, too.
alter table ledger
  add attempts jsonb,
  -- Longest lifetime that the request asked of the prompt cache, and that its upstream was asked for.
  add cache_requested_ttl text,
  add cache_effective_ttl text;
create index on ledger (settled_at) where attempts is not null;

-- Earlier attempts while another one is under way, as the row will have them. What one may be billed, where that counts, is on
-- the counters of its upstream meanwhile: [{n, cost_nano_usd, counter_ids, ...}]. Null for nearly all.
alter table reservations add held jsonb;

-- The ledger with a line more for each earlier attempt that cost something or may be billed, at its own upstream; the line of
-- its request is without that. cost_from is the provenance of the cost: where it is 'possible', what may be billed is in it.
create view ledger_lines as
select l.request_id, l.kind, l.protocol, l.user_email, l.team, l.project, l.token_id, l.model, l.upstream, l.upstream_model,
       l.status, l.input_tokens, l.output_tokens, l.cache_read_tokens, l.cache_write_5m_tokens, l.cache_write_1h_tokens, l.billed,
       l.cost_nano_usd, coalesce(l.provenance ->> 'of', l.provenance ->> 'cost') as cost_from,
       case when l.kind = 'request' then coalesce((l.provenance ->> 'possibly_billed_nano_usd')::bigint, 0) else 0 end
         as possibly_billed_nano_usd, l.forwarded_at, l.settled_at
from ledger l where l.attempts is null or l.kind <> 'request'
union all
select l.request_id, case when a.is_last then 'request' else 'attempt' end, l.protocol, l.user_email, l.team, l.project,
       l.token_id, l.model, a.upstream, a.upstream_model, l.status,
       case when a.is_last then l.input_tokens else 0 end, case when a.is_last then l.output_tokens else 0 end,
       case when a.is_last then l.cache_read_tokens else 0 end,
       case when a.is_last then l.cache_write_5m_tokens else 0 end,
       case when a.is_last then l.cache_write_1h_tokens else 0 end, case when a.is_last then l.billed end,
       a.cost_nano_usd, a.provenance, coalesce(a.possibly_billed_nano_usd, 0), l.forwarded_at, l.settled_at
from ledger l
cross join lateral (
  select a.*, a.n = jsonb_array_length(l.attempts) as is_last
  from jsonb_to_recordset(l.attempts) as a (
    n int, upstream text, upstream_model text, provenance text, cost_nano_usd bigint, possibly_billed_nano_usd bigint)
) as a
where l.attempts is not null and l.kind = 'request'
  and (a.is_last or a.cost_nano_usd <> 0 or a.possibly_billed_nano_usd > 0);
