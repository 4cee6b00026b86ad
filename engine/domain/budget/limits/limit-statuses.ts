import type { GatewayConfig, RuleMode } from '../../../base/contract/config.ts';
import type { CounterName, LimitWindow } from '../../../base/contract/services.ts';
import {
  isSpendWindow,
  lengthOfWindow,
  SPEND_WINDOWS,
  type SpendWindow,
  WINDOWS,
} from '../../../base/contract/windows.ts';
import { storable } from '../../../base/kit/storable.ts';
import { factsRead } from '../../../base/rules/fact-paths.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { type KnownFacts, simplify } from '../../../base/rules/simplify.ts';
import type { Changing } from '../../audit/index.ts';
import { IN_FORCE, rolesOf, tokenGroupOf } from '../../identity/index.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import type { ChangesInForce } from '../reports/spending.ts';
import { counterText, limitInForce, remainingOf } from './headroom.ts';
import {
  type AmountUnit,
  amountUnit,
  type CountedName,
  countedBy,
  type LimitParts,
  nameColumns,
  partsOf,
  personalScope,
  shownAmount,
} from './limit-names.ts';
import { countsOnly, MOMENT } from './limit-settings.ts';
import {
  ALWAYS_COUNTED,
  amountFor,
  IS_OF_RULE,
  PERSON_OF_COUNTER,
  ruleOfCounter,
  type SpendLimit,
  spendLimits,
} from './spend-limits.ts';

/** A span of milliseconds in its two largest units, rounded down: `2 days 3 hours`, `20 minutes`, `less than a minute`. */
export function formatSpan(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  const parts = days > 0 ? { day: days, hour: hours } : { hour: hours, minute: minutes % 60 };
  const counted = Object.entries(parts).filter(([, count]) => count > 0);
  return counted.map(([unit, count]) => `${count} ${unit}${count === 1 ? '' : 's'}`).join(' ') || 'less than a minute';
}

const FACT_OF_SCOPE = {
  user: 'principal.email',
  team: 'principal.team',
  project: 'principal.project',
  token: 'principal.token.id',
  model: 'request.model',
  upstream: 'route.upstream',
} as const satisfies Readonly<Partial<Record<keyof LimitParts, string>>>;

/** Possible callers of requests. */
export interface Callers {
  readonly known: KnownFacts;
  /** Facts of a request with each access token and session in force; empty if no caller is known. */
  readonly ways: readonly KnownFacts[];
}

/** Facts of an access token or session in force; absent ones are unknown. */
type CallerRow = Readonly<Record<string, unknown>>;

/**
 * SQL: the access tokens and sessions in force of a person (e-mail address or empty), or the one with an id (or empty), as JSON. A
 * person without a session is expected to sign in with the same groups.
 */
const callersOf = (person: string, token: string) => `(
    select jsonb_agg(distinct jsonb_build_object('principal.id', p.id, 'principal.email', p.email, 'principal.groups', p.groups) || i.facts)
    from principals p cross join lateral (
      select jsonb_build_object('principal.kind', 'session') as facts
        where ${token} = '' and (p.signed_in_at is not null or p.groups <> '{}') and not exists (
          select from sessions s where s.principal_id = p.id and s.revoked_at is null and s.expires_at > at)
      union all
      select jsonb_build_object('principal.kind', 'session', 'principal.team', s.person -> 'team',
          'principal.project', s.person -> 'project')
        from sessions s
        where s.principal_id = p.id and ${token} in ('', s.id) and s.revoked_at is null and s.expires_at > at
      union all
      select jsonb_build_object('principal.kind', 'access_token', 'principal.team', t.team, 'principal.project', t.project,
          'principal.token.id', t.id, 'principal.token.name', t.name, 'principal.token.group', t.token_group)
        from access_tokens t where t.principal_id = p.id and ${token} in ('', t.id) and ${IN_FORCE('at')}
    ) as i
    where p.id = case when ${person} <> '' then 'user:' || ${person} else coalesce(
      (select t.principal_id from access_tokens t where t.id = ${token}),
      (select s.principal_id from sessions s where s.id = ${token})) end)`;

