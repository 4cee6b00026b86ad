import { type GatewayConfig, SPEND_SCOPES, type SpendScope } from '../../base/contract/config.ts';
import { OperationError } from '../../base/contract/operation-error.ts';
import type { CounterName, LimitWindow } from '../../base/contract/services.ts';
import { isSpendWindow } from '../../base/contract/windows.ts';
import { printable } from '../../base/kit/text/printable.ts';
import { startOfDate } from '../../base/kit/zoned-time.ts';
import { formatCondition } from '../../base/rules/format-condition.ts';
import { limitRefusals } from '../../domain/audit/request-records.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountIn,
  countedBy,
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
import {
  countRules,
  type LimitInForce,
  limitsAround,
  limitsAtAGlance,
  type RuleCount,
  readLimits,
  startOfDay,
  timeZone,
  type WrittenLimit,
  writtenLimit,
} from '../../domain/budget/limits/limit-statuses.ts';
import { counterKey, describeLimit, spendLimits } from '../../domain/budget/limits/spend-limits.ts';
import { listPeople } from '../../domain/identity/sessions/people.ts';
import { type AdminOptions, type Caller, type OperationContext, ownerToList } from './calls.ts';
import { type ExpiryInput, expiryOf, requireId } from './description.ts';
import type { PageQuery } from './lists.ts';
import { notInList, pageOf } from './lists.ts';

const MAX_GRANT_SECONDS = MAX_GRANT_DAYS * 86_400;

type LimitInput = LimitParts &
  Readonly<Partial<Record<AmountUnit, number>>> & { readonly window: LimitWindow; readonly reason?: string };

/** End of a grant: a time, or the beginning of a day in the gateway's time zone. */
type GrantExpiry = ExpiryInput & { readonly expires_on?: string };

function grantExpiry(
  { expires_on, ...expiry }: GrantExpiry,
  { config, clock }: Pick<AdminOptions, 'config' | 'clock'>,
): ExpiryInput {
  if (expires_on === undefined) return expiry;
  if (expiry.expires_at !== undefined || expiry.expires_in_seconds !== undefined) {
    throw new OperationError('send one of "expires_at", "expires_on" and "expires_in_seconds"');
  }
  const zone = timeZone(config);
  const begin = startOfDate(expires_on, zone);
  if (begin !== undefined && begin.getTime() <= clock.now()) {
    throw new OperationError(
      `"expires_on" must be after today (${zone}): a grant ends at the beginning of that day, and ${expires_on} has begun`,
    );
  }
  if (begin === undefined) throw new OperationError('"expires_on" is not a date: expected one such as 2027-01-31');
  return { expires_at: begin.toISOString() };
}

