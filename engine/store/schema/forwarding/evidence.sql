-- What tells of the last attempt of a request beside its status: milliseconds until it was answered or failed, and the id that its
-- upstream gave it. Null where its process ended before that was known.
alter table ledger
  add upstream_ms double precision,
  add upstream_request_id text;

-- A row for each attempt of each request.
create view ledger_attempts as
select l.request_id, a.n, coalesce(a.upstream, l.upstream) as upstream,
       coalesce(a.upstream_model, l.upstream_model) as upstream_model, a.credential,
       coalesce(a.certainty, case when l.status is null then 'possibly_accepted' else 'answered' end) as certainty,
       case when l.attempts is null then l.status else a.status end as status,
       coalesce(a.outcome, case when l.status is null then 'unanswered' else 'answered' end) as outcome,
       coalesce(a.reason, case when l.status < 400 then 'served' else 'exhausted' end) as reason,
       coalesce(a.sends, 1) as sends, coalesce(a.ms, case when l.attempts is null then l.upstream_ms end) as ms,
       coalesce(a.upstream_request_id, case when l.attempts is null then l.upstream_request_id end) as upstream_request_id,
       coalesce(a.cost_nano_usd, l.cost_nano_usd) as cost_nano_usd,
       coalesce(a.provenance, l.provenance ->> 'cost') as provenance,
       case when l.attempts is null then (l.provenance ->> 'possibly_billed_nano_usd')::bigint
         else a.possibly_billed_nano_usd end as possibly_billed_nano_usd,
       a.counter_ids,
       l.user_email, l.model, l.forwarded_at, l.settled_at
from ledger l
cross join lateral jsonb_to_recordset(coalesce(l.attempts, '[{"n": 1}]')) as a (
  n int, upstream text, upstream_model text, credential text, certainty text, status int, outcome text, reason text, sends int,
  ms double precision, upstream_request_id text, cost_nano_usd bigint, provenance text, possibly_billed_nano_usd bigint,
  counter_ids bigint[])
where l.kind = 'request';
