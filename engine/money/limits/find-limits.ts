import type { CounterName, LimitUnit, LimitWindow } from '../../contract/services.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { countsOnly, MOMENT } from './limit-change.ts';
import { type CountedName, countedBy, type LimitParts } from './limit-names.ts';
import { inForceAt, type LimitInForce, type LimitsAt, readLimits, timeZone } from './limit-statuses.ts';
import { IS_OF_RULE, PERSON_OF_COUNTER, spendLimits } from './spend-limits.ts';

/** More than anybody reads. */
const MAX_LISTED = 10_000;
const NEAREST = 20;

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

/** What an access token or session that is in force says about somebody's team, for `person`. */
const TEAMS_OF = (person: string) => `select t.team from access_tokens t
    where t.principal_id = 'user:' || ${person} and t.team is not null and ${inForceAt('t')}
  union select s.person ->> 'team' from sessions s
    where s.principal_id = 'user:' || ${person} and s.person ? 'team' and s.revoked_at is null and s.expires_at > at`;
const MAX_TEAMS = 5;

/**
 * The counters that requests of somebody or something meet, of a person also those of their teams, as far as tokens and
 * sessions in force tell them. Raises store_unavailable.
 */
export async function limitsAround(at: LimitsAt, of: LimitParts): Promise<LimitInForce[]> {
  if (of.user === undefined || of.team !== undefined) return limitsOf(at, of);
  const teams = await at.database.query<{ team: string }>(
    'limits_teams',
    `with moment as (${MOMENT}) select team from moment cross join lateral (${TEAMS_OF('$2')}) as known order by team limit ${MAX_TEAMS}`,
    [databaseTime(at.clock), of.user],
  );
  const found = await Promise.all([of, ...teams.map(({ team }) => ({ team }))].map((each) => limitsOf(at, each)));
  return found.flat();
}

/** When the day of limits began. Raises store_unavailable. */
export async function startOfDay({ database, clock, config }: LimitsAt): Promise<Date> {
  const [row] = await database.query<{ start: Date }>(
    'limits_day',
    `with moment as (${MOMENT}) select window_start('day', at, $2) as start from moment`,
    [databaseTime(clock), timeZone(config)],
  );
  return row!.start;
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
         as r (scope text, window_kind text, unit text, "limit" bigint, by_group jsonb, rule text)
     ), limited as materialized (
       select c.scope, c.key, c.window_kind, c.unit, c.spent + c.reserved as taken,
         (select min(coalesce(
              (select max(b.value::bigint) from principals p, jsonb_each_text(r.by_group) as b
               where p.id = 'user:' || ${PERSON_OF_COUNTER} and (b.key = any (p.groups) or exists (
                 select from access_tokens t
                 where t.principal_id = p.id and t.token_group = b.key and ${inForceAt('t')}))), r."limit"))
            from rules r where r.scope = c.scope and r.window_kind = c.window_kind and r.unit = c.unit
              and ${IS_OF_RULE}) as "limit"
       from moment
       -- Computed once for each kind of window, not for each counter there ever was.
       cross join lateral (
         select kind, window_start(kind, at, $2) as start from unnest(array['day', 'week', 'month', 'minute', 'open']) as kind
         offset 0
       ) as w
       join spend_counters c on c.window_kind = w.kind and c.window_start = w.start
       where c.spent + c.reserved > 0
         -- Hashed, whatever the planner knows of tables that have just been filled.
         and (c.scope, c.key, c.window_kind, c.unit) not in (select scope, key, window_kind, unit from limit_settings)
     )
     select scope, key, window_kind, unit from limited where "limit" is not null
     order by taken::numeric / greatest("limit", 1) desc, taken desc, scope, key limit ${NEAREST}`,
    [databaseTime(clock), timeZone(config), JSON.stringify(forAllCounted(config))],
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

/** The limits that hold for all that their counters count. */
function forAllCounted(config: LimitsAt['config']): object[] {
  return spendLimits(config)
    .filter(({ mode, logic, matching }) => mode === 'enforce' && (matching || logic === true))
    .map(({ name, scope, window, unit, limit, by_group, matching }) => ({
      rule: matching ? name : null,
      scope,
      window_kind: window,
      unit,
      limit,
      by_group: by_group ?? {},
    }));
}
