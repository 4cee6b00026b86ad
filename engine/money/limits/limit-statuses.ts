import type { Changing } from '../../audit/admin-changes.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import type { CounterName, LimitUnit, LimitWindow } from '../../contract/services.ts';
import { storable } from '../../kit/storable.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { countsOnly, MOMENT } from './limit-change.ts';
import { ALWAYS_COUNTED } from './limit-demands.ts';
import {
  type AmountUnit,
  amountUnit,
  type CountedName,
  countedBy,
  type LimitParts,
  partsOf,
  shownAmount,
} from './limit-names.ts';
import { limitInForce, roomLeft } from './room.ts';
import { type SpendLimit, spendLimits } from './spend-limits.ts';
import { type RuleInForce, ruleInForce } from './written-limits.ts';

/** Where limits are read: the limits of gateway.yaml, and the database with what is counted, set and granted. */
export interface LimitsAt extends Pick<Changing, 'database' | 'clock'> {
  readonly config: Pick<GatewayConfig, 'spend_limits'>;
}

/** One counter with its limit. Amounts are in `unit`: USD, requests or tokens. */
export interface LimitInForce {
  readonly scope: string;
  readonly of: LimitParts;
  readonly window: LimitWindow;
  readonly unit: AmountUnit;
  /** Whether gateway.yaml counts it; where it does not any more, what is set or granted has no effect. */
  readonly counted: boolean;
  /** What limits every request, grants included; `null` when nothing does. */
  readonly limit: number | null;
  readonly spent: number;
  readonly reserved: number;
  /** Requests under way with a reservation on it. */
  readonly in_flight: number;
  /** `null` without a limit. */
  readonly room: number | null;
  /** `null` for what is counted only while a request is under way. */
  readonly resets_at: Date | null;
  readonly rules: readonly RuleInForce[];
  /** The limit that was set in place of the rules that are enforced. */
  readonly set: {
    readonly limit: number;
    readonly reason: string | null;
    readonly set_at: Date;
    readonly set_by: string;
  } | null;
  /** What is granted on top, what ends first before the rest. */
  readonly grants: readonly {
    readonly id: string;
    readonly amount: number;
    readonly reason: string | null;
    readonly granted_at: Date;
    readonly granted_by: string;
    readonly expires_at: Date;
  }[];
}

/** More than anybody reads. */
const MAX_LISTED = 10_000;
const NEAREST = 20;

/** SQL: whether an access token may be used at the moment. */
const inForceAt = (token: string) =>
  `${token}.revoked_at is null and (${token}.expires_at is null or ${token}.expires_at > at)`;

interface StatusRow {
  readonly spent: string;
  readonly reserved: string;
  readonly in_flight: number;
  readonly resets_at: Date | null;
  readonly set_amount: number | null;
  readonly set_reason: string | null;
  readonly set_at: Date | null;
  readonly set_by: string | null;
  readonly grants:
    | readonly {
        readonly id: string;
        readonly amount: number;
        readonly reason: string | null;
        readonly granted_at: string;
        readonly granted_by: string;
        readonly expires_at: string;
      }[]
    | null;
  /** Groups that requests of the person may come with: by sign-in, and by each access token in force. */
  readonly groups: readonly (readonly string[])[] | null;
}

