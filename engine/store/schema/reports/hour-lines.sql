-- The lines of the ledger that were forwarded in an hour and settled in a time. As a function, since PostgreSQL reads the whole
-- ledger for each hour where the view is joined with several of them.
create function lines_of_hour(p_hour timestamptz, p_settled_from timestamptz, p_settled_until timestamptz)
returns setof usage_lines
language plpgsql stable
set enable_seqscan = off
as $$
begin
  return query
  select * from usage_lines
  where settled_at >= greatest(p_hour, p_settled_from) and settled_at <= p_settled_until
    and forwarded_at >= p_hour and forwarded_at < p_hour + interval '1 hour';
end $$;