function callersFor(
  of: LimitParts,
  rows: readonly CallerRow[] | null,
  config: Pick<GatewayConfig, 'token_groups' | 'auth'>,
): Callers {
  const keyed = Object.entries(FACT_OF_SCOPE).flatMap(([scope, fact]) => {
    const key = of[scope as keyof typeof FACT_OF_SCOPE];
    return key === undefined ? [] : [[fact, key] as const];
  });
  const known: KnownFacts = new Map(keyed);
  const ways = (rows ?? []).map((row) => factsOf(row, config));
  const contradicts = (way: KnownFacts) => keyed.some(([fact, key]) => way.has(fact) && way.get(fact) !== key);
  return { known, ways: ways.filter((way) => !contradicts(way)).map((way) => new Map([...way, ...known])) };
}

/** The facts of a token or session; the team of a future session is unknown. */
function factsOf(row: CallerRow, config: Pick<GatewayConfig, 'token_groups' | 'auth'>): KnownFacts {
  const groups = row['principal.groups'] as readonly string[];
  const is_session = row['principal.kind'] === 'session';
  const token_group = is_session ? tokenGroupOf(config, groups) : (row['principal.token.group'] as string);
  const facts = {
    ...row,
    'principal.groups': is_session ? groups : [...new Set([token_group!, ...groups])],
    'principal.roles': is_session ? rolesOf(config.auth ?? {}, groups) : [],
    'principal.token.group': token_group ?? null,
  };
  return new Map(Object.entries(facts));
}

function commonFacts({ known, ways }: Callers): KnownFacts {
  const [first, ...others] = ways;
  if (first === undefined) return known;
  const isCommon = ([fact, value]: readonly [string, unknown]) =>
    others.every((way) => way.has(fact) && JSON.stringify(way.get(fact)) === JSON.stringify(value));
  return new Map([...first].filter(isCommon));
}

type ByGroup = Readonly<Record<string, number>> | null;

/** A limit that applies to some callers. */
export interface RuleInForce {
  /** Name of the rule, or such as `defaults.user_daily_usd`. */
  readonly rule: string;
  /**
   * `null` where it depends on the caller's groups. From `ruleInForce`: in the unit of the counter (nano-USD);
   * in `WrittenLimit` and `LimitInForce.rules`: as shown to people (USD).
   */
  readonly limit: number | null;
  /** These amounts, in the unit of people. */
  readonly by_group: ByGroup;
  readonly mode: RuleMode;
  readonly always: boolean;
  /** Condition of the rule; `null` for all requests, and where the reader may not see it. */
  readonly condition: string | null;
}

/** A limit as gateway.yaml writes it. Amounts are in `unit`: USD, requests or tokens. */
export interface WrittenLimit extends RuleInForce {
  readonly scope: string;
  readonly window: LimitWindow;
  readonly unit: AmountUnit;
}

/** Reader of limits. */
export interface LimitReader {
  /** Others do not see conditions about people, nor who set a limit. */
  readonly is_admin: boolean;
}

/** Describes a limit as gateway.yaml writes it. */
export function writtenLimit(written: SpendLimit): WrittenLimit {
  const { name, scope, window, unit, limit, mode, logic } = written;
  return {
    rule: name,
    scope,
    window,
    unit: amountUnit(unit),
    limit: limit === undefined ? null : shownAmount(unit, limit),
    by_group: shownByGroup(written),
    mode,
    always: logic === true,
    condition: logic === true ? null : formatCondition(logic),
  };
}

function shownByGroup({ unit, by_group }: SpendLimit): ByGroup {
  if (by_group === undefined) return null;
  return Object.fromEntries(Object.entries(by_group).map(([group, most]) => [group, shownAmount(unit, most)]));
}

/**
 * Applies a limit to some callers; `undefined` if it applies to none. Conditions on the caller are evaluated here; a condition on the
 * request remains.
 */
function ruleInForce(written: SpendLimit, callers: Callers, reader: LimitReader): RuleInForce | undefined {
  const { name: rule, mode, logic, matching } = written;
  const ways = callers.ways.length === 0 ? [callers.known] : callers.ways;
  const found = ways.flatMap((way) => appliedTo(written, way));
  const applied = found.filter((each) => each !== undefined);
  const amounts = new Set(applied.map(({ amount }) => amount));
  const [amount] = amounts;
  if (amount === undefined) return undefined;
  const is_for_all = applied.length === found.length && applied.every(({ rest }) => rest === true);
  const rest = simplify(logic, commonFacts(callers));
  return {
    rule,
    limit: amounts.size > 1 ? null : amount,
    by_group: reader.is_admin && (amounts.size > 1 || (rest === true && !is_for_all)) ? shownByGroup(written) : null,
    mode,
    // A counter of `count: matching` has matching requests only.
    always: (matching || is_for_all) && amounts.size === 1,
    condition: rest === true || is_for_all || !mayTell(rest, reader) ? null : formatCondition(rest),
  };
}

