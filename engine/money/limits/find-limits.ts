import type { CounterName, LimitUnit, LimitWindow } from '../../contract/services.ts';
import { storable } from '../../kit/storable.ts';
import { factsRead } from '../../rules/fact-paths.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { type CallerRow, callersFor, callersOf, FACT_OF_SCOPE, inForceAt } from './callers.ts';
import { countsOnly, MOMENT } from './limit-change.ts';
import { amountUnit, type CountedName, countedBy, type LimitParts, shownAmount } from './limit-names.ts';
import { type LimitInForce, type LimitsAt, readLimits, timeZone } from './limit-statuses.ts';
import { IS_OF_RULE, PERSON_OF_COUNTER, type SpendLimit, spendLimits } from './spend-limits.ts';
import { ruleInForce, type WrittenLimit, writtenLimit } from './written-limits.ts';

/** More than anybody reads. */
const MAX_LISTED = 10_000;
const NEAREST = 20;
/** So many counters are looked at for the nearest; in parts, because most often the first are enough. */
const MAX_CANDIDATES = 5000;
const CANDIDATES_AT_ONCE = 250;

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

/** With more teams and projects the requests of one person are not looked at. */
const MAX_MEMBERSHIPS = 10;

/** A team and a project whose limits somebody's requests may come under. */
interface Memberships {
  readonly team?: string | undefined;
  readonly project?: string | undefined;
}

/** What a search for limits finds. */
export interface FoundLimits {
  readonly limits: readonly LimitInForce[];
  /** Limits of gateway.yaml on counters that are not among those: their requests come under these as well. */
  readonly written: readonly WrittenLimit[];
}

/**
 * All limits that requests of somebody or something come under: the counters, of a person also those of the teams and projects
 * that their tokens and sessions in force name, and the limits of gateway.yaml that count by something else or nothing yet.
 * Raises store_unavailable.
 * @param also a team and project of the person, beside those.
 */
export async function limitsAround(at: LimitsAt, of: LimitParts, also: Memberships = {}): Promise<FoundLimits> {
  const about = of.user === undefined ? at : { ...at, about: of.user };
  const found = await Promise.all((await everyPart(at, of, also)).map((parts) => limitsOf(about, parts)));
  const limits = [...new Map(found.flat().map((limit) => [idOf(limit), limit])).values()];
  return { limits, written: await otherLimits(at, of, limits) };
}

const idOf = ({ of, window, unit }: LimitInForce) => JSON.stringify([Object.entries(of), window, unit]);

/** The keys to look for, once with each team and project of a person, where none are named. */
async function everyPart(at: LimitsAt, of: LimitParts, also: Memberships): Promise<LimitParts[]> {
  const { user } = of;
  if (user === undefined) return [of];
  const known = await at.database.query<{ readonly team: string | null; readonly project: string | null }>(
    'limits_memberships',
    `with moment as (${MOMENT})
     select t.team, t.project from moment, access_tokens t where t.principal_id = 'user:' || $2 and ${inForceAt('t')}
     union select s.person ->> 'team', s.person ->> 'project' from moment, sessions s
       where s.principal_id = 'user:' || $2 and s.revoked_at is null and s.expires_at > at
     order by team, project limit ${MAX_MEMBERSHIPS}`,
    [databaseTime(at.clock), storable(user)],
  );
  const memberships = [
    also,
    ...known.map(({ team, project }) => ({ team: team ?? undefined, project: project ?? undefined })),
  ];
  const parts = memberships.flatMap(({ team = of.team, project = of.project }): LimitParts[] => {
    if ((of.team ?? team) !== team || (of.project ?? project) !== project) return [];
    return [{ ...of, ...(team !== undefined && { team }), ...(project !== undefined && { project }) }];
  });
  return [...new Map([of, ...parts].map((each) => [JSON.stringify(each), each])).values()];
}

/** The limits that may be for requests of somebody or something and are on none of the counters that are listed. */
async function otherLimits(at: LimitsAt, of: LimitParts, listed: readonly LimitInForce[]): Promise<WrittenLimit[]> {
  if (of.rule !== undefined) return [];
  const { database, clock, config, reader = { is_admin: true } } = at;
  const [row] = await database.query<{ callers: readonly CallerRow[] | null }>(
    'limits_callers',
    `with moment as (${MOMENT}) select ${callersOf('$2::text', '$3::text')} as callers from moment`,
    [databaseTime(clock), storable(of.user ?? ''), storable(of.token ?? '')],
  );
  const callers = callersFor(of, row!.callers, config);
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
    // Amounts by group are for all: which one it is depends on the caller.
    const always = condition === null && (rule.always || by_group !== null);
    return [{ ...written, limit: amount, by_group, condition, always }];
  });
}

/**
 * Whether a limit is about what is looked for. About somebody all are; about a team, a project, a model or an upstream those whose
 * condition is about it, and about a team or project also those that are for whoever asks.
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
  const candidates = await database.query<NameRow & { readonly share: number }>(
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
     select scope, key, window_kind, unit, (taken::numeric / greatest("limit", 1))::double precision as share
     from limited where "limit" is not null
     order by taken::numeric / greatest("limit", 1) desc, taken desc, scope, key limit ${MAX_CANDIDATES}`,
    [databaseTime(clock), timeZone(config), JSON.stringify(enforced(config))],
  );
  const names = distinct(changed.map(nameOf));
  const known = new Set(names.map(nameId));
  const fresh = candidates.filter((row) => !known.has(nameId(nameOf(row))));
  return [...(await readLimits(at, names)), ...(await nearestOf(at, fresh))];
}

/**
 * The counters nearest to their limit. A candidate is at most as near as its share says, which counts every rule on the counter:
 * which of them are for the requests of its callers is decided when it is read.
 */
async function nearestOf(
  at: LimitsAt,
  candidates: readonly (NameRow & { readonly share: number })[],
): Promise<LimitInForce[]> {
  let nearest: LimitInForce[] = [];
  for (let begin = 0; begin < candidates.length; begin += CANDIDATES_AT_ONCE) {
    const [next] = candidates.slice(begin);
    if (nearest.length === NEAREST && shareOf(nearest.at(-1)!) >= next!.share) break;
    const read = await readLimits(at, candidates.slice(begin, begin + CANDIDATES_AT_ONCE).map(nameOf));
    nearest = [...nearest, ...read.filter(({ limit }) => limit !== null)]
      .toSorted((a, b) => shareOf(b) - shareOf(a))
      .slice(0, NEAREST);
  }
  return nearest;
}

/** A limit of nothing is used up by whatever is spent. */
function shareOf({ limit, spent, reserved }: LimitInForce): number {
  return limit === 0 ? Number.POSITIVE_INFINITY : (spent + reserved) / limit!;
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

const nameId = ({ scope, key, window, unit }: CounterName) => JSON.stringify([scope, key, window, unit]);

function distinct(names: readonly CounterName[]): CounterName[] {
  return [...new Map(names.map((name) => [nameId(name), name])).values()];
}

/** The limits that refuse requests, as the search for the nearest counters takes them. */
function enforced(config: LimitsAt['config']): object[] {
  return spendLimits(config)
    .filter(({ mode }) => mode === 'enforce')
    .map(({ name, scope, window, unit, limit, by_group, matching }) => ({
      rule: matching ? name : null,
      scope,
      window_kind: window,
      unit,
      limit,
      by_group: by_group ?? {},
    }));
}
