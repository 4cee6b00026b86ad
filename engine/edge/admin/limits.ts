import { type GatewayConfig, SPEND_SCOPES } from '../../base/contract/config.ts';
import { OperationError } from '../../base/contract/operation-error.ts';
import type { CounterName, LimitWindow } from '../../base/contract/services.ts';
import { printable } from '../../base/kit/text/printable.ts';
import { startOfDate } from '../../base/kit/zoned-time.ts';
import { formatCondition } from '../../base/rules/format-condition.ts';
import { limitRefusals } from '../../domain/audit/request-records.ts';
import {
  countRules,
  limitsAround,
  limitsAtAGlance,
  type RuleCount,
  startOfDay,
} from '../../domain/budget/limits/find-limits.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountIn,
  describeNothingLimited,
  describeWhere,
  describeWhose,
  type LimitParts,
  limitUnit,
  nameCounted,
  nameCounter,
  partsToFind,
  shownAmount,
  unitOfWindow,
} from '../../domain/budget/limits/limit-names.ts';
import {
  clearLimit,
  grantLimit,
  listGrants,
  MAX_GRANT_DAYS,
  revokeGrant,
  setLimit,
  showGrant,
} from '../../domain/budget/limits/limit-settings.ts';
import { type LimitInForce, readLimits, timeZone, writtenLimit } from '../../domain/budget/limits/limit-statuses.ts';

import { describeLimit, spendLimits } from '../../domain/budget/limits/spend-limits.ts';
import { listPeople } from '../../domain/identity/sessions/bindings.ts';
import { type AdminOptions, type Asked, type Caller, ownerToList, type PageAsked } from './calls.ts';
import { demandId, type EndSaid, endOfLife, notInList, pageOf } from './description.ts';

const MAX_GRANT_SECONDS = MAX_GRANT_DAYS * 86_400;

/** Whose limit is meant, for how long, and an amount of one unit. */
type LimitWish = LimitParts &
  Readonly<Partial<Record<AmountUnit, number>>> & { readonly window: LimitWindow; readonly reason?: string };

/** When a grant ends: at a moment, or as a day of the gateway begins. */
type GrantEnd = EndSaid & { readonly expires_on?: string };

function endIn({ expires_on, ...said }: GrantEnd, { config, clock }: Pick<AdminOptions, 'config' | 'clock'>): EndSaid {
  if (expires_on === undefined) return said;
  if (said.expires_at !== undefined || said.expires_in_seconds !== undefined) {
    throw new OperationError('send one of "expires_at", "expires_on" and "expires_in_seconds"');
  }
  const zone = timeZone(config);
  const begin = startOfDate(expires_on, zone);
  if (begin !== undefined && begin.getTime() <= clock.now()) {
    throw new OperationError(
      `${expires_on} has begun already (${zone}), and a grant until a day ends as it begins: name a later day`,
    );
  }
  if (begin === undefined) throw new OperationError('"expires_on" is no day: expected a date, such as 2027-01-31');
  return { expires_at: begin.toISOString() };
}

/** Limits at run time: one's own to look at, for administrators everybody's, to be changed as well. */
export function limitOperations({ config, database, clock }: AdminOptions) {
  const at = { config, database, clock };
  const now = async (name: CounterName) => (await readLimits(at, [name]))[0]!;
  const changed = async (name: CounterName, previous: number | null) => ({
    previous: previous === null ? null : shownAmount(name.unit, previous),
    now: await now(name),
  });
  const nobodyOf = async (user: string | undefined) =>
    user === undefined || (await listPeople(at, { user, limit: 1 })).length > 0
      ? []
      : [`Nobody with the address ${printable(user)} has signed in here or had an access token: check it.`];
  return {
    async listLimits({ caller }: Asked, asked: LimitParts) {
      const of = whoseLimits(asked, caller);
      if (of === undefined)
        return { written: spendLimits(config).map(writtenLimit), limits: await limitsAtAGlance(at) };
      if (caller.is_admin) return limitsAround(at, of);
      const { team, project } = partsIn(asked);
      const named = { user: of.user!, ...(team !== undefined && { team }), ...(project !== undefined && { project }) };
      return limitsAround({ ...at, reader: caller }, named, caller.principal);
    },

    async setLimit({ by }: Asked, wish: LimitWish) {
      const { name, amount } = meant(wish, config, 0);
      return changed(name, await setLimit(by, { name, amount, reason: wish.reason }));
    },

    async clearLimit(
      { by }: Asked,
      { window, unit: said, ...of }: LimitParts & { readonly window: LimitWindow; readonly unit?: AmountUnit },
    ) {
      const unit = said === undefined ? unitOfWindow(window) : limitUnit(said);
      if (unit === undefined) throw new OperationError('the parameter "unit" is missing: expected requests or tokens');
      const name = nameCounter({ of, window, unit });
      return changed(name, await clearLimit(by, name));
    },

    async listGrants({ caller }: Asked, asked: PageAsked & LimitParts & { readonly ended: 'true' | 'false' }) {
      const { after, limit } = asked;
      const of = whoseLimits(asked, caller);
      if (after !== undefined && (await listGrants(database, clock, { id: after, of, ended: true })).length === 0) {
        throw notInList();
      }
      const ended = asked.ended === 'true';
      const page = pageOf(await listGrants(database, clock, { of, ended, after, limit: limit + 1 }), limit);
      const shown = page.entries.map(showGrant);
      // Who is no administrator is not told which of them it was.
      return {
        grants: caller.is_admin ? shown : shown.map((each) => ({ ...each, granted_by: null })),
        next: page.next,
      };
    },

    async grantLimit({ by }: Asked, wish: LimitWish & GrantEnd) {
      const { name, amount } = meant(wish, config, 1);
      const expires_at = endOfLife(endIn(wish, at), clock, MAX_GRANT_SECONDS);
      if (!expires_at) {
        throw new OperationError('a grant has an end: send "expires_at", "expires_on" or "expires_in_seconds"');
      }
      const grant = await grantLimit(by, { name, amount, reason: wish.reason, expires_at });
      return { grant: showGrant(grant), now: await now(name) };
    },

    async previewGrant(_: Asked, wish: LimitWish) {
      const { name, amount } = meant(wish, config, 1);
      const [before, after] = await Promise.all([now(name), readLimits(at, [name], amount)]);
      const [around, unknown] = await Promise.all([limitsAround(at, partsIn(wish)), nobodyOf(wish.user)]);
      const others = around.limits.filter((each) => !isOn(name, each));
      return { before, after: after[0]!, notes: [...unknown, ...notesOn(after[0]!, others)] };
    },

    async revokeGrant({ by }: Asked, { id }: { readonly id: string }) {
      const grant = await revokeGrant(by, demandId(id, 'grant'));
      return { grant: showGrant(grant), now: await now(grant.name) };
    },
  };
}