/** Some counters with their limits, in the order given. Raises store_unavailable. */
export async function readLimits(at: LimitsAt, names: readonly CounterName[]): Promise<LimitInForce[]> {
  const { database, clock, config } = at;
  if (names.length === 0) return [];
  const rows = await database.query<StatusRow>(
    'limits_in_force',
    `with moment as (${MOMENT})
     select coalesce(c.spent, 0)::text as spent, coalesce(c.reserved, 0)::text as reserved, coalesce(c.in_flight, 0) as in_flight,
       window_end(n.window_kind, w.start, $2) as resets_at,
       s.amount as set_amount, s.reason as set_reason, s.set_at, s.set_by,
       (select jsonb_agg(jsonb_build_object('id', g.id, 'amount', g.amount, 'reason', g.reason, 'granted_at', g.granted_at,
            'granted_by', g.granted_by, 'expires_at', g.expires_at) order by g.expires_at, g.id)
          from limit_grants g
          where g.scope = n.scope and g.key = n.key and g.window_kind = n.window_kind and g.unit = n.unit
            and g.revoked_at is null and g.expires_at > at) as grants,
       (select jsonb_agg(distinct i.groups) from (
          select p.groups where p.signed_in_at is not null or p.groups <> '{}'
          union all select p.groups || t.token_group from access_tokens t where t.principal_id = p.id and ${inForceAt('t')}
        ) as i) as groups
     from moment
     cross join unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
       with ordinality as n (scope, key, window_kind, unit, person, position)
     cross join lateral (select window_start(n.window_kind, at, $2) as start) as w
     left join spend_counters c on c.scope = n.scope and c.key = n.key and c.window_kind = n.window_kind
       and c.unit = n.unit and c.window_start = w.start
     left join limit_settings s on s.scope = n.scope and s.key = n.key and s.window_kind = n.window_kind and s.unit = n.unit
     left join principals p on p.id = 'user:' || n.person
     order by n.position`,
    [
      databaseTime(clock),
      timeZone(config),
      names.map(({ scope }) => scope),
      names.map(({ key }) => key),
      names.map(({ window }) => window),
      names.map(({ unit }) => unit),
      names.map((name) => storable(partsOf(name).user ?? '')),
    ],
  );
  const limits = spendLimits(config);
  return rows.map((row, i) => describe(names[i]!, row, limits));
}

/**
 * The counters that requests of somebody or something meet, with everything that limits them: those that name one of these
 * keys, and no other of the same kind. At most 10,000. Raises store_unavailable.
 */
export async function limitsOf(at: LimitsAt, of: LimitParts): Promise<LimitInForce[]> {
  const counted = countedBy(at.config);
  const [scopes, keys] = [Object.keys(of), Object.values(of)];
  const found = await at.database.query<NameRow>(
    'limits_of',
    `with moment as (${MOMENT}), candidates as (
       select scope, key, window_kind, unit from limit_settings
       union select scope, key, window_kind, unit from limit_grants, moment where revoked_at is null and expires_at > at
       union select c.scope, c.key, c.window_kind, c.unit from moment
         cross join unnest($3::text[], $4::text[]) as wanted (scope, key)
         join spend_counters c on c.scope = wanted.scope and c.key = wanted.key
         where c.window_start = window_start(c.window_kind, at, $2)
       union select c.scope, c.key, c.window_kind, c.unit from moment, spend_counters c
         where c.scope = any ($5::text[]) and c.window_start = window_start(c.window_kind, at, $2)
     )
     select * from candidates c where ${countsOnly('c', '$3', '$4')}
     order by scope, key, window_kind, unit limit ${MAX_LISTED}`,
    [
      databaseTime(at.clock),
      timeZone(at.config),
      scopes,
      keys,
      counted.map(({ scope }) => scope).filter((scope) => scope.includes('+')),
    ],
  );
  const own = counted.filter(({ scope }) => Object.hasOwn(of, scope)).map((name) => nameWith(name, of));
  const names = [...own, ...found.map(nameOf)];
  const limits = await readLimits(at, distinct(names));
  // A counter that no limit is for any more says nothing, unless it is kept for everybody.
  return limits.filter(
    (limit) =>
      limit.set !== null ||
      limit.rules.length > 0 ||
      limit.grants.length > 0 ||
      (limit.counted && limit.unit === 'usd'),
  );
}

/**
 * What administrators look at first: every counter whose limit was set or that has room granted, and the twenty others
 * nearest to their limit. Raises store_unavailable.
 */
