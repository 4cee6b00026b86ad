-- Of two moments that the clock on the wall calls the same, an hour apart, the first; other moments as they are. PostgreSQL
-- itself takes the second: where the clock goes back to midnight the day would begin in its own future.
create function first_of(p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case
    when (p_at - interval '1 hour') at time zone p_time_zone = p_at at time zone p_time_zone then p_at - interval '1 hour'
    else p_at
  end
$$;

create function window_start(p_kind text, p_at timestamptz, p_time_zone text) returns timestamptz
language sql stable as $$
  select case p_kind
    when 'open' then '-infinity'::timestamptz
    when 'minute' then date_trunc('minute', p_at)
    else first_of(date_trunc(p_kind, p_at, p_time_zone), p_time_zone)
  end
$$;

-- Null for a window that never ends.
create function window_end(p_kind text, p_start timestamptz, p_time_zone text) returns timestamptz
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
