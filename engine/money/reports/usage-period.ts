import type { Clock } from '../../contract/services.ts';
import type { Database } from '../../store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';

/** A period of usage, and the one before it that it is compared with. */
export interface UsagePeriod {
  /** `null`: from the beginning. */
  readonly since: Date | null;
  /** Its end, which is not included; now, where it has none. */
  readonly until: Date;
  /** `null` where the period has no beginning. */
  readonly previous: { readonly since: Date; readonly until: Date } | null;
}

/**
 * When a period begins and ends; a date (YYYY-MM-DD) is midnight in the time zone. The period before has the same length
 * by the clock on the wall: both ends go back by the least number of whole days that keeps the two apart, and what is to
 * come counts for neither. So today until two is compared with yesterday until two. Raises store_unavailable.
 */
export async function usagePeriod(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now' | 'frozen'> },
  { since, until }: { readonly since?: Date | string | undefined; readonly until?: Date | string | undefined },
  time_zone: string,
): Promise<UsagePeriod> {
  const ends = [since, until].flatMap((end) => [
    end instanceof Date ? end : null,
    typeof end === 'string' ? end : null,
  ]);
  const [row] = await database.query<{
    readonly since: Date | null;
    readonly until: Date | null;
    readonly now: Date;
    readonly since_before: Date | null;
    readonly until_before: Date | null;
  }>(
    'usage_period',
    `with asked as (
       select coalesce($3::timestamptz, first_of($4::timestamp at time zone $2, $2)) as since,
         coalesce($5::timestamptz, first_of($6::timestamp at time zone $2, $2)) as until,
         coalesce($1::timestamptz, now()) as now
     ), wall as (
       select *, since at time zone $2 as first, least(until, now) at time zone $2 as last from asked
     ), back as (
       select *, greatest(ceil(extract(epoch from last - first) / 86400), 1) * interval '1 day' as days from wall
     )
     select since, until, now, first_of((first - days) at time zone $2, $2) as since_before,
       first_of((last - days) at time zone $2, $2) as until_before from back`,
    [databaseTime(clock), time_zone, ...ends],
  );
  const { now, since_before, until_before, ...period } = row!;
  const previous = since_before === null ? null : { since: since_before, until: until_before! };
  return { since: period.since, until: period.until ?? now, previous };
}
