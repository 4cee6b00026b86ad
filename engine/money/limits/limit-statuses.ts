import type { Changing } from '../../audit/admin-changes.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import type { CounterName, LimitWindow } from '../../contract/services.ts';
import { storable } from '../../kit/storable.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { type CallerRow, callersFor, callersOf } from './callers.ts';
import { type Forecast, forecastOf } from './forecast.ts';
import { MOMENT } from './limit-change.ts';
import { ALWAYS_COUNTED } from './limit-demands.ts';
import {
  type AmountUnit,
  amountUnit,
  type CountedName,
  type LimitParts,
  partsOf,
  personalScope,
  shownAmount,
} from './limit-names.ts';
import { limitInForce, roomLeft } from './room.ts';
import { ruleOfCounter, type SpendLimit, spendLimits } from './spend-limits.ts';
import { type LimitReader, type RuleInForce, ruleInForce } from './written-limits.ts';

/** Where limits are read: the limits of gateway.yaml, and the database with what is counted, set and granted. */
export interface LimitsAt extends Pick<Changing, 'database' | 'clock'> {
  readonly config: Pick<GatewayConfig, 'spend_limits' | 'token_groups' | 'auth'>;
  /** Absent: an administrator. */
  readonly reader?: LimitReader;
  /** E-mail address: of what several share, the rules are those for this person's requests. */
  readonly about?: string;
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
  /** In which its windows begin. */
  readonly time_zone: string;
  /** When a limit in money is used up; `null` for other limits, and without one. */
  readonly forecast: (Pick<Forecast, 'outcome' | 'words'> & { readonly ends_at: Date | null }) | null;
  readonly rules: readonly RuleInForce[];
  /** The limit that was set in place of the rules that are enforced. */
  readonly set: {
    readonly limit: number;
    readonly reason: string | null;
    readonly set_at: Date;
    /** `null` for a reader who may not know. */
    readonly set_by: string | null;
  } | null;
  /** What is granted on top, what ends first before the rest. */
  readonly grants: readonly {
    readonly id: string;
    readonly amount: number;
    readonly reason: string | null;
    readonly granted_at: Date;
    /** `null` for a reader who may not know. */
    readonly granted_by: string | null;
    readonly expires_at: Date;
  }[];
}

/** SQL: how far back the windows before one are looked at; half a day more, because not all days are equally long. */
const SPAN_BEFORE = `case n.window_kind when 'day' then interval '7 days 12 hours'
  when 'week' then '28 days 12 hours' else '3 months 12 hours' end`;

interface StatusRow {
  readonly spent: string;
  readonly reserved: string;
  readonly in_flight: number;
  readonly at: Date;
  readonly began_at: Date | number;
  readonly resets_at: Date | null;
  /** Of the windows before: what was spent, and when the first of them began. */
  readonly spent_before: string;
  readonly counted_from: Date | null;
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
  readonly callers: readonly CallerRow[] | null;
}

/**
 * Some counters with their limits, in the order given. Raises store_unavailable.
 * @param if_granted what they would be with so much more granted, in the unit of each
 */
export async function readLimits(at: LimitsAt, names: readonly CounterName[], if_granted = 0): Promise<LimitInForce[]> {
  const { database, clock, config } = at;
  if (names.length === 0) return [];
  const rows = await database.query<StatusRow>(
    'limits_in_force',
    `with moment as (${MOMENT})
     select coalesce(c.spent, 0)::text as spent, coalesce(c.reserved, 0)::text as reserved, coalesce(c.in_flight, 0) as in_flight,
       at, w.start as began_at, window_end(n.window_kind, w.start, $2) as resets_at,
       coalesce(past.spent, 0)::text as spent_before, past.counted_from,
       s.amount as set_amount, s.reason as set_reason, s.set_at, s.set_by,
       (select jsonb_agg(jsonb_build_object('id', g.id, 'amount', g.amount, 'reason', g.reason, 'granted_at', g.granted_at,
            'granted_by', g.granted_by, 'expires_at', g.expires_at) order by g.expires_at, g.id)
          from limit_grants g
          where g.scope = n.scope and g.key = n.key and g.window_kind = n.window_kind and g.unit = n.unit
            and g.revoked_at is null and g.expires_at > at) as grants,
       ${callersOf('n.person', 'n.token')} as callers
     from moment
     cross join unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
       with ordinality as n (scope, key, window_kind, unit, person, token, position)
     cross join lateral (select window_start(n.window_kind, at, $2) as start) as w
     left join spend_counters c on c.scope = n.scope and c.key = n.key and c.window_kind = n.window_kind
       and c.unit = n.unit and c.window_start = w.start
     cross join lateral (
       select sum(b.spent) as spent, min(b.window_start) as counted_from from spend_counters b
       where n.unit = 'nano_usd' and b.scope = n.scope and b.key = n.key and b.window_kind = n.window_kind and b.unit = n.unit
         and b.window_start < w.start and b.window_start > w.start - ${SPAN_BEFORE}
     ) as past
     left join limit_settings s on s.scope = n.scope and s.key = n.key and s.window_kind = n.window_kind and s.unit = n.unit
     order by n.position`,
    [
      databaseTime(clock),
      timeZone(config),
      names.map(({ scope }) => scope),
      names.map(({ key }) => key),
      names.map(({ window }) => window),
      names.map(({ unit }) => unit),
      names.map((name) => storable(partsOf(name).user ?? (partsOf(name).token === undefined ? (at.about ?? '') : ''))),
      names.map((name) => storable(partsOf(name).token ?? '')),
    ],
  );
  const limits = spendLimits(config);
  return rows.map((row, i) => ({ ...describe(at, names[i]!, row, limits, if_granted), time_zone: timeZone(config) }));
}