/** Conditions on callers may name other people, so only administrators see them. */
function mayTell(rest: unknown, { is_admin }: LimitReader): boolean {
  return is_admin || !factsRead(rest).some((fact) => fact.startsWith('principal.'));
}

/** Applies a limit to a caller, once per possible group; `undefined` where it does not apply. */
function appliedTo(written: SpendLimit, way: KnownFacts) {
  const rest = simplify(written.logic, way);
  if (rest === false) return [undefined];
  const groups = way.get('principal.groups') as readonly string[] | undefined;
  // An unknown person is in no group; without a named person any group is possible.
  const anybody = way.has('principal.email')
    ? [[]]
    : [[], ...Object.keys(written.by_group ?? {}).map((group) => [group])];
  return (groups === undefined ? anybody : [groups]).map((each) => {
    const amount = amountFor(written, each);
    return amount === undefined ? undefined : { rest, amount };
  });
}

/** Spending history of a counter. Amounts in its unit, times in milliseconds since the epoch. */
export interface Past {
  readonly spent: number;
  readonly limit: number;
  readonly since: number;
  readonly resets_at: number;
  readonly now: number;
  readonly before: number;
  readonly windows_before: number;
  readonly window: SpendWindow;
}

/** Forecast of a limit. */
export interface Forecast {
  /** `none_left`: used up now. `ends`: used up before it resets. `lasts`: neither. */
  readonly outcome: 'none_left' | 'ends' | 'lasts';
  readonly words: string;
  readonly ends_at: Date | null;
}

/** Part of a window that must be over before its own pace counts. */
const PACE_FROM = 1 / 12;

/**
 * Forecasts when a limit in money is used up: by the pace of the current window or of previous ones, whichever is faster. The pace
 * of a window that has just begun is ignored if there are previous ones.
 */
export function forecastOf(past: Past): Forecast {
  const { spent, limit, since, resets_at, now, windows_before, window } = past;
  if (spent >= limit) {
    const words = `Nothing is left until it resets, in ${formatSpan(resets_at - now)}.`;
    return { outcome: 'none_left', words, ends_at: new Date(now) };
  }
  const elapsed = Math.max(now - since, 1);
  const own = { pace: spent / elapsed, assuming: `as since the ${window} began` };
  const usual = {
    pace: windows_before === 0 ? 0 : past.before / windows_before / (resets_at - since),
    assuming: windows_before === 1 ? `as in the ${window} before` : `as in the ${windows_before} ${window}s before`,
  };
  const is_telling = elapsed >= (resets_at - since) * PACE_FROM;
  const paces = [...(is_telling || windows_before === 0 ? [own] : []), ...(windows_before === 0 ? [] : [usual])];
  const [fastest] = paces.toSorted((a, b) => b.pace - a.pace);
  const { pace, assuming } = fastest!;
  const ends_at = now + (limit - spent) / pace;
  if (ends_at < resets_at) {
    const [left, early] = [formatSpan(ends_at - now), formatSpan(resets_at - ends_at)];
    const words = `If it goes on ${assuming}, nothing is left in ${left}, ${early} before it resets.`;
    return { outcome: 'ends', words, ends_at: new Date(Math.round(ends_at)) };
  }
  const share = Math.round(((spent + pace * (resets_at - now)) / limit) * 100);
  return { outcome: 'lasts', words: `If it goes on ${assuming}, ${share} % is used when it resets.`, ends_at: null };
}

interface LimitsAt extends Pick<Changing, 'database' | 'clock'> {
  readonly config: Pick<GatewayConfig, 'spend_limits' | 'token_groups' | 'auth'>;
  readonly reader?: LimitReader;
  /** E-mail address: shared limits show the rules for requests of this person. */
  readonly about?: string;
}

/** A counter with its limit in force. Amounts are in `unit`: USD, requests or tokens. */
export type LimitInForce = ReturnType<typeof describe>;

