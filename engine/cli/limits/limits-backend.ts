import { fieldsOf } from '../../client/answers.ts';
import { type GatewayConfig, SPEND_SCOPES } from '../../contract/config.ts';
import type { CounterName, LimitWindow } from '../../contract/services.ts';
import { StartError } from '../../contract/start-error.ts';
import { systemClock } from '../../kit/clock.ts';
import { type GrantState, grantLimit, revokeGrant, showGrant } from '../../money/limits/limit-grants.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountIn,
  LIMIT_WINDOWS,
  LimitError,
  type LimitParts,
  limitUnit,
  nameCounted,
  nameCounter,
  partsToFind,
  shownAmount,
} from '../../money/limits/limit-names.ts';
import { clearLimit, setLimit } from '../../money/limits/limit-settings.ts';
import { type LimitInForce, limitsAtAGlance, limitsOf, readLimits } from '../../money/limits/limit-statuses.ts';
import { type RuleInForce, type WrittenLimit, writtenLimits } from '../../money/limits/written-limits.ts';
import type { Database } from '../../store/database.ts';
import { type Answered, type AtGateway, parameters, textOf, timeOf } from '../at-gateway.ts';
import { EXIT_FINDINGS, EXIT_USAGE } from '../exit-codes.ts';
import { operator } from '../operator.ts';

/** Which limit is meant, as people say it. */
export interface WhichLimit {
  readonly of: LimitParts;
  readonly window: LimitWindow;
  readonly unit: AmountUnit;
}

/** What is to be set or granted. */
export interface LimitWish extends WhichLimit {
  /** In USD, requests or tokens. */
  readonly amount: number;
  readonly reason?: string | undefined;
}

/** A grant as it is shown. */
export type ShownGrant = ReturnType<typeof showGrant>;

/** What came of a change: what was set before, and the counter as it stands now. */
export interface ChangedLimit {
  readonly previous: number | null;
  readonly now: LimitInForce;
}

/** Where commands look at limits and change them: the database, or a running gateway. Everything raises StartError. */
export interface LimitBackend {
  /** The limits somebody's requests meet; with nobody named, those one looks at first. */
  list(
    of: LimitParts,
  ): Promise<{ readonly written: readonly WrittenLimit[]; readonly limits: readonly LimitInForce[] }>;
  set(wish: LimitWish): Promise<ChangedLimit>;
  clear(which: WhichLimit): Promise<ChangedLimit>;
  grant(
    wish: LimitWish & { readonly expires: Date },
  ): Promise<{ readonly grant: ShownGrant; readonly now: LimitInForce }>;
  revoke(id: string): Promise<{ readonly grant: ShownGrant; readonly now: LimitInForce }>;
}

/** Limits in the database of a configuration. */
export function limitsAtDatabase(config: GatewayConfig, database: Database): LimitBackend {
  const by = { database, clock: systemClock, actor: operator() };
  const at = { config, database, clock: systemClock };
  const now = async (name: CounterName) => (await readLimits(at, [name]))[0]!;
  const shown = ({ unit }: CounterName, amount: number | null) => (amount === null ? null : shownAmount(unit, amount));
  const meant = (wish: LimitWish, least: 0 | 1) => {
    const name = nameCounted(config, { ...wish, unit: limitUnit(wish.unit) });
    return { name, amount: amountIn(name.unit, wish.amount, least), reason: wish.reason };
  };
  return {
    list: (of) =>
      worded(async () => {
        const parts = partsToFind(of);
        if (Object.keys(parts).length > 0) return { written: [], limits: await limitsOf(at, parts) };
        return { written: writtenLimits(config), limits: await limitsAtAGlance(at) };
      }),
    set: (wish) =>
      worded(async () => {
        const change = meant(wish, 0);
        const previous = await setLimit(by, change);
        return { previous: shown(change.name, previous), now: await now(change.name) };
      }),
    clear: (which) =>
      worded(async () => {
        const name = nameCounter({ ...which, unit: limitUnit(which.unit) });
        return { previous: shown(name, await clearLimit(by, name)), now: await now(name) };
      }),
    grant: (wish) =>
      worded(async () => {
        const grant = await grantLimit(by, { ...meant(wish, 1), expires_at: wish.expires });
        return { grant: showGrant(grant), now: await now(grant.name) };
      }),
    revoke: (id) =>
      worded(async () => {
        const grant = await revokeGrant(by, id);
        return { grant: showGrant(grant), now: await now(grant.name) };
      }),
  };
}

const PATH = '/admin/api/limits';

