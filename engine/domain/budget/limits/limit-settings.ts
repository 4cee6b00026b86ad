import { setTimeout as delay } from 'node:timers/promises';
import { OperationError } from '../../../base/contract/operation-error.ts';
import type { Clock, CounterName } from '../../../base/contract/services.ts';
import type { Database } from '../../../base/store/database.ts';
import { actorLabel, type Changing } from '../../audit/index.ts';
import { generateGrantId, sessionEnded } from '../../identity/index.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import {
  amountUnit,
  describeName,
  type LimitParts,
  mostGranted,
  partsOf,
  reasonOf,
  shownAmount,
} from './limit-names.ts';

const RETURN_TIMEOUT_MS = 1000;
const STEP_MS = 5;

/**
 * Resolves when the leases on a counter from before a change of its limit are returned. A process that does not return its lease
 * within a second keeps it until the lease expires.
 */
async function leasesBack(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now' | 'frozen'> },
  { scope, key, window, unit }: CounterName,
): Promise<void> {
  const deadline = performance.now() + RETURN_TIMEOUT_MS;
  do {
    const [row] = await database.query<{ is_leased: boolean }>(
      'leases_back',
      `select exists (
         select from spend_counters s
         join reservation_leases l on l.counter_id = s.id
         join processes p on p.id = l.process_id
         where s.scope = $1 and s.key = $2 and s.window_kind = $3 and s.unit = $4
           and p.heartbeat_at > coalesce($5::timestamptz, now()) - interval '15 seconds') as is_leased`,
      [scope, key, window, unit, databaseTime(clock)],
    );
    if (!row!.is_leased) return;
    await delay(STEP_MS);
  } while (performance.now() < deadline);
}

interface LimitChange {
  readonly name: CounterName;
  /** In the unit of the counter, as from `amountIn`. */
  readonly amount: number;
  readonly reason?: string | undefined;
}

/** SQL: the time of windows: the clock of the database, unless a test sets it. */
export const MOMENT = 'select coalesce($1::timestamptz, now()) as at';
/** SQL: whether a counter is about one of some keys (arrays of scopes and keys), and about no other key of those scopes. */
export function countsOnly(row: string, scopes: string, keys: string): string {
  return `(
    select bool_or(part is not null) and bool_and(part is null or part = wanted_key)
    from unnest(${scopes}::text[], ${keys}::text[]) as wanted (wanted_scope, wanted_key)
    cross join lateral (select case when position('+' in ${row}.scope) = 0
      then case when ${row}.scope = wanted_scope then ${row}.key end
      -- Escapes of characters that a text in PostgreSQL cannot contain: no search has them.
      when ${row}.key ~ '\\\\u(?:0000|d[89a-f])' then null
      else ${row}.key::jsonb ->> (array_position(string_to_array(${row}.scope, '+'), wanted_scope) - 1) end as part) as p
  )`;
}

/** SQL of changes: whether the session of the author is still in force. */
const IS_ALIVE = '($2::text is null or exists (select from alive))';
const ON_COUNTER = 'scope = $3 and key = $4 and window_kind = $5 and unit = $6';
/** SQL: the details of a row in `admin_changes`: its amount by the unit of people, and the reason. */
const AMOUNT = "jsonb_strip_nulls(jsonb_build_object(word, trim_scale(amount / scale), 'reason', reason))";

/** SQL of a kind of change; its parameters begin with $12. */
interface Step {
  /** Common table expressions; the last, `done`, has a row if something changed. */
  readonly does: string;
  readonly before?: string;
  readonly after?: string;
  readonly gives: string;
}

/**
 * Makes a change and records it in one statement, then waits for the leases from before.
 * Raises credential_revoked when the session has ended, store_unavailable.
 */
