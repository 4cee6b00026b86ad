/**
 * What all changes of limits have in common, in SQL and as its parameters.
 * @module
 */

import type { Changing } from '../../audit/admin-changes.ts';
import type { CounterName, LimitUnit } from '../../contract/services.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { amountUnit, shownAmount } from './limit-names.ts';

/** A change of the limit on one counter. */
export interface LimitChange {
  readonly name: CounterName;
  /** In the unit of the counter; `amountIn` makes it of what somebody says. */
  readonly amount: number;
  readonly reason?: string | undefined;
}

/** The time by the clock that windows go by: the database's own, unless a test sets it. */
export const MOMENT = 'select coalesce($1::timestamptz, now()) as at';
/** Whoever acts through a session that has been ended meanwhile changes nothing. */
export const ALIVE = `select from sessions where id = $2 and revoked_at is null for share`;
/** Whether whoever acts may still do so; false for an ended session. */
export const IS_ALIVE = '($2::text is null or exists (select from alive))';

/** What a list of changes tells of a limit: its amount as people say it, by the name of their unit, and the reason. */
export const amountInJson = (word: string, scale: string) =>
  `jsonb_strip_nulls(jsonb_build_object(${word}::text, trim_scale(amount / ${scale}::numeric), 'reason', reason))`;

/** What every change answers. */
export interface Outcome {
  readonly alive: boolean;
}

/** SQL: whether a counter counts one of some keys, given as arrays of scopes and keys, and no other of the same scope. */
export function countsOnly(row: string, scopes: string, keys: string): string {
  return `(
    select bool_or(part is not null) and bool_and(part is null or part = wanted_key)
    from unnest(${scopes}::text[], ${keys}::text[]) as wanted (wanted_scope, wanted_key)
    cross join lateral (select case when position('+' in ${row}.scope) = 0
      then case when ${row}.scope = wanted_scope then ${row}.key end
      -- What no text can contain is escaped in the key, and nobody asks for it.
      when ${row}.key ~ '\\\\u(?:0000|d[89a-f])' then null
      else ${row}.key::jsonb ->> (array_position(string_to_array(${row}.scope, '+'), wanted_scope) - 1) end as part) as p
  )`;
}

/** The first parameters of every change: when, through which session, of which counter. */
export function counterParameters(by: Changing, { scope, key, window, unit }: CounterName): unknown[] {
  return [databaseTime(by.clock), by.session_id ?? null, scope, key, window, unit];
}

/** Who did what to what, and how an amount in JSON is named and scaled. */
export function noteParameters({ actor }: Changing, subject: string, unit: LimitUnit): unknown[] {
  return [actor.kind, actor.name, subject, amountUnit(unit), unit === 'nano_usd' ? 1_000_000_000 : 1];
}

/** What a list of changes tells of an amount. */
export function detailsOf(unit: LimitUnit, amount: number, reason: string | null): object {
  return { [amountUnit(unit)]: shownAmount(unit, amount), ...(reason !== null && { reason }) };
}
