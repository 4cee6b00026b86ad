import { actorLabel, type Changing } from '../../audit/admin-changes.ts';
import type { Drained } from '../../contract/forwarding.ts';
import { OperationError } from '../../contract/operation-error.ts';
import { sessionEnded } from '../../identity/tokens/tokens.ts';
import { databaseTime } from '../../money/ledger/ledger-statements.ts';
import type { Database } from '../../store/database.ts';

/** Channel of what replicas tell each other of upstreams. */
export const UPSTREAMS_CHANNEL = 'appscli_upstreams';
/** What is told there when an upstream was drained or resumed. */
export const DRAINED_CHANGED = 'drained';

const MOMENT = 'select coalesce($1::timestamptz, now()) as at';
/** Whoever acts through a session that has been ended meanwhile changes nothing. */
const ALIVE = 'select from sessions where id = $2 and revoked_at is null for share';
const IS_ALIVE = '($2::text is null or exists (select from alive))';
const OLD = `jsonb_strip_nulls(jsonb_build_object('reason', reason, 'drained_at', drained_at, 'drained_by', drained_by))`;

/** All upstreams that are drained, by name. Raises store_unavailable. */
export async function listDrained(database: Pick<Database, 'query'>): Promise<Map<string, Drained>> {
  const rows = await database.query<{ name: string; reason: string | null; at: Date; by: string }>(
    'upstreams_drained',
    'select name, reason, drained_at as at, drained_by as by from drained_upstreams order by name',
    [],
  );
  return new Map(
    rows.map(({ name, reason, at, by }) => [name, { by, at: at.getTime(), ...(reason !== null && { reason }) }]),
  );
}

/**
 * Drains an upstream: every gateway sends it no new requests from now on. One that is drained already has the new reason.
 * Raises credential_revoked when the session has ended, store_unavailable.
 */
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

/**
 * Lets an upstream have requests again.
 * Raises OperationError when it is not drained, credential_revoked when the session has ended, store_unavailable.
 * @returns who had drained it.
 */
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