/** SQL: how far back a forecast reads previous windows; half a day more, since days differ in length. */
const SPAN_BEFORE = `window_length(n.window_kind) * case n.window_kind ${SPEND_WINDOWS.map((window) => {
  return `when '${window}' then ${WINDOWS[window].past}`;
}).join(' ')} end + interval '12 hours'`;

interface StatusRow {
  readonly spent: number;
  readonly reserved: number;
  readonly in_flight: number;
  readonly at: Date;
  readonly began_at: Date | number;
  readonly resets_at: Date | null;
  readonly spent_before: number;
  readonly counted_from: Date | null;
  readonly changes: ChangesInForce;
  readonly callers: readonly CallerRow[] | null;
}

/**
 * Reads counters with their limits, in the order of the input. Raises store_unavailable.
 * @param if_granted a further grant to assume, in the unit of each counter
 */
export async function readLimits(at: LimitsAt, names: readonly CounterName[], if_granted = 0): Promise<LimitInForce[]> {
  const { database, clock, config } = at;
  if (names.length === 0) return [];
  const rows = await database.query<StatusRow>(
    'limits_in_force',
    `with moment as (${MOMENT})
     select coalesce(c.spent, 0)::float8 as spent, coalesce(c.reserved, 0)::float8 as reserved,
       coalesce(c.in_flight, 0) as in_flight, at, w.start as began_at, window_end(n.window_kind, w.start, $2) as resets_at,
       coalesce(past.spent, 0)::float8 as spent_before, past.counted_from,
       l.changes, ${callersOf('n.person', 'n.token')} as callers
     from moment
     cross join unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
       with ordinality as n (scope, key, window_kind, unit, person, token, position)
     cross join lateral (select window_start(n.window_kind, at, $2) as start) as w
     left join spend_counters c on c.scope = n.scope and c.key = n.key and c.window_kind = n.window_kind
       and c.unit = n.unit and c.window_start = w.start
     cross join lateral (
       select sum(b.spent) as spent, min(b.window_start) as counted_from from spend_counters b
       where n.unit = 'nano_usd' and b.scope = n.scope and b.key = n.key and b.window_kind = n.window_kind and b.unit = n.unit
         and b.window_start < w.start and b.window_start > w.start - (${SPAN_BEFORE})
     ) as past
     cross join lateral changed_limit(n.scope, n.key, n.window_kind, n.unit, at) as l
     order by n.position`,
    [
      databaseTime(clock),
      timeZone(config),
      ...nameColumns(names),
      names.map((name) => storable(partsOf(name).user ?? (partsOf(name).token === undefined ? (at.about ?? '') : ''))),
      names.map((name) => storable(partsOf(name).token ?? '')),
    ],
  );
  const limits = spendLimits(config);
  return rows.map((row, i) => describe(at, names[i]!, row, limits, if_granted));
}

/** The time zone of windows. */
export function timeZone({ spend_limits }: LimitsAt['config']): string {
  return spend_limits?.time_zone ?? 'UTC';
}

function describe(
  { config, reader = { is_admin: true } }: Pick<LimitsAt, 'config' | 'reader'>,
  name: CounterName,
  row: StatusRow,
  limits: readonly SpendLimit[],
  if_granted: number,
) {
  const { scope, window, unit } = name;
  const show = (amount: number) => shownAmount(unit, amount);
  const { set, grants } = row.changes;
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
  // Counters of money count all requests, others only requests with a limit.
  const is_always_counted = unit === 'nano_usd' && rule_name === undefined && all.some(isOfIt);
  const counted = is_personal || is_always_counted || rules.length > 0;
  const enforced = rules.flatMap(({ mode, always, limit }) => (mode === 'enforce' && always ? [limit!] : []));
  // Within a shared limit a person has their grants only.
  const [least = is_personal && !all.some(isOfIt) ? 0 : null] = enforced.toSorted((a, b) => a - b);
  const granted = grants.reduce((sum, { amount }) => sum + amount, if_granted);
  const limit = counted ? limitInForce(least, { set: set?.amount ?? null, granted }) : null;
  const { spent, reserved } = row;
  return {
    scope,
    of: partsOf(name),
    window,
    unit: amountUnit(unit),
    /** Whether gateway.yaml counts it; otherwise changes at run time have no effect. */
    counted,
    limit: limit === null ? null : show(limit),
    spent: show(spent),
    reserved: show(reserved),
    in_flight: row.in_flight,
    room: limit === null ? null : show(remainingOf({ limit, spent, reserved })),
    /** `null` for requests in flight. */
    resets_at: row.resets_at,
    forecast: limit === null ? null : forecastFor(name, row, limit),
    rules: rules.map((rule) => ({
      ...rule,
      limit: rule.limit === null ? null : show(rule.limit),
    })) as readonly RuleInForce[],
    /** Limit set at run time, in place of the enforced rules. Readers who are no administrators do not see by whom. */
    set: set && { limit: show(set.amount), reason: set.reason, set_at: new Date(set.at), set_by: nameFor(set.by) },
    grants: grants.map(({ id, amount, reason, at, by, expires_at }) => ({
      ...{ id, amount: show(amount), reason, granted_at: new Date(at), granted_by: nameFor(by) },
      expires_at: new Date(expires_at),
    })),
    time_zone: timeZone(config),
  };
}