/** Limits at a running gateway, whose administrators alone change them. */
export function limitsAtGateway(gateway: AtGateway): LimitBackend {
  const changed = ({ previous, now }: Answered) => ({ previous: numberOf(previous), now: limitOf(fieldsOf(now)) });
  const granted = ({ grant, now }: Answered) => ({ grant: grantOf(fieldsOf(grant)), now: limitOf(fieldsOf(now)) });
  return {
    async list(of) {
      // What is asked for stands in the gateway's log.
      const query = parameters(await worded(async () => partsToFind(of)));
      const { written, limits } = await gateway.ask('GET', query === '' ? PATH : `${PATH}?${query}`);
      return { written: entriesOf(written).map(writtenOf), limits: entriesOf(limits).map(limitOf) };
    },
    async set({ of, window, unit, amount, reason }) {
      return changed(await gateway.ask('PUT', PATH, { ...of, window, [unit]: amount, reason }));
    },
    async clear({ of, window, unit }) {
      return changed(await gateway.ask('DELETE', `${PATH}?${parameters({ ...of, window, unit })}`));
    },
    async grant({ of, window, unit, amount, reason, expires }) {
      const body = { ...of, window, [unit]: amount, reason, expires_at: expires };
      return granted(await gateway.ask('POST', `${PATH}/grants`, body));
    },
    async revoke(id) {
      return granted(await gateway.ask('DELETE', `${PATH}/grants/${encodeURIComponent(id)}`));
    },
  };
}

async function worded<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    if (!(error instanceof LimitError)) throw error;
    const exit_code = error.problem === 'invalid' ? EXIT_USAGE : EXIT_FINDINGS;
    throw new StartError(error.message, { exit_code });
  }
}

function entriesOf(list: unknown): Answered[] {
  return Array.isArray(list) ? list.map(fieldsOf) : [];
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}

function oneOf<Choice extends string>(choices: readonly Choice[], value: unknown): Choice {
  return choices.find((each) => each === value) ?? choices[0]!;
}

/** Whose limit it is, for how long and in what. */
function nameOf(answer: Answered) {
  const of = fieldsOf(answer.of);
  return {
    scope: textOf(answer.scope),
    of: Object.fromEntries(SPEND_SCOPES.filter((scope) => scope in of).map((scope) => [scope, textOf(of[scope])])),
    window: oneOf(LIMIT_WINDOWS, answer.window),
    unit: oneOf(AMOUNT_UNITS, answer.unit),
  };
}

function grantFields(answer: Answered) {
  return {
    id: textOf(answer.id),
    amount: numberOf(answer.amount) ?? 0,
    reason: textOf(answer.reason) || null,
    granted_at: timeOf(answer.granted_at) ?? new Date(0),
    granted_by: textOf(answer.granted_by),
    expires_at: timeOf(answer.expires_at) ?? new Date(0),
  };
}

const STATES: readonly GrantState[] = ['active', 'revoked', 'expired'];

function grantOf(answer: Answered): ShownGrant {
  const { scope, of, window, unit } = nameOf(answer);
  const { id, amount, ...made } = grantFields(answer);
  const ended = { revoked_at: timeOf(answer.revoked_at), state: oneOf(STATES, answer.state) };
  return { id, scope, of, window, unit, amount, ...made, ...ended };
}

function ruleOf({ rule, limit, mode, always }: Answered): RuleInForce {
  return { rule: textOf(rule), limit: numberOf(limit), mode: modeOf(mode), always: always === true };
}

function limitOf(answer: Answered): LimitInForce {
  const set = fieldsOf(answer.set);
  return {
    ...nameOf(answer),
    counted: answer.counted !== false,
    limit: numberOf(answer.limit),
    spent: numberOf(answer.spent) ?? 0,
    reserved: numberOf(answer.reserved) ?? 0,
    in_flight: numberOf(answer.in_flight) ?? 0,
    room: numberOf(answer.room),
    resets_at: timeOf(answer.resets_at),
    rules: entriesOf(answer.rules).map(ruleOf),
    set:
      numberOf(set.limit) === null
        ? null
        : {
            limit: numberOf(set.limit)!,
            reason: textOf(set.reason) || null,
            set_at: timeOf(set.set_at) ?? new Date(0),
            set_by: textOf(set.set_by),
          },
    grants: entriesOf(answer.grants).map(grantFields),
  };
}

function writtenOf(answer: Answered): WrittenLimit {
  const { scope, window, unit } = nameOf(answer);
  const groups = Object.entries(fieldsOf(answer.by_group)).map(
    ([group, most]) => [group, numberOf(most) ?? 0] as const,
  );
  return {
    rule: textOf(answer.rule),
    scope,
    window,
    unit,
    limit: numberOf(answer.limit),
    by_group: groups.length === 0 ? null : Object.fromEntries(groups),
    mode: modeOf(answer.mode),
    always: answer.always === true,
  };
}

function modeOf(value: unknown): 'enforce' | 'shadow' {
  return value === 'shadow' ? 'shadow' : 'enforce';
}