/** Limits at run time: everyone can read their own; administrators can read and change all. */
export function limitOperations({ config, database, clock }: AdminOptions) {
  const at = { config, database, clock };
  const now = async (name: CounterName) => (await readLimits(at, [name]))[0]!;
  const changed = async (name: CounterName, previous: number | null) => ({
    previous: previous === null ? null : shownAmount(name.unit, previous),
    now: await now(name),
  });
  /** The counters of combinations of the named keys: without spending, only their own name leads to them. */
  const combined = (of: LimitParts) =>
    countedBy(config).flatMap(({ scope, window, unit }) => {
      const keys = scope.split('+').map((each) => of[each as SpendScope]);
      if (keys.length === 1 || !keys.every((key) => key !== undefined)) return [];
      return [{ scope, key: counterKey(keys), window, unit }];
    });
  const unknownUserNote = async (user: string | undefined) =>
    user === undefined || (await listPeople(at, { user, limit: 1 })).length > 0
      ? []
      : [`Unknown address ${printable(user)}: it has never signed in or had an access token.`];
  return {
    async listLimits({ caller }: OperationContext, query: LimitParts) {
      const of = whoseLimits(query, caller);
      if (of === undefined)
        return { written: spendLimits(config).map(writtenLimit), limits: await limitsAtAGlance(at) };
      if (caller.is_admin) {
        const { limits, written } = await limitsAround(at, of);
        const unlisted = combined(of).filter((name) => !limits.some((each) => isSameCounter(name, each)));
        const unspent = await readLimits(at, unlisted);
        const isShown = ({ scope, window, unit, rule }: WrittenLimit) =>
          unspent.some(
            (each) =>
              each.scope === scope &&
              each.window === window &&
              each.unit === unit &&
              each.rules.some((own) => own.rule === rule),
          );
        return { limits: [...limits, ...unspent], written: written.filter((each) => !isShown(each)) };
      }
      const { team, project } = partsIn(query);
      const named = { user: of.user!, ...(team !== undefined && { team }), ...(project !== undefined && { project }) };
      return limitsAround({ ...at, reader: caller }, named, caller.principal);
    },

    async setLimit({ by }: OperationContext, input: LimitInput) {
      const { name, amount } = parseCounter(input, config, 0);
      return changed(name, await setLimit(by, { name, amount, reason: input.reason }));
    },

    async clearLimit(
      { by }: OperationContext,
      { window, unit: unit_input, ...of }: LimitParts & { readonly window: LimitWindow; readonly unit?: AmountUnit },
    ) {
      const unit = unit_input === undefined ? unitOfWindow(window) : limitUnit(unit_input);
      if (unit === undefined) throw new OperationError('the parameter "unit" is missing: expected requests or tokens');
      const name = nameCounter({ of, window, unit });
      return changed(name, await clearLimit(by, name));
    },

    async listGrants(
      { caller }: OperationContext,
      query: PageQuery & LimitParts & { readonly ended: 'true' | 'false' },
    ) {
      const { after, limit } = query;
      const of = whoseLimits(query, caller);
      if (after !== undefined && (await listGrants(database, clock, { id: after, of, ended: true })).length === 0) {
        throw notInList();
      }
      const ended = query.ended === 'true';
      const page = pageOf(await listGrants(database, clock, { of, ended, after, limit: limit + 1 }), limit);
      const shown = page.entries.map(showGrant);
      // Only administrators see the name of the administrator.
      return {
        grants: caller.is_admin ? shown : shown.map((each) => ({ ...each, granted_by: null })),
        next: page.next,
      };
    },

    async grantLimit({ by }: OperationContext, input: LimitInput & GrantExpiry) {
      const { name, amount } = parseCounter(input, config, 1);
      const expires_at = expiryOf(grantExpiry(input, at), clock, MAX_GRANT_SECONDS);
      if (!expires_at) {
        throw new OperationError('a grant must expire: send "expires_at", "expires_on" or "expires_in_seconds"');
      }
      const grant = await grantLimit(by, { name, amount, reason: input.reason, expires_at });
      return { grant: showGrant(grant), now: await now(name) };
    },

    async previewGrant(_: OperationContext, input: LimitInput) {
      const { name, amount } = parseCounter(input, config, 1);
      const [before, after] = await Promise.all([now(name), readLimits(at, [name], amount)]);
      const [around, unknown] = await Promise.all([limitsAround(at, partsIn(input)), unknownUserNote(input.user)]);
      const others = around.limits.filter((each) => !isSameCounter(name, each));
      return { before, after: after[0]!, notes: [...unknown, ...notesOn(after[0]!, others)] };
    },

    async revokeGrant({ by }: OperationContext, { id }: { readonly id: string }) {
      const grant = await revokeGrant(by, requireId(id, 'grant'));
      return { grant: showGrant(grant), now: await now(grant.name) };
    },

    /** Rules of gateway.yaml in words, with their counts of today. */
    async listLimitRules(_: OperationContext, _nothing: object) {
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

/** The scopes among the fields of a request. */
export function partsIn(input: LimitParts): LimitParts {
  const named = SPEND_SCOPES.map((scope) => [scope, input[scope]] as const);
  return Object.fromEntries(named.filter(([, key]) => key !== undefined));
}

function whoseLimits(query: LimitParts, caller: Caller): LimitParts | undefined {
  const of = partsToFind(partsIn(query));
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
      `admin role required to see the limits of this ${scope}; omit "${scope}" to see your own`,
      'forbidden',
    );
  }
  return own;
}

function isSameCounter(name: CounterName, { scope, of, window, unit }: LimitInForce): boolean {
  const is_same = scope === name.scope && window === name.window && limitUnit(unit) === name.unit;
  return is_same && nameCounter({ of, window, unit: name.unit }).key === name.key;
}

function notesOn(after: LimitInForce, others: readonly LimitInForce[]): string[] {
  const full = others.filter(({ room, window }) => room === 0 && isSpendWindow(window));
  return [
    describeWhere(after),
    describeNothingLimited({ ...after, grants: [after] }),
    ...(after.room === 0 ? ['Not enough: the new limit is already spent or reserved.'] : []),
    ...full.map((limit) => `${describeWhose(limit)} is exhausted, too, and rejects the same requests.`),
  ].filter((note) => note !== undefined);
}

function parseCounter(input: LimitInput, config: GatewayConfig, least: 0 | 1): { name: CounterName; amount: number } {
  const [unit, another] = AMOUNT_UNITS.filter((each) => input[each] !== undefined);
  if (unit === undefined || another !== undefined)
    throw new OperationError('send one of "usd", "requests" and "tokens"');
  const name = nameCounted(config, { of: partsIn(input), window: input.window, unit: limitUnit(unit) });
  return { name, amount: amountIn(name.unit, input[unit]!, least) };
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