function forecastFor({ window }: CounterName, row: StatusRow, limit: number): Forecast | null {
  if (!isSpendWindow(window)) return null;
  const since = Number(row.began_at);
  const { counted_from } = row;
  return forecastOf({
    spent: row.spent,
    limit,
    since,
    resets_at: row.resets_at!.getTime(),
    now: row.at.getTime(),
    before: row.spent_before,
    windows_before: counted_from === null ? 0 : Math.round((since - counted_from.getTime()) / lengthOfWindow(window)),
    window,
  });
}

const MAX_LISTED = 10_000;
const NEAREST = 20;
/** Most candidates for the nearest limits, read in batches: usually the first is enough. */
const MAX_CANDIDATES = 5000;
const CANDIDATES_AT_ONCE = 250;

/**
 * The counters and limits of some keys: counters that name one of them, and no other key of the same scope. At most 10,000. Raises
 * store_unavailable.
 */
export async function limitsOf(at: LimitsAt, of: LimitParts): Promise<LimitInForce[]> {
  const counted = countedBy(at.config);
  const combined = counted.map(({ scope }) => scope).filter((scope) => scope.includes('+'));
  const found = await at.database.query<CounterName>(
    'limits_of',
    `with moment as (${MOMENT}), candidates as (
       select l.* from moment cross join changed_counters(at) as l
       union select c.scope, c.key, c.window_kind, c.unit from moment
         cross join unnest($3::text[], $4::text[]) as wanted (scope, key)
         join spend_counters c on c.scope = wanted.scope and c.key = wanted.key
         where c.window_start = window_start(c.window_kind, at, $2)
       union select c.scope, c.key, c.window_kind, c.unit from moment, spend_counters c
         where c.scope = any ($5::text[]) and c.window_start = window_start(c.window_kind, at, $2)
     )
     select scope, key, window_kind as "window", unit from candidates c where ${countsOnly('c', '$3', '$4')}
     order by scope, key, window_kind, unit limit ${MAX_LISTED}`,
    [databaseTime(at.clock), timeZone(at.config), Object.keys(of), Object.values(of), combined],
  );
  const own = counted
    .filter(({ scope }) => Object.hasOwn(of, scope))
    .map((name) => ({ ...name, key: of[name.scope as keyof LimitParts]! }));
  const names = [...own, ...found];
  const limits = await readLimits(at, distinct(names));
  // Leaves out counters without a limit, but for those that always count.
  return limits.filter(
    (limit) =>
      limit.set !== null ||
      limit.rules.length > 0 ||
      limit.grants.length > 0 ||
      (limit.counted && limit.unit === 'usd'),
  );
}

const MAX_MEMBERSHIPS = 10;

interface Memberships {
  readonly team?: string | undefined;
  readonly project?: string | undefined;
}

/**
 * All limits that apply to requests of some keys: counters (of a person also those of the teams and projects of their tokens and
 * sessions in force), and limits of gateway.yaml without a counter yet or with another scope. Raises store_unavailable.
 * @param also a further team and project of the person.
 */
