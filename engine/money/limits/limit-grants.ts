import { actorLabel, type Changing } from '../../audit/admin-changes.ts';
import { OperationError } from '../../contract/operation-error.ts';
import type { Clock, CounterName, LimitUnit, LimitWindow } from '../../contract/services.ts';
import { generateGrantId } from '../../identity/tokens/token-format.ts';
import { sessionEnded } from '../../identity/tokens/tokens.ts';
import type { Database } from '../../store/database.ts';
import { leasesBack } from '../leases/leases-back.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import {
  ALIVE,
  amountInJson,
  counterParameters,
  countsOnly,
  detailsOf,
  IS_ALIVE,
  type LimitChange,
  MOMENT,
  noteParameters,
  type Outcome,
} from './limit-change.ts';
import {
  amountUnit,
  describeName,
  type LimitParts,
  mostGranted,
  partsOf,
  reasonOf,
  shownAmount,
} from './limit-names.ts';

/** What is granted is on top of the limit in force, as long as it lasts. */
export interface NewGrant extends LimitChange {
  readonly expires_at: Date;
}

/** What may be done with a grant. */
export type GrantState = 'active' | 'revoked' | 'expired';

/** Room that was granted on top of a limit. */
export interface LimitGrant {
  readonly id: string;
  readonly name: CounterName;
  /** In the unit of the counter. */
  readonly amount: number;
  readonly reason: string | null;
  readonly granted_at: Date;
  readonly granted_by: string;
  readonly expires_at: Date;
  readonly revoked_at: Date | null;
  readonly state: GrantState;
}

/** A grant may not last longer than this. */
export const MAX_GRANT_DAYS = 366;
/** Each of them is added up for every batch of requests. */
const MAX_GRANTS = 20;

/**
 * Grants room on top of the limit in force until a moment; the next request may use it.
 * Raises OperationError, credential_revoked when the session has ended, store_unavailable.
 */
export async function grantLimit(by: Changing, { name, amount, reason, expires_at }: NewGrant): Promise<LimitGrant> {
  const because = reasonOf(reason);
  const id = generateGrantId();
  const [outcome] = await by.database.query<
    Outcome & { readonly at: Date; readonly others: number; readonly granted: string; readonly made: boolean }
  >(
    'limit_grant',
    `with moment as (${MOMENT}), alive as (${ALIVE}), room as (
       select count(*) as others, coalesce(sum(amount), 0) as granted from limit_grants, moment
       where scope = $3 and key = $4 and window_kind = $5 and unit = $6 and revoked_at is null and expires_at > at
     ), made as (
       insert into limit_grants (id, scope, key, window_kind, unit, amount, reason, granted_at, granted_by, expires_at)
       select $7, $3, $4, $5, $6, $8::bigint, $9, at, $10, $11::timestamptz from moment, room
       where ${IS_ALIVE} and $11 > at and $11 <= at + make_interval(days => ${MAX_GRANT_DAYS})
         and others < ${MAX_GRANTS} and granted + $8 <= $12::bigint
       returning *
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, after)
       select granted_at, $13, $14, 'limit.grant', id, $15::jsonb from made
     )
     select ${IS_ALIVE} as alive, at, others, granted::text, exists (select from made) as made from moment, room`,
    [
      ...counterParameters(by, name),
      id,
      amount,
      because,
      actorLabel(by.actor),
      expires_at,
      mostGranted(name.unit),
      by.actor.kind,
      by.actor.name,
      JSON.stringify({ to: describeName(name), ...detailsOf(name.unit, amount, because), expires_at }),
    ],
  );
  const { alive, at, others, granted, made } = outcome!;
  if (!alive) throw sessionEnded();
  if (!made) throw whyNotGranted(name, { at, others, granted: BigInt(granted), expires_at });
  const granted_by = actorLabel(by.actor);
  return {
    id,
    name,
    amount,
    reason: because,
    granted_at: at,
    granted_by,
    expires_at,
    revoked_at: null,
    state: 'active',
  };
}

/**
 * Takes a grant back; the next request goes without it.
 * Raises OperationError when there is no such grant in force, credential_revoked when the session has ended, store_unavailable.
 */
