import type { CounterName } from '../../contract/services.ts';
import { factsRead } from '../../rules/fact-paths.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { inForceAt } from './callers.ts';
import { MOMENT } from './limit-change.ts';
import { amountUnit } from './limit-names.ts';
import { type LimitInForce, type LimitsAt, readLimits, timeZone } from './limit-statuses.ts';
import { IS_OF_RULE, PERSON_OF_COUNTER, type SpendLimit, spendLimits } from './spend-limits.ts';

/** How many people, teams or whatever a limit counts there are in its window now. */
export interface RuleCount {
  readonly limit: SpendLimit;
  /** With something spent or reserved. */
  readonly counted: number;
  /** Of these, with nothing left: limits set at run time, grants and amounts by group are reckoned with. */
  readonly none_left: number;
  /** Of these, with more than four fifths used, and something left. */
  readonly nearly_none: number;
  /** `null` for what is counted only while a request is under way. */
  readonly resets_at: Date | null;
}

const NEARLY = 0.8;

/** What each limit of gateway.yaml counts at the moment, in file order. Raises store_unavailable. */
export async function countRules(at: LimitsAt): Promise<RuleCount[]> {
  const limits = spendLimits(at.config);
  if (limits.length === 0) return [];
  const asked = limits.map(({ name, scope, window, unit, limit, by_group, mode, matching }, position) => ({
    ...{ position, scope, window_kind: window, unit, limit: limit ?? null },
    ...{ by_group: by_group ?? {}, shadow: mode === 'shadow', rule: matching ? name : null },
  }));
  const rows = await at.database.query<Omit<RuleCount, 'limit'>>(
    'limit_rule_counts',
    `with moment as (${MOMENT}), rules as (
       select r.*, window_start(r.window_kind, at, $2) as start
       from moment, jsonb_to_recordset($3::jsonb)
         as r (position integer, scope text, window_kind text, unit text, "limit" bigint, by_group jsonb, shadow boolean,
           rule text)
     ), used as (
       select r.position, c.spent + c.reserved as taken,
         coalesce(s.amount, (select max(b.value::bigint) from principals p, jsonb_each_text(r.by_group) as b
            where r.by_group <> '{}' and p.id = 'user:' || ${PERSON_OF_COUNTER} and (b.key = any (p.groups) or exists (
              select from access_tokens t
              where t.principal_id = p.id and t.token_group = b.key and ${inForceAt('t')}))), r."limit")
           + coalesce(g.amount, 0) as "limit"
       from moment, rules r
       join spend_counters c on c.scope = r.scope and c.window_kind = r.window_kind and c.unit = r.unit
         and c.window_start = r.start and c.spent + c.reserved > 0 and ${IS_OF_RULE}
       left join limit_settings s
         -- What is set and granted is no part of a limit in shadow mode.
         on not r.shadow and s.scope = c.scope and s.key = c.key and s.window_kind = c.window_kind and s.unit = c.unit
       left join (
         select scope, key, window_kind, unit, sum(amount) as amount from limit_grants, moment
         where revoked_at is null and expires_at > at group by 1, 2, 3, 4
       ) as g on not r.shadow and g.scope = c.scope and g.key = c.key and g.window_kind = c.window_kind and g.unit = c.unit
     )
     select count(u.position)::integer as counted, (count(*) filter (where taken >= u."limit"))::integer as none_left,
       (count(*) filter (where taken < u."limit" and taken > u."limit" * ${NEARLY}))::integer as nearly_none,
       window_end(r.window_kind, r.start, $2) as resets_at
     from rules r left join used u on u.position = r.position
     group by r.position, r.window_kind, r.start order by r.position`,
    [databaseTime(at.clock), timeZone(at.config), JSON.stringify(asked)],
  );
  const counts = rows.map((row, i): RuleCount => ({ ...row, limit: limits[i]! }));
  const deciding = limits.filter(isForSomeCallers);
  if (deciding.length === 0) return counts;
  const read = await readCounted(at, deciding);
  return counts.map((count) =>
    isForSomeCallers(count.limit) ? { ...count, ...countAmong(count.limit, read) } : count,
  );
}

/** Whether the condition of a limit is about who is calling, or about what its counters count: it is not for all of those. */
function isForSomeCallers({ logic, matching, scopes }: SpendLimit): boolean {
  const reads = matching ? [] : factsRead(logic);
  const of_key = [
    ...(scopes.includes('model') ? ['request.model'] : []),
    ...(scopes.includes('upstream') ? ['route.upstream'] : []),
  ];
  return reads.some((fact) => fact.startsWith('principal.') || of_key.includes(fact));
}

/** More than anybody counts by hand. */
const MAX_READ = 10_000;
const READ_AT_ONCE = 500;

/** What is counted now where some limits count, with the rules that are for its callers. */
async function readCounted(at: LimitsAt, limits: readonly SpendLimit[]): Promise<LimitInForce[]> {
  const kinds = [...new Map(limits.map((limit) => [`${limit.scope} ${limit.window} ${limit.unit}`, limit])).values()];
  const names = await at.database.query<CounterName>(
    'limit_rule_counters',
    `with moment as (${MOMENT})
     select c.scope, c.key, c.window_kind as "window", c.unit
     from moment cross join unnest($3::text[], $4::text[], $5::text[]) as k (scope, window_kind, unit)
     join spend_counters c on c.scope = k.scope and c.window_kind = k.window_kind and c.unit = k.unit
       and c.window_start = window_start(k.window_kind, at, $2) and c.spent + c.reserved > 0
     order by c.spent + c.reserved desc limit ${MAX_READ}`,
    [
      databaseTime(at.clock),
      timeZone(at.config),
      kinds.map(({ scope }) => scope),
      kinds.map(({ window }) => window),
      kinds.map(({ unit }) => unit),
    ],
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
    // What is set and granted is no part of a limit in shadow mode.
    const granted = mode === 'shadow' ? 0 : each.grants.reduce((sum, { amount }) => sum + amount, 0);
    const base = mode === 'shadow' ? rule.limit : (each.set?.limit ?? rule.limit);
    const taken = each.spent + each.reserved;
    // By group of each member: nobody knows.
    if (base === null) return [0];
    return [base + granted > 0 ? taken / (base + granted) : 1];
  });
  return {
    counted: shares.length,
    none_left: shares.filter((share) => share >= 1).length,
    nearly_none: shares.filter((share) => share < 1 && share > NEARLY).length,
  };
}