export async function limitsAround(at: LimitsAt, of: LimitParts, also: Memberships = {}) {
  const [row] = await at.database.query<Record<'callers' | 'of_person', readonly CallerRow[] | null>>(
    'limits_callers',
    `with moment as (${MOMENT})
     select ${callersOf('$2::text', '$3::text')} as callers,
       case when $3::text <> '' then ${callersOf('$2::text', "''")} end as of_person
     from moment`,
    [databaseTime(at.clock), storable(of.user ?? ''), storable(of.token ?? '')],
  );
  const about = of.user === undefined ? at : { ...at, about: of.user };
  const found = await Promise.all(
    everyPart(of, also, row!.of_person ?? row!.callers ?? []).map((parts) => limitsOf(about, parts)),
  );
  const limits = [...new Map(found.flat().map((limit) => [idOf(limit), limit])).values()];
  return { limits, written: otherLimits(at, of, limits, row!.callers ?? []) };
}

const idOf = ({ of, window, unit }: LimitInForce) => JSON.stringify([Object.entries(of), window, unit]);

/** The keys to search for, once with each team and project of the person unless named. */
function everyPart(of: LimitParts, also: Memberships, callers: readonly CallerRow[]): LimitParts[] {
  if (of.user === undefined) return [of];
  const named = callers.map((facts) => [facts['principal.team'] ?? '', facts['principal.project'] ?? ''] as string[]);
  const known = [...new Map(named.map((each) => [JSON.stringify(each), each])).values()]
    .toSorted((one, other) => byName(one[0]!, other[0]!) || byName(one[1]!, other[1]!))
    .slice(0, MAX_MEMBERSHIPS)
    .map(([team, project]): Memberships => ({ team: team || undefined, project: project || undefined }));
  const parts = [also, ...known].flatMap(({ team = of.team, project = of.project }): LimitParts[] => {
    if ((of.team ?? team) !== team || (of.project ?? project) !== project) return [];
    return [{ ...of, ...(team !== undefined && { team }), ...(project !== undefined && { project }) }];
  });
  return [...new Map([of, ...parts].map((each) => [JSON.stringify(each), each])).values()];
}

function byName(one: string, other: string): number {
  if (one === '' || other === '') return Number(one === '') - Number(other === '');
  return one < other ? -1 : Number(one > other);
}

function otherLimits(
  { config, reader = { is_admin: true } }: LimitsAt,
  of: LimitParts,
  listed: readonly LimitInForce[],
  rows: readonly CallerRow[],
): WrittenLimit[] {
  if (of.rule !== undefined) return [];
  const callers = callersFor(of, rows, config);
  const isListed = (limit: SpendLimit) =>
    listed.some(
      ({ scope, window, unit, rules }) =>
        scope === limit.scope &&
        window === limit.window &&
        unit === amountUnit(limit.unit) &&
        rules.some(({ rule }) => rule === limit.name),
    );
  return spendLimits(config).flatMap((limit) => {
    if (isListed(limit) || !isAbout(limit, of)) return [];
    const rule = ruleInForce(limit, callers, reader);
    if (rule === undefined) return [];
    const { by_group, condition } = rule;
    const written = writtenLimit(limit);
    const amount = rule.limit === null ? by_group && written.limit : shownAmount(limit.unit, rule.limit);
    // An amount by group applies to every caller; its size depends on the caller.
    const always = condition === null && (rule.always || by_group !== null);
    return [{ ...written, limit: amount, by_group, condition, always }];
  });
}

/**
 * Whether a limit may apply to some keys. For a person or token: every limit. For a team, project, model or upstream: limits that
 * count by it or have a condition on it; for a team or project also limits for all callers.
 */
function isAbout({ scopes, logic }: SpendLimit, of: LimitParts): boolean {
  if (of.user !== undefined || of.token !== undefined) return true;
  const reads = factsRead(logic);
  const is_named = (['team', 'project', 'model', 'upstream'] as const).some(
    (scope) => of[scope] !== undefined && (scopes.includes(scope) || reads.includes(FACT_OF_SCOPE[scope])),
  );
  const is_of_people = of.team !== undefined || of.project !== undefined;
  return is_named || (is_of_people && !reads.some((fact) => fact.startsWith('principal.')));
}

/** Beginning of the current day in the time zone of limits. Raises store_unavailable. */
export async function startOfDay({ database, clock, config }: LimitsAt): Promise<Date> {
  const [row] = await database.query<{ start: Date }>(
    'limits_day',
    `with moment as (${MOMENT}) select window_start('day', at, $2) as start from moment`,
    [databaseTime(clock), timeZone(config)],
  );
  return row!.start;
}

/**
 * The overview for administrators: every counter with a limit or grant set at run time, and the twenty others nearest to their limit.
 * Raises store_unavailable.
 */