async function change<Row>(
  by: Changing,
  name: CounterName,
  action: 'set' | 'clear' | 'grant' | 'revoke',
  { does, before = 'null', after = 'null', gives }: Step,
  subject: string,
  values: readonly unknown[] = [],
): Promise<Row & { readonly changed: boolean }> {
  const { scope, key, window, unit } = name;
  const [row] = await by.database.query<Row & { readonly alive: boolean; readonly changed: boolean }>(
    `limit_${action}`,
    `with moment as (${MOMENT}), alive as (select from sessions where id = $2 and revoked_at is null for share), counter as (
       select $3::text, $4::text, $5::text, $6::text, $10::text as word, $11::numeric as scale
     ), ${does}, noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select at, $7, $8, 'limit.${action}', $9, ${before}, ${after} from moment, counter, done
     )
     select ${IS_ALIVE} as alive, exists (select from done) as changed, ${gives}`,
    [
      ...[databaseTime(by.clock), by.session_id ?? null, scope, key, window, unit, by.actor.kind, by.actor.name],
      ...[subject, amountUnit(unit), unit === 'nano_usd' ? 1_000_000_000 : 1, ...values],
    ],
  );
  if (!row!.alive) throw sessionEnded();
  if (row!.changed && action !== 'grant') await leasesBack(by, name);
  return row!;
}

function detailsOf({ name, amount }: LimitChange, reason: string | null, more = {}): string {
  const { unit } = name;
  return JSON.stringify({ ...more, [amountUnit(unit)]: shownAmount(unit, amount), ...(reason !== null && { reason }) });
}

const SET: Step = {
  does: `old as (select amount, reason from limit_settings where ${ON_COUNTER} for update), done as (
    insert into limit_settings (scope, key, window_kind, unit, amount, reason, set_at, set_by)
    -- Reads the old row before it is replaced.
    select $3, $4, $5, $6, $12::bigint, $13, at, $14 from moment, (select count(*) from old) as seen where ${IS_ALIVE}
    on conflict (scope, key, window_kind, unit) do update
      set amount = excluded.amount, reason = excluded.reason, set_at = excluded.set_at, set_by = excluded.set_by
    returning set_by
  )`,
  before: `(select ${AMOUNT} from old)`,
  after: '$15::jsonb',
  gives: '(select amount from old) as previous',
};

/**
 * Sets the limit of a counter in place of its limits in gateway.yaml, from the next request on.
 * Raises OperationError, credential_revoked when the session has ended, store_unavailable.
 * @returns the amount that was set before, or `null`.
 */
export async function setLimit(by: Changing, input: LimitChange): Promise<number | null> {
  const reason = reasonOf(input.reason);
  const values = [input.amount, reason, actorLabel(by.actor), detailsOf(input, reason)];
  const set = await change<{ previous: number | null }>(by, input.name, 'set', SET, describeName(input.name), values);
  return set.previous;
}

const CLEAR: Step = {
  does: `done as (delete from limit_settings where ${ON_COUNTER} and ${IS_ALIVE} returning amount, reason)`,
  before: AMOUNT,
  gives: '(select amount from done) as previous',
};

/**
 * Removes a limit set at run time: those of gateway.yaml apply again.
 * Raises OperationError when none is set, credential_revoked when the session has ended, store_unavailable.
 * @returns the removed amount.
 */
export async function clearLimit(by: Changing, name: CounterName): Promise<number> {
  const { changed, previous } = await change<{ previous: number }>(by, name, 'clear', CLEAR, describeName(name));
  if (changed) return previous;
  const kind = name.unit === 'nano_usd' ? 'limit' : `limit of ${name.unit}`;
  throw new OperationError(`no ${kind} is set for ${describeName(name)}: gateway.yaml applies already`, 'missing');
}

interface NewGrant extends LimitChange {
  readonly expires_at: Date;
}

interface LimitGrant {
  readonly id: string;
  readonly name: CounterName;
  readonly amount: number;
  readonly reason: string | null;
  readonly granted_at: Date;
  readonly granted_by: string;
  readonly expires_at: Date;
  readonly revoked_at: Date | null;
  readonly state: 'active' | 'revoked' | 'expired';
}

/** Longest duration of a grant. */
export const MAX_GRANT_DAYS = 366;
/** Most grants on one counter: each batch of requests sums them. */
const MAX_GRANTS = 20;

