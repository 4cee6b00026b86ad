/** What replicas share about upstreams: the drained ones, and incidents, as hints and as a record. @module */
import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { UpstreamConfig } from '../../../base/contract/config.ts';
import type { Drained } from '../../../base/contract/forwarding.ts';
import { OperationError } from '../../../base/contract/operation-error.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import { type Every, everyInBackground } from '../../../base/kit/clock.ts';
import { REPLICA } from '../../../base/kit/process/gateway-process.ts';
import { openWriteBehind } from '../../../base/kit/write-behind.ts';
import type { Database } from '../../../base/store/database.ts';
import { actorLabel, type Changing } from '../../audit/index.ts';
import { databaseTime } from '../../budget/index.ts';
import { sessionEnded } from '../../identity/index.ts';
import {
  createUpstreamStates,
  type Incident,
  type IncidentSubject,
  type LastingUpstreamStates,
} from './upstream-states.ts';

/** States of upstreams, including drained ones and incidents of other replicas. */
export interface OpenUpstreamStates extends LastingUpstreamStates {
  /** Resolves after the first attempt to read the list of drained upstreams, successful or not. */
  readonly attempted: Promise<void>;
  catchUp(): Promise<void>;
  close(): Promise<void>;
}

type Queryable = Pick<Database, 'query'>;

interface Surroundings {
  readonly database: Queryable;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
}

/** Interval of reading the list, in case a notification is lost. */
const POLL_MS = 3000;

/** Opens the states. Without the database, the last list of drained upstreams is used. */
export function openUpstreamStates(
  options: Surroundings & {
    readonly upstreams: readonly UpstreamConfig[];
    readonly database: Pick<Database, 'listen'>;
  },
): OpenUpstreamStates {
  const { upstreams, database, clock, log, every = everyInBackground } = options;
  const kept = createIncidentKeeper({ database, clock, log, every });
  const states = createUpstreamStates({ upstreams, clock, log, onIncident: kept.note, onRecovery: kept.end });
  let names = '';
  let is_closed = false;
  let reading: Promise<void> | undefined;

  async function read(): Promise<void> {
    try {
      const drained = await listDrained(database);
      states.setDrained(drained);
      const now = [...drained.keys()].join(', ');
      if (now !== names) log.info({ drained: [...drained.keys()] }, 'drained upstreams get no new requests');
      names = now;
    } catch (error) {
      log.debug({ err: error }, 'the list of drained upstreams could not be read');
    }
  }

  const refresh = () => {
    if (is_closed) return Promise.resolve();
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  };

  const catchUp = async () => {
    // A read in progress may have begun before the change.
    await reading;
    await refresh();
  };

  const hear = (payload: string) => {
    if (payload === DRAINED_CHANGED) return void catchUp();
    const hint = readHint(payload, kept.self, clock.now());
    if (hint !== undefined) states.heed(hint);
  };

  const listening = database
    .listen(UPSTREAMS_CHANNEL, hear, () => void refresh())
    .catch((error) => {
      log.warn(
        { err: error },
        'notifications of other replicas do not arrive; drained upstreams take effect some seconds later',
      );
    });
  const attempted = listening.then(refresh);
  const stop = every(POLL_MS, refresh);

  return {
    ...states,
    attempted,
    catchUp,
    async close() {
      is_closed = true;
      stop();
      await Promise.all([kept.close(), reading]);
    },
  };
}

const KINDS: readonly unknown[] = ['open', 'unreachable', 'credential', 'limited'] satisfies Incident['kind'][];

/** The hint in a notification of another process; `undefined` for one of this process, and for a malformed one. */
function readHint(payload: string, self: string, now: number): Incident | undefined {
  let hint: Readonly<Record<string, unknown>> | null;
  try {
    hint = JSON.parse(payload);
  } catch {
    return undefined;
  }
  const { from, kind, upstream, upstream_model, ms, last, failing_ms } = hint ?? {};
  if (from === self || !KINDS.includes(kind) || typeof upstream !== 'string' || typeof ms !== 'number')
    return undefined;
  return {
    kind: kind as Incident['kind'],
    upstream,
    until: now + ms,
    ...(typeof upstream_model === 'string' && { upstream_model }),
    ...(typeof last === 'string' && { last: last.slice(0, TEXT_MAX) }),
    ...(typeof failing_ms === 'number' && { failing_ms }),
  };
}

const UPSTREAMS_CHANNEL = 'appscli_upstreams';
const DRAINED_CHANGED = 'drained';

const MOMENT = 'select coalesce($1::timestamptz, now()) as at';
/** A session that has ended must not change anything. */
const ALIVE = 'select from sessions where id = $2 and revoked_at is null for share';
const IS_ALIVE = '($2::text is null or exists (select from alive))';
const OLD = `jsonb_strip_nulls(jsonb_build_object('reason', reason, 'drained_at', drained_at, 'drained_by', drained_by))`;