export async function limitsAtAGlance(at: LimitsAt): Promise<LimitInForce[]> {
  const { database, clock, config } = at;
  const changed = await database.query<CounterName>(
    'limits_changed',
    `with moment as (${MOMENT})
     select scope, key, window_kind as "window", unit from moment cross join changed_counters(at)
     order by 1, 2, 3, 4 limit ${MAX_LISTED}`,
    [databaseTime(clock)],
  );
  const candidates = await database.query<CounterName & { readonly share: number }>(
    'limits_nearest',
    `with ${USED}
     select scope, key, window_kind as "window", unit,
       (taken::numeric / greatest("limit", 1))::double precision as share
     from used where "limit" is not null and not shadow and not is_set
     order by share desc, taken desc, scope, key limit ${MAX_CANDIDATES}`,
    [databaseTime(clock), timeZone(config), rulesAsJson(config)],
  );
  const names = distinct(changed);
  const known = new Set(names.map(counterText));
  // A counter of several rules is a candidate for each, the nearest first.
  const fresh = candidates.filter((row) => known.size < known.add(counterText(row)).size);
  return [...(await readLimits(at, names)), ...(await nearestOf(at, fresh))];
}

/**
 * The counters nearest to their limit. The share of a candidate is an upper bound: it includes rules that may not apply to its
 * callers, which is decided when the candidate is read.
 */
async function nearestOf(
  at: LimitsAt,
  candidates: readonly (CounterName & { readonly share: number })[],
): Promise<LimitInForce[]> {
  let nearest: LimitInForce[] = [];
  for (let begin = 0; begin < candidates.length; begin += CANDIDATES_AT_ONCE) {
    const [next] = candidates.slice(begin);
    if (nearest.length === NEAREST && shareOf(nearest.at(-1)!) >= next!.share) break;
    const read = await readLimits(at, candidates.slice(begin, begin + CANDIDATES_AT_ONCE));
    nearest = [...nearest, ...read.filter(({ limit }) => limit !== null)]
      .toSorted((a, b) => shareOf(b) - shareOf(a))
      .slice(0, NEAREST);
  }
  return nearest;
}

function shareOf({ limit, spent, reserved }: LimitInForce): number {
  return limit === 0 ? Number.POSITIVE_INFINITY : (spent + reserved) / limit!;
}

function distinct(names: readonly CounterName[]): CounterName[] {
  return [...new Map(names.map((name) => [counterText(name), name])).values()];
}

function rulesAsJson(config: LimitsAt['config']): string {
  return JSON.stringify(
    spendLimits(config).map(({ name, scope, window, unit, limit, by_group, mode, matching }, position) => ({
      ...{ position, scope, window_kind: window, unit, limit: limit ?? null },
      ...{ by_group: by_group ?? {}, shadow: mode === 'shadow', rule: matching ? name : null },
    })),
  );
}

/**
 * SQL: `rules`, the limits of gateway.yaml with the beginning of their window; and `used`, their counters with spent or reserved
 * amounts and the limit in force (set, granted or by group; a limit in shadow mode ignores changes at run time). The beginning of a
 * window is computed once per rule, not per counter.
 */
const USED = `moment as (${MOMENT}), rules as materialized (
   select r.*, window_start(r.window_kind, at, $2) as start
   from moment, jsonb_to_recordset($3::jsonb)
     as r (position integer, scope text, window_kind text, unit text, "limit" bigint, by_group jsonb, shadow boolean, rule text)
 ), used as (
   select r.position, r.shadow, c.scope, c.key, c.window_kind, c.unit, c.spent + c.reserved as taken,
     l.amount is not null and not r.shadow as is_set,
     coalesce(case when not r.shadow then l.amount end, (select max(b.value::bigint) from principals p, jsonb_each_text(r.by_group) as b
        where r.by_group <> '{}' and p.id = 'user:' || ${PERSON_OF_COUNTER} and (b.key = any (p.groups) or exists (
          select from access_tokens t
          where t.principal_id = p.id and t.token_group = b.key and ${IN_FORCE('at')}))), r."limit")
       + case when r.shadow then 0 else l.granted end as "limit"
   from moment, rules r
   join spend_counters c on c.scope = r.scope and c.window_kind = r.window_kind and c.unit = r.unit
     and c.window_start = r.start and c.spent + c.reserved > 0 and ${IS_OF_RULE}
   -- A lookup by index per counter: without statistics PostgreSQL plans a join with the changed counters as a nested loop.
   cross join lateral changed_limit(c.scope, c.key, c.window_kind, c.unit, at) as l
 )`;