const GRANT: Step = {
  does: `room as (
    select count(*) as others, coalesce(sum(amount), 0) as granted from limit_grants, moment
    where ${ON_COUNTER} and revoked_at is null and expires_at > at
  ), done as (
    insert into limit_grants (id, scope, key, window_kind, unit, amount, reason, granted_at, granted_by, expires_at)
    select $12, $3, $4, $5, $6, $13::bigint, $14, at, $15, $16::timestamptz from moment, room
    where ${IS_ALIVE} and $16 > at and $16 <= at + make_interval(days => ${MAX_GRANT_DAYS})
      and others < ${MAX_GRANTS} and granted + $13 <= $17::bigint
    returning id
  )`,
  after: '$18::jsonb',
  gives: 'at, others, granted::text from moment, room',
};

/**
 * Raises the limit in force temporarily, from the next request on.
 * Raises OperationError, credential_revoked when the session has ended, store_unavailable.
 */
export async function grantLimit(by: Changing, input: NewGrant): Promise<LimitGrant> {
  const { name, amount, expires_at } = input;
  const [id, reason, granted_by] = [generateGrantId(), reasonOf(input.reason), actorLabel(by.actor)];
  const details = detailsOf(input, reason, { to: describeName(name), expires_at });
  const values = [id, amount, reason, granted_by, expires_at, mostGranted(name.unit), details];
  type Found = { readonly at: Date; readonly others: number; readonly granted: string };
  const { changed, at, others, granted } = await change<Found>(by, name, 'grant', GRANT, id, values);
  if (!changed) throw whyNotGranted(name, { at, others, granted: BigInt(granted), expires_at });
  return { id, name, amount, reason, granted_at: at, granted_by, expires_at, revoked_at: null, state: 'active' };
}

const REVOKE: Step = {
  does: `done as (
    update limit_grants set revoked_at = at from moment
    where id = $12 and ${ON_COUNTER} and revoked_at is null and expires_at > at and ${IS_ALIVE}
    returning revoked_at, amount, reason, expires_at
  )`,
  before: `jsonb_build_object('to', $13::text) || ${AMOUNT} || jsonb_build_object('expires_at', expires_at)`,
  after: "jsonb_build_object('revoked_at', revoked_at)",
  gives: '(select revoked_at from done) as revoked_at',
};

/**
 * Revokes a grant, from the next request on.
 * Raises OperationError when there is no such grant in force, credential_revoked when the session has ended, store_unavailable.
 */
export async function revokeGrant(by: Changing, id: string): Promise<LimitGrant> {
  const [known] = await listGrants(by.database, by.clock, { id, ended: true });
  if (known === undefined) {
    throw new OperationError(`no grant has the id "${id}"; "appscli limits list" shows those in force`, 'missing');
  }
  const { name, state } = known;
  const values = [id, describeName(name)];
  const { changed, revoked_at } = await change<{ revoked_at: Date }>(by, name, 'revoke', REVOKE, id, values);
  if (changed) return { ...known, revoked_at, state: 'revoked' };
  if (state === 'active') throw new OperationError(`the grant ${id} was just revoked by another change`, 'conflict');
  const since = (known.revoked_at ?? known.expires_at).toISOString();
  throw new OperationError(`the grant ${id} is ${state} already, since ${since}`, 'conflict');
}

interface GrantFilter {
  readonly id?: string | undefined;
  readonly of?: LimitParts | undefined;
  readonly ended?: boolean | undefined;
  /** Id of a grant: the list begins after it. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/** Lists grants, the newest first. Raises store_unavailable. */
export async function listGrants(
  database: Pick<Database, 'query'>,
  clock: Pick<Clock, 'now' | 'frozen'>,
  { id, of, ended = false, after, limit }: GrantFilter,
): Promise<LimitGrant[]> {
  const rows = await database.query<Omit<LimitGrant, 'name'> & CounterName>(
    'limit_grants_list',
    `with moment as (${MOMENT})
     select g.id, g.scope, g.key, g.window_kind as "window", g.unit, g.amount, g.reason, g.granted_at, g.granted_by, g.expires_at,
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
  return rows.map(({ scope, key, window, unit, ...grant }) => ({ ...grant, name: { scope, key, window, unit } }));
}

/** A grant as the admin API shows it. */
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