/** All upstreams that are drained, by name. Raises store_unavailable. */
export async function listDrained(database: Queryable): Promise<Map<string, Drained>> {
  const rows = await database.query<{ name: string; reason: string | null; at: Date; by: string }>(
    'upstreams_drained',
    'select name, reason, drained_at as at, drained_by as by from drained_upstreams order by name',
    [],
  );
  return new Map(
    rows.map(({ name, reason, at, by }) => [name, { by, at: at.getTime(), ...(reason !== null && { reason }) }]),
  );
}

/** Drains an upstream, or replaces the reason. Raises credential_revoked for an ended session, store_unavailable. */
export async function drainUpstream(by: Changing, name: string, reason: string | undefined): Promise<void> {
  const [outcome] = await by.database.query<{ readonly alive: boolean }>(
    'upstream_drain',
    `with moment as (${MOMENT}), alive as (${ALIVE}), old as (
       select reason, drained_at, drained_by from drained_upstreams where name = $3 for update
     ), put as (
       insert into drained_upstreams (name, reason, drained_at, drained_by)
       -- The old one is read before it is gone.
       select $3, $4, at, $5 from moment, (select count(*) from old) as seen where ${IS_ALIVE}
       on conflict (name) do update
         set reason = excluded.reason, drained_at = excluded.drained_at, drained_by = excluded.drained_by
       returning name
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select at, $6, $7, 'upstream.drain', name, (select ${OLD} from old), jsonb_strip_nulls(jsonb_build_object('reason', $4::text))
       from moment, put
     )
     select ${IS_ALIVE} as alive, (select pg_notify('${UPSTREAMS_CHANNEL}', '${DRAINED_CHANGED}')::text from put)`,
    [...parametersOf(by), name, reason ?? null, actorLabel(by.actor), by.actor.kind, by.actor.name],
  );
  if (!outcome!.alive) throw sessionEnded();
}

/** Resumes a drained upstream, and returns who had drained it. Raises OperationError if it is not, credential_revoked. */
export async function resumeUpstream(by: Changing, name: string, reason: string | undefined): Promise<Drained> {
  const [outcome] = await by.database.query<{
    readonly alive: boolean;
    readonly gone: { readonly reason?: string; readonly drained_at: string; readonly drained_by: string } | null;
  }>(
    'upstream_resume',
    `with moment as (${MOMENT}), alive as (${ALIVE}), gone as (
       delete from drained_upstreams where name = $3 and ${IS_ALIVE} returning name, reason, drained_at, drained_by
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select at, $5, $6, 'upstream.resume', name, ${OLD}, jsonb_strip_nulls(jsonb_build_object('reason', $4::text))
       from moment, gone
     )
     select ${IS_ALIVE} as alive, (select ${OLD} from gone) as gone,
       (select pg_notify('${UPSTREAMS_CHANNEL}', '${DRAINED_CHANGED}')::text from gone)`,
    [...parametersOf(by), name, reason ?? null, by.actor.kind, by.actor.name],
  );
  const { alive, gone } = outcome!;
  if (!alive) throw sessionEnded();
  if (gone === null) throw new OperationError(`the upstream "${name}" is not drained`, 'conflict');
  return { by: gone.drained_by, at: Date.parse(gone.drained_at), reason: gone.reason };
}

function parametersOf({ clock, session_id }: Changing): unknown[] {
  return [databaseTime(clock), session_id ?? null];
}

/** An incident: a period in which one replica kept requests from an upstream. */
export interface KeptIncident {
  readonly id: number;
  readonly replica: string;
  readonly kind: Incident['kind'];
  readonly upstream: string;
  readonly upstream_model: string | null;
  readonly began_at: Date;
  /** Time of the next probe, as last reported. */
  readonly until: Date;
  /** Time of the first success after it; `null` before. */
  readonly ended_at: Date | null;
  /** Number of failed probes plus one. */
  readonly times: number;
  readonly last: string | null;
}

/** What is written of it, and for hints; see `Incident`. */
type Period = Omit<KeptIncident, 'id' | 'replica'> & { readonly failing_ms: number | undefined };

const GAP_MS = 1000;
/** A recurrence within this time continues the incident: at a rate limit, 429 and success alternate many times a second. */
const SAME_MS = 60_000;
const PERIODS_MAX = 500;
const NAME_MAX = 200;
const TEXT_MAX = 100;

/** Text of an upstream, as it is stored and published. */
const brief = (text: string): string => text.replace(/[^ -~]/g, '?').slice(0, TEXT_MAX);
/** Retention of incidents; of them only the last `ROWS_MAX` are kept. */
const KEPT_DAYS = 30;
const ROWS_MAX = 10_000;