export async function limitsAtAGlance(at: LimitsAt): Promise<LimitInForce[]> {
  const { database, clock, config } = at;
  const changed = await database.query<NameRow>(
    'limits_changed',
    `with moment as (${MOMENT})
     select scope, key, window_kind, unit from limit_settings
     union select scope, key, window_kind, unit from limit_grants, moment where revoked_at is null and expires_at > at
     order by 1, 2, 3, 4 limit ${MAX_LISTED}`,
    [databaseTime(clock)],
  );
  const nearest = await database.query<NameRow>(
    'limits_nearest',
    `with moment as (${MOMENT}), rules as (
       select * from jsonb_to_recordset($3::jsonb)
         as r (scope text, window_kind text, unit text, "limit" bigint, by_group jsonb)
     ), limited as (
       select c.scope, c.key, c.window_kind, c.unit, c.spent + c.reserved as taken,
         (select min(coalesce(
              (select max(b.value::bigint) from principals p, jsonb_each_text(r.by_group) as b
               where c.scope = 'user' and p.id = 'user:' || c.key and (b.key = any (p.groups) or exists (
                 select from access_tokens t
                 where t.principal_id = p.id and t.token_group = b.key and ${inForceAt('t')}))), r."limit"))
            from rules r where r.scope = c.scope and r.window_kind = c.window_kind and r.unit = c.unit) as "limit"
       from moment, spend_counters c
       where c.window_start = window_start(c.window_kind, at, $2) and c.spent + c.reserved > 0
         -- Hashed, whatever the planner knows of tables that have just been filled.
         and (c.scope, c.key, c.window_kind, c.unit) not in (select scope, key, window_kind, unit from limit_settings)
     )
     select scope, key, window_kind, unit from limited where "limit" is not null
     order by taken::numeric / greatest("limit", 1) desc, taken desc, scope, key limit ${NEAREST}`,
    [databaseTime(clock), timeZone(config), JSON.stringify(unconditional(config))],
  );
  return readLimits(at, distinct([...changed, ...nearest].map(nameOf)));
}

interface NameRow {
  readonly scope: string;
  readonly key: string;
  readonly window_kind: LimitWindow;
  readonly unit: LimitUnit;
}

function nameOf({ scope, key, window_kind, unit }: NameRow): CounterName {
  return { scope, key, window: window_kind, unit };
}

function nameWith(counted: CountedName, of: LimitParts): CounterName {
  return { ...counted, key: of[counted.scope as keyof LimitParts]! };
}

function distinct(names: readonly CounterName[]): CounterName[] {
  return [
    ...new Map(names.map((name) => [JSON.stringify([name.scope, name.key, name.window, name.unit]), name])).values(),
  ];
}

function timeZone({ spend_limits }: LimitsAt['config']): string {
  return spend_limits?.time_zone ?? 'UTC';
}

function unconditional(config: LimitsAt['config']): object[] {
  return spendLimits(config)
    .filter(({ mode, logic }) => mode === 'enforce' && logic === true)
    .map(({ scope, window, unit, limit, by_group }) => ({
      scope,
      window_kind: window,
      unit,
      limit,
      by_group: by_group ?? {},
    }));
}

function describe(name: CounterName, row: StatusRow, limits: readonly SpendLimit[]): LimitInForce {
  const { scope, window, unit } = name;
  const show = (amount: number) => shownAmount(unit, amount);
  const grants = row.grants ?? [];
  const isOfIt = (each: CountedName) => each.scope === scope && each.window === window && each.unit === unit;
  const counted = [...ALWAYS_COUNTED, ...limits].some(isOfIt);
  const rules = limits.filter(isOfIt).flatMap((limit) => ruleInForce(limit, row.groups ?? []));
  const enforced = rules.flatMap(({ mode, always, limit }) => (mode === 'enforce' && always ? [limit!] : []));
  const [least = null] = enforced.toSorted((a, b) => a - b);
  const granted = grants.reduce((sum, { amount }) => sum + amount, 0);
  const limit = counted ? limitInForce(least, { set: row.set_amount, granted }) : null;
  const [spent, reserved] = [Number(row.spent), Number(row.reserved)];
  return {
    scope,
    of: partsOf(name),
    window,
    unit: amountUnit(unit),
    counted,
    limit: limit === null ? null : show(limit),
    spent: show(spent),
    reserved: show(reserved),
    in_flight: row.in_flight,
    room: limit === null ? null : show(roomLeft({ limit, spent, reserved })),
    resets_at: row.resets_at,
    rules: rules.map((rule) => ({ ...rule, limit: rule.limit === null ? null : show(rule.limit) })),
    set:
      row.set_amount === null
        ? null
        : { limit: show(row.set_amount), reason: row.set_reason, set_at: row.set_at!, set_by: row.set_by! },
    grants: grants.map((grant) => ({
      ...grant,
      amount: show(grant.amount),
      granted_at: new Date(grant.granted_at),
      expires_at: new Date(grant.expires_at),
    })),
  };
}
