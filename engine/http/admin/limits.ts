import { type GatewayConfig, SPEND_SCOPES } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { CounterName } from '../../contract/services.ts';
import { grantLimit, listGrants, MAX_GRANT_DAYS, revokeGrant, showGrant } from '../../money/limits/limit-grants.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountIn,
  LIMIT_WINDOWS,
  type LimitParts,
  limitUnit,
  nameCounted,
  nameCounter,
  partsToFind,
  shownAmount,
  unitOfWindow,
} from '../../money/limits/limit-names.ts';
import { clearLimit, setLimit } from '../../money/limits/limit-settings.ts';
import { limitsAtAGlance, limitsOf, readLimits } from '../../money/limits/limit-statuses.ts';
import { writtenLimits } from '../../money/limits/written-limits.ts';
import { type Caller, demandAdmin } from './caller.ts';
import { endOfLife, type Fields, invalid } from './fields.ts';
import { ownerToList } from './owner.ts';
import { type AdminOptions, type AdminRoute, idOf, pageOf, pageSize } from './route.ts';

const LIMITS = '/admin/api/limits';
const GRANTS = `${LIMITS}/grants`;
const MAX_GRANT_SECONDS = MAX_GRANT_DAYS * 86_400;

/** Limits at run time: one's own to look at, for administrators everybody's, to be changed as well. */
export function limitRoutes({ config, database, clock }: AdminOptions): AdminRoute[] {
  const at = { config, database, clock };
  const now = async (name: CounterName) => (await readLimits(at, [name]))[0]!;
  return [
    {
      method: 'GET',
      path: LIMITS,
      scope: 'limits:read',
      async answer({ caller, query }) {
        const of = whoseLimits(query(...SPEND_SCOPES), caller);
        if (of === undefined) return { body: { written: writtenLimits(config), limits: await limitsAtAGlance(at) } };
        return { body: { written: [], limits: await limitsOf(at, of) } };
      },
    },
    {
      method: 'PUT',
      path: LIMITS,
      scope: 'limits:write',
      async answer({ caller, by, body }) {
        demandAdmin(caller);
        const given = await body(...SPEND_SCOPES, 'window', ...AMOUNT_UNITS, 'reason');
        const { name, amount } = wishOf(given, config, 0);
        const previous = await setLimit(by, { name, amount, reason: given.text('reason') });
        return { body: { previous: shownOrNull(name, previous), now: await now(name) } };
      },
    },
    {
      method: 'DELETE',
      path: LIMITS,
      scope: 'limits:write',
      told_in: 'query',
      async answer({ caller, by, query }) {
        demandAdmin(caller);
        const given = query(...SPEND_SCOPES, 'window', 'unit');
        const window = windowOf(given);
        const said = given.choice('unit', AMOUNT_UNITS);
        const unit = said === undefined ? unitOfWindow(window) : limitUnit(said);
        if (unit === undefined) throw invalid('The parameter "unit" is missing: expected requests or tokens.');
        const name = nameCounter({ of: partsIn(given), window, unit });
        return { body: { previous: shownOrNull(name, await clearLimit(by, name)), now: await now(name) } };
      },
    },
    {
      method: 'GET',
      path: GRANTS,
      scope: 'limits:read',
      async answer({ caller, query }) {
        const asked = query(...SPEND_SCOPES, 'ended', 'limit', 'after');
        const of = whoseLimits(asked, caller);
        const limit = pageSize(asked);
        const after = asked.text('after');
        const ended = asked.choice('ended', ['true', 'false']) === 'true';
        if (after !== undefined && (await listGrants(database, clock, { id: after, of, ended: true })).length === 0) {
          throw invalid('The parameter "after" names no entry of this list; begin again without it.');
        }
        const page = pageOf(await listGrants(database, clock, { of, ended, after, limit: limit + 1 }), limit);
        return { body: { grants: page.entries.map(showGrant), next: page.next } };
      },
    },
    {
      method: 'POST',
      path: GRANTS,
      scope: 'limits:write',
      async answer({ caller, by, body }) {
        demandAdmin(caller);
        const given = await body(
          ...SPEND_SCOPES,
          'window',
          ...AMOUNT_UNITS,
          'reason',
          'expires_at',
          'expires_in_seconds',
        );
        const { name, amount } = wishOf(given, config, 1);
        const expires_at = endOfLife(given, clock, MAX_GRANT_SECONDS);
        if (!expires_at) throw invalid('A grant has an end: send "expires_at" or "expires_in_seconds".');
        const grant = await grantLimit(by, { name, amount, reason: given.text('reason'), expires_at });
        return { status: 201, body: { grant: showGrant(grant), now: await now(name) } };
      },
    },
    {
      method: 'DELETE',
      path: `${GRANTS}/{id}`,
      scope: 'limits:write',
      async answer(call) {
        demandAdmin(call.caller);
        const grant = await revokeGrant(call.by, idOf(call, 'grant'));
        return { body: { grant: showGrant(grant), now: await now(grant.name) } };
      },
    },
  ];
}

type Scoped = Pick<Fields, 'email' | 'text'>;

/** The keys that are named. */
function partsIn(given: Scoped): LimitParts {
  const named = SPEND_SCOPES.map(
    (scope) => [scope, scope === 'user' ? given.email(scope) : given.text(scope)] as const,
  );
  return Object.fromEntries(named.filter(([, key]) => key !== undefined));
}

/** Whom a list is about: those who are named; the caller alone unless it is an administrator, who may leave it open. */
function whoseLimits(asked: Fields, caller: Caller): LimitParts | undefined {
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
    throw new StageError(
      'forbidden',
      `Only administrators see this ${scope}'s limits; leave "${scope}" out to see your own.`,
    );
  }
  return own;
}

function wishOf(given: Fields, config: GatewayConfig, least: 0 | 1): { name: CounterName; amount: number } {
  const said = AMOUNT_UNITS.filter((unit) => given.has(unit));
  const [unit, another] = said as [AmountUnit?, AmountUnit?];
  if (unit === undefined || another !== undefined) throw invalid('Send one of "usd", "requests" and "tokens".');
  const name = nameCounted(config, { of: partsIn(given), window: windowOf(given), unit: limitUnit(unit) });
  return { name, amount: amountIn(name.unit, given.needNumber(unit), least) };
}

function windowOf(given: Fields): (typeof LIMIT_WINDOWS)[number] {
  const window = given.choice('window', LIMIT_WINDOWS);
  if (window === undefined) throw invalid('"window" is missing: expected day, week, month, minute or open.');
  return window;
}

function shownOrNull({ unit }: CounterName, amount: number | null): number | null {
  return amount === null ? null : shownAmount(unit, amount);
}