/** The time zone in which windows begin. */
export function timeZone({ spend_limits }: LimitsAt['config']): string {
  return spend_limits?.time_zone ?? 'UTC';
}

const ADMINISTRATOR: LimitReader = { is_admin: true };

function describe(
  { config, reader = ADMINISTRATOR }: Pick<LimitsAt, 'config' | 'reader'>,
  name: CounterName,
  row: StatusRow,
  limits: readonly SpendLimit[],
  if_granted: number,
): Omit<LimitInForce, 'time_zone'> {
  const { scope, window, unit } = name;
  const show = (amount: number) => shownAmount(unit, amount);
  const grants = row.grants ?? [];
  const nameFor = (who: string | null) => (reader.is_admin ? who : null);
  const rule_name = ruleOfCounter(name);
  const isOfIt = (each: CountedName & Partial<Pick<SpendLimit, 'name'>>) =>
    each.scope === scope &&
    each.window === window &&
    each.unit === unit &&
    (rule_name === undefined || rule_name === each.name);
  const all = [...ALWAYS_COUNTED, ...limits];
  const is_personal = all.some((each) => isOfIt({ ...each, scope: personalScope(each.scope) ?? '' }));
  const callers = callersFor(partsOf(name), row.callers, config);
  const rules = limits.filter(isOfIt).flatMap((limit) => ruleInForce(limit, callers, reader) ?? []);
  // Money is counted for whoever comes under a counter, all else only where a limit is for the request.
  const is_always_counted = unit === 'nano_usd' && rule_name === undefined && all.some(isOfIt);
  const counted = is_personal || is_always_counted || rules.length > 0;
  const enforced = rules.flatMap(({ mode, always, limit }) => (mode === 'enforce' && always ? [limit!] : []));
  // Within a limit that several share, a person has what is granted and nothing else.
  const [least = is_personal && !all.some(isOfIt) ? 0 : null] = enforced.toSorted((a, b) => a - b);
  const granted = grants.reduce((sum, { amount }) => sum + amount, if_granted);
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
    forecast: limit === null ? null : forecastFor(name, row, limit),
    rules: rules.map((rule) => ({ ...rule, limit: rule.limit === null ? null : show(rule.limit) })),
    set:
      row.set_amount === null
        ? null
        : { limit: show(row.set_amount), reason: row.set_reason, set_at: row.set_at!, set_by: nameFor(row.set_by) },
    grants: grants.map((grant) => ({
      ...grant,
      amount: show(grant.amount),
      granted_by: nameFor(grant.granted_by),
      granted_at: new Date(grant.granted_at),
      expires_at: new Date(grant.expires_at),
    })),
  };
}

const DAY_MS = 86_400_000;
const WINDOW_MS = { day: DAY_MS, week: 7 * DAY_MS, month: 30.44 * DAY_MS } as const;

function forecastFor({ window }: CounterName, row: StatusRow, limit: number): LimitInForce['forecast'] {
  if (window === 'open' || window === 'minute') return null;
  const since = Number(row.began_at);
  const { counted_from } = row;
  const { ends_at = null, ...forecast } = forecastOf({
    spent: Number(row.spent),
    limit,
    since,
    resets_at: row.resets_at!.getTime(),
    now: row.at.getTime(),
    before: Number(row.spent_before),
    windows_before: counted_from === null ? 0 : Math.round((since - counted_from.getTime()) / WINDOW_MS[window]),
    window,
  });
  return { ...forecast, ends_at: ends_at === null ? null : new Date(ends_at) };
}