function partsIn(given: LimitParts): LimitParts {
  const named = SPEND_SCOPES.map((scope) => [scope, given[scope]] as const);
  return Object.fromEntries(named.filter(([, key]) => key !== undefined));
}

/** Whom a list is about: those who are named; the caller alone unless it is an administrator, who may leave it open. */
function whoseLimits(asked: LimitParts, caller: Caller): LimitParts | undefined {
  const of = partsToFind(partsIn(asked));
  if (caller.is_admin) return Object.keys(of).length === 0 ? undefined : of;
  const { team, project } = caller.principal;
  const own: LimitParts = {
    user: ownerToList(caller, of.user) ?? caller.email,
    ...(team !== undefined && { team }),
    ...(project !== undefined && { project }),
  };
  for (const [scope, key] of Object.entries(of)) {
    if (own[scope as keyof LimitParts] === key) continue;
    throw new OperationError(
      `only administrators see this ${scope}'s limits; leave "${scope}" out to see your own`,
      'forbidden',
    );
  }
  return own;
}

function isOn(name: CounterName, { scope, of, window, unit }: LimitInForce): boolean {
  const is_same = scope === name.scope && window === name.window && limitUnit(unit) === name.unit;
  return is_same && nameCounter({ of, window, unit: name.unit }).key === name.key;
}

/** What somebody should know who grants room: that it changes nothing, or not enough. */
function notesOn(after: LimitInForce, others: readonly LimitInForce[]): string[] {
  const full = others.filter(({ room, window }) => room === 0 && window !== 'minute' && window !== 'open');
  return [
    describeWhere(after),
    describeNothingLimited({ ...after, grants: [after] }),
    ...(after.room === 0 ? ['It is still not enough: all of the new limit is spent or reserved.'] : []),
    ...full.map((limit) => `${describeWhose(limit)} has nothing left either, and refuses the same requests.`),
  ].filter((note) => note !== undefined);
}

function meant(wish: LimitWish, config: GatewayConfig, least: 0 | 1): { name: CounterName; amount: number } {
  const [unit, another] = AMOUNT_UNITS.filter((each) => wish[each] !== undefined);
  if (unit === undefined || another !== undefined)
    throw new OperationError('send one of "usd", "requests" and "tokens"');
  const name = nameCounted(config, { of: partsIn(wish), window: wish.window, unit: limitUnit(unit) });
  return { name, amount: amountIn(name.unit, wish[unit]!, least) };
}

/** The limits of gateway.yaml in words, and what they do today. */
export function limitRuleOperations({ config, database, clock }: AdminOptions) {
  const at = { config, database, clock };
  return {
    async listLimitRules(_: Asked, _nothing: object) {
      const since = await startOfDay(at);
      const [counts, refusals] = await Promise.all([countRules(at), limitRefusals(database, since)]);
      const rules = Map.groupBy(counts, ({ limit }) => limit.name);
      return {
        since,
        time_zone: timeZone(config),
        rules: [...rules].map(([name, limits]) => {
          const { rule: _rule, ...today } = refusals.find(({ rule }) => rule === name) ?? NONE_REFUSED;
          return { ...describeRule(name, limits), ...today };
        }),
      };
    },
  };
}

const NONE_REFUSED = { rule: '', refused: 0, refused_people: 0, would_refuse: 0 };

function describeRule(rule: string, counts: readonly RuleCount[]) {
  const { mode, logic } = counts[0]!.limit;
  return {
    rule,
    mode,
    condition: logic === true ? null : formatCondition(logic),
    limits: counts.map(({ limit, ...count }) => ({ ...writtenLimit(limit), words: describeLimit(limit), ...count })),
  };
}