export async function revokeGrant(by: Changing, id: string): Promise<LimitGrant> {
  const [known] = await listGrants(by.database, by.clock, { id, ended: true });
  if (known === undefined) {
    throw new OperationError(`no grant has the id "${id}"; "appscli limits list" shows those in force`, 'missing');
  }
  const { name, state } = known;
  const [outcome] = await by.database.query<Outcome & { readonly revoked_at: Date | null }>(
    'limit_revoke',
    `with moment as (${MOMENT}), alive as (${ALIVE}), ended as (
       update limit_grants set revoked_at = at from moment
       where id = $3 and revoked_at is null and expires_at > at and ${IS_ALIVE}
       returning revoked_at, amount, reason, expires_at
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select revoked_at, $4, $5, 'limit.revoke', $3,
         jsonb_build_object('to', $6::text) || ${amountInJson('$7', '$8')}
           || jsonb_build_object('expires_at', expires_at),
         jsonb_build_object('revoked_at', revoked_at)
       from ended
     )
     select ${IS_ALIVE} as alive, (select revoked_at from ended) as revoked_at`,
    [databaseTime(by.clock), by.session_id ?? null, id, ...noteParameters(by, describeName(name), name.unit)],
  );
  if (!outcome!.alive) throw sessionEnded();
  const { revoked_at } = outcome!;
  if (revoked_at !== null) {
    await leasesBack(by, name);
    return { ...known, revoked_at, state: 'revoked' };
  }
  if (state === 'active') throw new OperationError(`the grant ${id} has just been ended by somebody else`, 'conflict');
  const since = (known.revoked_at ?? known.expires_at).toISOString();
  throw new OperationError(`the grant ${id} is ${state} already, since ${since}`, 'conflict');
}

/** Which grants are listed; every field that is present must match. */
export interface GrantFilter {
  readonly id?: string | undefined;
  /** Counters that count one of these, and nobody else of their kind. */
  readonly of?: LimitParts | undefined;
  /** Whether those that have ended are listed as well. */
  readonly ended?: boolean | undefined;
  /** Id of a grant: only those after it. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

type GrantRow = Omit<LimitGrant, 'name' | 'state'> & {
  readonly scope: string;
  readonly key: string;
  readonly window_kind: LimitWindow;
  readonly unit: LimitUnit;
  readonly state: GrantState;
};

/** Grants, the newest first. Raises store_unavailable. */
export async function listGrants(
  database: Pick<Database, 'query'>,
  clock: Pick<Clock, 'now' | 'frozen'>,
  { id, of, ended = false, after, limit }: GrantFilter,
): Promise<LimitGrant[]> {
  const rows = await database.query<GrantRow>(
    'limit_grants_list',
    `with moment as (${MOMENT})
     select g.id, g.scope, g.key, g.window_kind, g.unit, g.amount, g.reason, g.granted_at, g.granted_by, g.expires_at,
       g.revoked_at,
       case when g.revoked_at is not null then 'revoked' when g.expires_at <= at then 'expired' else 'active' end as state
     from limit_grants g, moment
     where ($2::text is null or g.id = $2)
       and ($3 or (g.revoked_at is null and g.expires_at > at))
       and ($4::text[] is null or ${countsOnly('g', '$4', '$5')})
       and ($6::text is null or (g.granted_at, g.id) < (select granted_at, id from limit_grants where id = $6))
     order by g.granted_at desc, g.id desc limit $7`,
    [
      databaseTime(clock),
      id ?? null,
      ended,
      of === undefined ? null : Object.keys(of),
      of === undefined ? null : Object.values(of),
      after ?? null,
      limit ?? null,
    ],
  );
  return rows.map(({ scope, key, window_kind, unit, ...grant }) => ({
    ...grant,
    name: { scope, key, window: window_kind, unit },
  }));
}

/** A grant as it is shown, with its amount as people say it. */
export function showGrant({ id, name, amount, ...grant }: LimitGrant) {
  const { scope, window, unit } = name;
  const shown = { id, scope, of: partsOf(name), window, unit: amountUnit(unit), amount: shownAmount(unit, amount) };
  return { ...shown, ...grant };
}

function whyNotGranted(
  name: CounterName,
  now: { readonly at: Date; readonly others: number; readonly granted: bigint; readonly expires_at: Date },
): OperationError {
  const { at, others, granted, expires_at } = now;
  if (expires_at <= at) return new OperationError(`the end of the grant, ${expires_at.toISOString()}, has passed`);
  const last = at.getTime() + MAX_GRANT_DAYS * 86_400_000;
  if (expires_at.getTime() > last) {
    const latest = new Date(last).toISOString();
    return new OperationError(`the end of the grant is too far away: expected ${latest} at the latest`);
  }
  if (others >= MAX_GRANTS) {
    return new OperationError(
      `${describeName(name)} has ${others} grants in force already; revoke one, or set the limit`,
      'conflict',
    );
  }
  const { unit } = name;
  const most = `${shownAmount(unit, mostGranted(unit))} ${amountUnit(unit)}`;
  return new OperationError(
    `grants on one limit add up to ${most} at most, and ${shownAmount(unit, granted)} are granted; set the limit instead`,
    'conflict',
  );
}