/** Counters of a limit in its current window. */
export interface RuleCount {
  readonly limit: SpendLimit;
  readonly counted: number;
  readonly none_left: number;
  readonly nearly_none: number;
  readonly resets_at: Date | null;
}

const NEARLY = 0.8;

/** Counts the counters of each limit of gateway.yaml, in file order. Raises store_unavailable. */
export async function countRules(at: LimitsAt): Promise<RuleCount[]> {
  const limits = spendLimits(at.config);
  if (limits.length === 0) return [];
  const rows = await at.database.query<Omit<RuleCount, 'limit'>>(
    'limit_rule_counts',
    `with ${USED}
     select count(u.position)::integer as counted, (count(*) filter (where taken >= u."limit"))::integer as none_left,
       (count(*) filter (where taken < u."limit" and taken > u."limit" * ${NEARLY}))::integer as nearly_none,
       window_end(r.window_kind, r.start, $2) as resets_at
     from rules r left join used u on u.position = r.position
     group by r.position, r.window_kind, r.start order by r.position`,
    [databaseTime(at.clock), timeZone(at.config), rulesAsJson(at.config)],
  );
  const counts = rows.map((row, i): RuleCount => ({ ...row, limit: limits[i]! }));
  const deciding = limits.flatMap((limit, position) => (isForSomeCallers(limit) ? position : []));
  if (deciding.length === 0) return counts;
  const read = await readCounted(at, deciding);
  return counts.map((count) =>
    isForSomeCallers(count.limit) ? { ...count, ...countAmong(count.limit, read) } : count,
  );
}

/** Whether the condition of a limit reads the caller or the key of its counters, so that it does not apply to all of them. */
function isForSomeCallers({ logic, matching, scopes }: SpendLimit): boolean {
  const reads = matching ? [] : factsRead(logic);
  const of_key = [
    ...(scopes.includes('model') ? ['request.model'] : []),
    ...(scopes.includes('upstream') ? ['route.upstream'] : []),
  ];
  return reads.some((fact) => fact.startsWith('principal.') || of_key.includes(fact));
}

const MAX_READ = 10_000;
const READ_AT_ONCE = 500;

/** Reads the counters of some limits (by position), with the rules that apply to their callers. */
async function readCounted(at: LimitsAt, positions: readonly number[]): Promise<LimitInForce[]> {
  const names = await at.database.query<CounterName>(
    'limit_rule_counters',
    `with ${USED}
     select scope, key, window_kind as "window", unit from used where position = any ($4::integer[])
     group by 1, 2, 3, 4 order by max(taken) desc limit ${MAX_READ}`,
    [databaseTime(at.clock), timeZone(at.config), rulesAsJson(at.config), positions],
  );
  const read: LimitInForce[] = [];
  for (let begin = 0; begin < names.length; begin += READ_AT_ONCE) {
    read.push(...(await readLimits(at, names.slice(begin, begin + READ_AT_ONCE))));
  }
  return read;
}

function countAmong(
  { name, scope, window, unit, mode }: SpendLimit,
  read: readonly LimitInForce[],
): Pick<RuleCount, 'counted' | 'none_left' | 'nearly_none'> {
  const shares = read.flatMap((each) => {
    if (each.scope !== scope || each.window !== window || each.unit !== amountUnit(unit)) return [];
    const rule = each.rules.find((one) => one.rule === name);
    if (rule === undefined) return [];
    // A limit in shadow mode ignores changes at run time.
    const granted = mode === 'shadow' ? 0 : each.grants.reduce((sum, { amount }) => sum + amount, 0);
    const base = mode === 'shadow' ? rule.limit : (each.set?.limit ?? rule.limit);
    const taken = each.spent + each.reserved;
    // Amounts by group of each member are unknown here.
    if (base === null) return [0];
    return [base + granted > 0 ? taken / (base + granted) : 1];
  });
  return {
    counted: shares.length,
    none_left: shares.filter((share) => share >= 1).length,
    nearly_none: shares.filter((share) => share < 1 && share > NEARLY).length,
  };
}