/** Write-behind of the incidents of this process, with hints about them to other replicas. Nothing waits for it. */
export function createIncidentKeeper(options: Surroundings) {
  const { database, clock, log, every } = options;
  const self = randomUUID();
  const periods = new LRUCache<string, Period>({ max: PERIODS_MAX });
  const changed = openWriteBehind<Period>({
    write: (periods) => writeIncidents(database, [...periods.values()], clock.now(), self),
    interval_ms: GAP_MS,
    max: PERIODS_MAX,
    when_late: 'incidents of upstreams could not be recorded yet',
    log,
    every,
  });

  function change(key: string, period: Period): void {
    periods.set(key, period);
    changed.note(`${key} ${period.began_at.getTime()}`, period);
  }

  return {
    self,
    note(incident: Incident): void {
      const { kind, upstream, upstream_model = null, until, last, failing_ms } = incident;
      if (upstream.length + (upstream_model?.length ?? 0) > NAME_MAX) return;
      const now = clock.now();
      const key = keyOf(incident);
      const known = periods.get(key);
      const goes_on = known !== undefined && now - (known.ended_at ?? known.until).getTime() < SAME_MS;
      const { began_at = new Date(now), times = 0, last: before = null } = goes_on ? known : {};
      change(key, {
        ...{ kind, upstream, upstream_model, began_at, until: new Date(until), ended_at: null, failing_ms },
        times: times + 1,
        last: last === undefined ? before : brief(last),
      });
    },
    end(subject: IncidentSubject): void {
      const key = keyOf(subject);
      const known = periods.get(key);
      // Incidents of other replicas are not recorded here.
      if (known === undefined || known.ended_at !== null) return;
      change(key, { ...known, ended_at: new Date(clock.now()) });
    },
    flush: changed.flush,
    close: changed.close,
  };
}

function keyOf({ kind, upstream, upstream_model = '' }: IncidentSubject): string {
  return `${kind} ${upstream} ${upstream_model}`;
}

async function writeIncidents(database: Queryable, periods: readonly Period[], now: number, self: string) {
  // A duration, because clocks of machines differ.
  const hints = periods
    .filter(({ until, ended_at }) => ended_at === null && until.getTime() > now)
    .map(({ kind, upstream, upstream_model, until, last, failing_ms }) =>
      JSON.stringify({ from: self, kind, upstream, upstream_model, ms: until.getTime() - now, last, failing_ms }),
    );
  await database.query(
    'upstream_incidents_write',
    `with reported as (
       insert into upstream_incidents as kept (replica, kind, upstream, upstream_model, began_at, until, ended_at, times, last)
       select $2, kind, upstream, upstream_model, began_at, until, ended_at, times, last
       from jsonb_to_recordset($1) as t (kind text, upstream text, upstream_model text, began_at timestamptz,
         until timestamptz, ended_at timestamptz, times int, last text)
       on conflict (replica, began_at, upstream, kind, upstream_model)
         do update set until = excluded.until, ended_at = excluded.ended_at, times = excluded.times, last = excluded.last
     ), forgotten as (
       delete from upstream_incidents
       where began_at < $3::timestamptz - interval '${KEPT_DAYS} days'
         or began_at < (select began_at from upstream_incidents order by began_at desc offset ${ROWS_MAX} limit 1)
     )
     select pg_notify('${UPSTREAMS_CHANNEL}', hint)::text from unnest($4::text[]) as hint`,
    [JSON.stringify(periods), REPLICA, new Date(now), hints],
  );
}

/** Incidents of all replicas, the latest first. @param only `before`: an id, for the next page; `since`: ended later */
export async function listIncidents(
  database: Queryable,
  only: { readonly upstream?: string; readonly before?: number; readonly since?: Date; readonly limit: number },
): Promise<KeptIncident[]> {
  return database.query<KeptIncident>(
    'upstream_incidents_list',
    `select t.id, t.replica, t.kind, t.upstream, t.upstream_model, t.began_at, t.until, t.ended_at, t.times, t.last
     from upstream_incidents t left join upstream_incidents b on b.id = $2::bigint
     where ($1::text is null or t.upstream = $1)
       and ($2::bigint is null or (t.began_at, t.id) < (b.began_at, b.id))
       and ($3::timestamptz is null or coalesce(t.ended_at, t.until) >= $3)
     order by t.began_at desc, t.id desc limit $4`,
    [only.upstream ?? null, only.before ?? null, only.since ?? null, only.limit],
  );
}

/** Current incidents at other replicas. Raises store_unavailable. */
export async function incidentsElsewhere(database: Queryable, now: Date): Promise<KeptIncident[]> {
  return database.query<KeptIncident>(
    'upstream_incidents_elsewhere',
    `select id, replica, kind, upstream, upstream_model, began_at, until, ended_at, times, last
     from upstream_incidents where ended_at is null and until > $1 and began_at <= $1 and replica <> $2
     order by began_at desc limit 200`,
    [now, REPLICA],
  );
}
