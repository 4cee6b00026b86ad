/**
 * What kept requests from upstreams, in the database: every replica writes what it saw itself, and people look at all of it.
 * @module
 */
import { LRUCache } from 'lru-cache';
import type { Clock, Log } from '../../contract/services.ts';
import type { Every } from '../../kit/clock.ts';
import { REPLICA } from '../../kit/process/replica.ts';
import { openWriteBehind } from '../../kit/write-behind.ts';
import type { Database } from '../../store/database.ts';
import type { Trouble, TroubleSubject } from './upstream-states.ts';

/** A time in which something kept requests from an upstream, as one replica saw it. */
export interface KeptTrouble {
  readonly id: number;
  readonly replica: string;
  readonly kind: Trouble['kind'];
  readonly upstream: string;
  /** `null` where it is about the upstream as a whole. */
  readonly upstream_model: string | null;
  readonly began_at: Date;
  /** When it was to be tried again, as told last. */
  readonly until: Date;
  /** When it served again; `null` until that was seen. */
  readonly ended_at: Date | null;
  /** How often it began anew: each time that it was tried again in vain is one. */
  readonly times: number;
  readonly last: string | null;
}

interface Period {
  readonly kind: Trouble['kind'];
  readonly upstream: string;
  readonly upstream_model: string | null;
  readonly began_at: number;
  until: number;
  ended_at: number | null;
  times: number;
  last: string | null;
}

const GAP_MS = 1000;
/** What comes again so soon goes on: an account at its limit is served and refused in turn, many times a second. */
const SAME_MS = 60_000;
const PERIODS_MAX = 500;
const NAME_MAX = 200;
const TEXT_MAX = 100;
/** Older ones are deleted, and so are all but the last `ROWS_MAX`. */
const KEPT_DAYS = 30;
const ROWS_MAX = 10_000;

/** Writes troubles that this process sees down soon after they were noted. Nothing waits for it. */
export function createTroubleKeeper(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
}) {
  const { database, clock, log, every } = options;
  const periods = new LRUCache<string, Period>({ max: PERIODS_MAX });
  const changed = openWriteBehind<Period>({
    write: (told) => writeTroubles(database, [...told.values()], clock.now()),
    interval_ms: GAP_MS,
    max: PERIODS_MAX,
    when_late: 'troubles of upstreams could not be written down yet',
    log,
    every,
  });

  function change(key: string, period: Period): void {
    periods.set(key, period);
    changed.note(`${key} ${period.began_at}`, period);
  }

  return {
    note({ kind, upstream, upstream_model, until, last }: Trouble): void {
      if (upstream.length + (upstream_model?.length ?? 0) > NAME_MAX) return;
      const now = clock.now();
      const key = keyOf({ kind, upstream, ...(upstream_model !== undefined && { upstream_model }) });
      const known = periods.get(key);
      const goes_on = known !== undefined && now - (known.ended_at ?? known.until) < SAME_MS;
      const period = goes_on
        ? known
        : {
            kind,
            upstream,
            upstream_model: upstream_model ?? null,
            began_at: now,
            until,
            ended_at: null,
            times: 0,
            last: null,
          };
      period.until = until;
      period.ended_at = null;
      period.times += 1;
      if (last !== undefined) period.last = last.replace(/[^ -~]/g, '?').slice(0, TEXT_MAX);
      change(key, period);
    },
    end(subject: TroubleSubject): void {
      const key = keyOf(subject);
      const known = periods.get(key);
      // What was only heard of was not noted.
      if (known === undefined || known.ended_at !== null) return;
      known.ended_at = clock.now();
      change(key, known);
    },
    flush: changed.flush,
    close: changed.close,
  };
}

function keyOf({ kind, upstream, upstream_model = '' }: TroubleSubject): string {
  return `${kind} ${upstream} ${upstream_model}`;
}

async function writeTroubles(database: Pick<Database, 'query'>, told: readonly Period[], now: number): Promise<void> {
  const rows = told.map(({ began_at, until, ended_at, ...rest }) => ({
    ...rest,
    began_at: new Date(began_at),
    until: new Date(until),
    ended_at: ended_at === null ? null : new Date(ended_at),
  }));
  await database.query(
    'upstream_troubles_write',
    `with told as (
       insert into upstream_troubles as kept (replica, kind, upstream, upstream_model, began_at, until, ended_at, times, last)
       select $2, kind, upstream, upstream_model, began_at, until, ended_at, times, last
       from jsonb_to_recordset($1) as t (kind text, upstream text, upstream_model text, began_at timestamptz,
         until timestamptz, ended_at timestamptz, times int, last text)
       on conflict (replica, began_at, upstream, kind, upstream_model)
         do update set until = excluded.until, ended_at = excluded.ended_at, times = excluded.times, last = excluded.last
     )
     delete from upstream_troubles
     where began_at < $3::timestamptz - interval '${KEPT_DAYS} days'
       or began_at < (select began_at from upstream_troubles order by began_at desc offset ${ROWS_MAX} limit 1)`,
    [JSON.stringify(rows), REPLICA, new Date(now)],
  );
}

/**
 * Troubles that all replicas saw, the latest first.
 * @param only `before` is the id of one: only those that began earlier, for the next page; `since`: those that lasted beyond it.
 * Raises store_unavailable.
 */
export async function listTroubles(
  database: Pick<Database, 'query'>,
  only: { readonly upstream?: string; readonly before?: number; readonly since?: Date; readonly limit: number },
): Promise<KeptTrouble[]> {
  return database.query<KeptTrouble>(
    'upstream_troubles_list',
    `select t.id, t.replica, t.kind, t.upstream, t.upstream_model, t.began_at, t.until, t.ended_at, t.times, t.last
     from upstream_troubles t left join upstream_troubles b on b.id = $2::bigint
     where ($1::text is null or t.upstream = $1)
       and ($2::bigint is null or (t.began_at, t.id) < (b.began_at, b.id))
       and ($3::timestamptz is null or coalesce(t.ended_at, t.until) >= $3)
     order by t.began_at desc, t.id desc limit $4`,
    [only.upstream ?? null, only.before ?? null, only.since ?? null, only.limit],
  );
}

/** What other replicas keep from upstreams at a time, as far as they told. Raises store_unavailable. */
export async function troublesElsewhere(database: Pick<Database, 'query'>, now: Date): Promise<KeptTrouble[]> {
  return database.query<KeptTrouble>(
    'upstream_troubles_elsewhere',
    `select id, replica, kind, upstream, upstream_model, began_at, until, ended_at, times, last
     from upstream_troubles where ended_at is null and until > $1 and began_at <= $1 and replica <> $2
     order by began_at desc limit 200`,
    [now, REPLICA],
  );
}
