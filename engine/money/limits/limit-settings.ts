import { actorLabel, type Changing } from '../../audit/admin-changes.ts';
import { OperationError } from '../../contract/operation-error.ts';
import type { CounterName } from '../../contract/services.ts';
import { sessionEnded } from '../../identity/tokens/tokens.ts';
import { leasesBack } from '../leases/leases-back.ts';
import {
  ALIVE,
  amountInJson,
  counterParameters,
  detailsOf,
  IS_ALIVE,
  type LimitChange,
  MOMENT,
  noteParameters,
  type Outcome,
} from './limit-change.ts';
import { describeName, reasonOf } from './limit-names.ts';

/**
 * Sets the limit of one counter, in place of all limits that gateway.yaml has on it; the next request goes by it.
 * Raises OperationError, credential_revoked when the session has ended, store_unavailable.
 * @returns what was set before; `null` when nothing was.
 */
export async function setLimit(by: Changing, { name, amount, reason }: LimitChange): Promise<number | null> {
  const because = reasonOf(reason);
  const [outcome] = await by.database.query<Outcome & { readonly previous: number | null }>(
    'limit_set',
    `with moment as (${MOMENT}), alive as (${ALIVE}), old as (
       select amount, reason from limit_settings
       where scope = $3 and key = $4 and window_kind = $5 and unit = $6 for update
     ), put as (
       insert into limit_settings (scope, key, window_kind, unit, amount, reason, set_at, set_by)
       -- The old one is read before it is gone.
       select $3, $4, $5, $6, $7, $8, at, $9 from moment, (select count(*) from old) as seen where ${IS_ALIVE}
       on conflict (scope, key, window_kind, unit) do update
         set amount = excluded.amount, reason = excluded.reason, set_at = excluded.set_at, set_by = excluded.set_by
       returning amount
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select at, $10, $11, 'limit.set', $12, (select ${amountInJson('$13', '$14')} from old), $15::jsonb from moment, put
     )
     select ${IS_ALIVE} as alive, (select amount from old) as previous`,
    [
      ...counterParameters(by, name),
      amount,
      because,
      actorLabel(by.actor),
      ...noteParameters(by, describeName(name), name.unit),
      JSON.stringify(detailsOf(name.unit, amount, because)),
    ],
  );
  if (!outcome!.alive) throw sessionEnded();
  await leasesBack(by, name);
  return outcome!.previous;
}

/**
 * Removes a limit that was set: those of gateway.yaml are in force again.
 * Raises OperationError when none is set, credential_revoked when the session has ended, store_unavailable.
 * @returns what was set.
 */
export async function clearLimit(by: Changing, name: CounterName): Promise<number> {
  const [outcome] = await by.database.query<Outcome & { readonly previous: number | null }>(
    'limit_clear',
    `with moment as (${MOMENT}), alive as (${ALIVE}), gone as (
       delete from limit_settings
       where scope = $3 and key = $4 and window_kind = $5 and unit = $6 and ${IS_ALIVE}
       returning amount, reason
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before)
       select at, $7, $8, 'limit.clear', $9, ${amountInJson('$10', '$11')} from moment, gone
     )
     select ${IS_ALIVE} as alive, (select amount from gone) as previous`,
    [...counterParameters(by, name), ...noteParameters(by, describeName(name), name.unit)],
  );
  if (!outcome!.alive) throw sessionEnded();
  if (outcome!.previous !== null) {
    await leasesBack(by, name);
    return outcome!.previous;
  }
  const kind = name.unit === 'nano_usd' ? 'limit' : `limit of ${name.unit}`;
  throw new OperationError(
    `no ${kind} is set for ${describeName(name)}: what gateway.yaml says is in force already`,
    'missing',
  );
}
