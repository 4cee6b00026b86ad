import { PLANNED_ONCE } from './0005_plans.ts';

/** Rows that are written late, many at a time. */
export const LATE_FUNCTIONS = `
-- Says of rows that were just written when each was forwarded, where exchange_batch took one time for all.
create function note_forwarded(p_now timestamptz, p_counted_at timestamptz, p_rows jsonb) returns void
language plpgsql ${PLANNED_ONCE} set enable_seqscan = off as $$
begin
  update ledger l set forwarded_at = least(r.at, p_now)
  from jsonb_to_recordset(p_rows) as r (request_id text, at timestamptz)
  where l.request_id = r.request_id and l.settled_at = p_now and l.kind = 'request'
    and l.forwarded_at = least(p_counted_at, p_now) and l.forwarded_at <> r.at;
end $$;

-- Settles requests that went out without a reservation, all of them in the windows of p_counted_at, in one transaction: like
-- exchange, but each row of p_rows also says when it was forwarded (at), and nothing is reserved.
create procedure exchange_late(
  p_process uuid, p_now timestamptz, p_counted_at timestamptz, p_time_zone text,
  p_scopes text[], p_keys text[], p_kinds text[], p_units text[], p_rows jsonb, inout answer text
)
language plpgsql as $$
declare
  v_now timestamptz := coalesce(p_now, now());
begin
  perform set_config('synchronous_commit', 'off', true);
  answer := exchange_batch(
    p_process, v_now, p_counted_at, p_time_zone, p_scopes, p_keys, p_kinds, p_units, p_rows, '[]');
  perform note_forwarded(v_now, p_counted_at, p_rows);
  commit;
  perform ensure_durable_commit();
  -- A commit waits for the disk only when its transaction wrote something.
  perform pg_logical_emit_message(true, 'appscli', '');
end $$;
`;

/** When windows begin and end. */
export const WINDOW_FUNCTIONS = `
-- Of two moments that the clock on the wall calls the same, an hour apart, the first; other moments as they are. PostgreSQL
-- itself takes the second: where the clock goes back to midnight the day would begin in its own future.
create function first_of(p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case
    when (p_at - interval '1 hour') at time zone p_time_zone = p_at at time zone p_time_zone then p_at - interval '1 hour'
    else p_at
  end
$$;

create or replace function window_start(p_kind text, p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case p_kind
    when 'open' then '-infinity'::timestamptz
    when 'minute' then date_trunc('minute', p_at)
    else first_of(date_trunc(p_kind, p_at, p_time_zone), p_time_zone)
  end
$$;

-- Null for a window that never ends.
create or replace function window_end(p_kind text, p_start timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case p_kind
    when 'open' then null
    -- By the clock on the wall one minute of the year is an hour and a minute long.
    when 'minute' then p_start + interval '1 minute'
    -- A day without a midnight begins at one o'clock, and ends at midnight all the same.
    else first_of(
      date_trunc(p_kind, p_start at time zone p_time_zone + ('1 ' || p_kind)::interval) at time zone p_time_zone, p_time_zone)
  end
$$;
`;
