import type { CounterName } from '../../../base/contract/services.ts';
import { storable } from '../../../base/kit/storable.ts';
import { factsRead } from '../../../base/rules/fact-paths.ts';
import { IN_FORCE } from '../../identity/index.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { counterId } from './headroom.ts';
import { amountUnit, countedBy, type LimitParts, shownAmount } from './limit-names.ts';
import { countsOnly, MOMENT } from './limit-settings.ts';
import {
  type CallerRow,
  callersFor,
  callersOf,
  FACT_OF_SCOPE,
  type LimitInForce,
  type LimitsAt,
  readLimits,
  ruleInForce,
  timeZone,
  type WrittenLimit,
  writtenLimit,
} from './limit-statuses.ts';
import { IS_OF_RULE, PERSON_OF_COUNTER, type SpendLimit, spendLimits } from './spend-limits.ts';

/** Bound of a list. */
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
  const [scopes, keys] = [Object.keys(of), Object.values(of)];
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
    [
      databaseTime(at.clock),
      timeZone(at.config),
      scopes,
      keys,
      counted.map(({ scope }) => scope).filter((scope) => scope.includes('+')),
    ],
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

/** Most pairs of team and project that a search for a person includes. */
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

/** Sorts empty names last. */
function byName(one: string, other: string): number {
  if (one === '' || other === '') return Number(one === '') - Number(other === '');
  return one < other ? -1 : Number(one > other);
}

/** The limits that may apply and are on none of the listed counters. */
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
  const known = new Set(names.map(counterId));
  // A counter of several rules is a candidate for each, the nearest first.
  const fresh = candidates.filter((row) => known.size < known.add(counterId(row)).size);
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

/** Used share of a limit; a limit of 0 is always used up. */
function shareOf({ limit, spent, reserved }: LimitInForce): number {
  return limit === 0 ? Number.POSITIVE_INFINITY : (spent + reserved) / limit!;
}

function distinct(names: readonly CounterName[]): CounterName[] {
  return [...new Map(names.map((name) => [counterId(name), name])).values()];
}

/** Parameter of `USED`: the limits of gateway.yaml as JSON. */
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
  /** Counters with spent or reserved amounts. */
  readonly counted: number;
  /** Of these, used up; changes at run time and amounts by group included. */
  readonly none_left: number;
  /** Of these, more than 80 % used, but not used up. */
  readonly nearly_none: number;
  /** `null` for requests in flight. */
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

/** Most counters to read one by one. */
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
