import type { GatewayConfig, RuleMode } from '../../contract/config.ts';
import type { LimitWindow } from '../../contract/services.ts';
import { factsRead } from '../../rules/fact-paths.ts';
import { formatCondition } from '../../rules/format-condition.ts';
import { type KnownFacts, simplify } from '../../rules/simplify.ts';
import { type Callers, commonFacts } from './callers.ts';
import { amountFor } from './limit-demands.ts';
import { type AmountUnit, amountUnit, shownAmount } from './limit-names.ts';
import { type SpendLimit, spendLimits } from './spend-limits.ts';

/** A limit as gateway.yaml writes it. Amounts are in `unit`: USD, requests or tokens. */
export interface WrittenLimit {
  /** Name of the rule, or such as `defaults.user_daily_usd`. */
  readonly rule: string;
  /** One scope, or several joined by `+`. */
  readonly scope: string;
  readonly window: LimitWindow;
  readonly unit: AmountUnit;
  /** `null` when it limits members of some groups only. */
  readonly limit: number | null;
  readonly by_group: ByGroup;
  readonly mode: RuleMode;
  /** Whether it is for every request. */
  readonly always: boolean;
  /** Which requests it is for, in the words of the rule; `null` for all. */
  readonly condition: string | null;
}

/** Amounts by group of the caller; `null` where those do not decide. */
type ByGroup = Readonly<Record<string, number>> | null;

/** Who reads what limits there are. */
export interface LimitReader {
  /** Who is no administrator is told nothing of other people: neither conditions about them nor who set a limit. */
  readonly is_admin: boolean;
}

/** The limits of a configuration as they are written, in file order. */
export function writtenLimits(config: Pick<GatewayConfig, 'spend_limits'>): WrittenLimit[] {
  return spendLimits(config).map(writtenLimit);
}

/** A limit as it is written. */
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

/** A limit of gateway.yaml on one counter. */
export interface RuleInForce {
  /** Name of the rule, or such as `defaults.user_daily_usd`. */
  readonly rule: string;
  /** In the unit of the counter; `null` where it depends on the groups of who asks. */
  readonly limit: number | null;
  /** The amounts where it does, as people say them. */
  readonly by_group: ByGroup;
  readonly mode: RuleMode;
  /** Whether it is for every request that is counted. */
  readonly always: boolean;
  /** Which requests it is for, in the words of the rule; `null` for all, and where the reader may not know. */
  readonly condition: string | null;
}

/** What a limit comes to for one way in which requests come. */
interface Applied {
  /** What is left of its condition: `true`, or a condition over facts that are not known. */
  readonly rest: unknown;
  readonly amount: number;
}

/**
 * A limit as it is for the requests of some callers; `undefined` where it is for none of them. A condition on who is calling is
 * decided here; one on the request itself makes it a limit for some requests.
 */
export function ruleInForce(written: SpendLimit, callers: Callers, reader: LimitReader): RuleInForce | undefined {
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
    // What such a counter counts is what the rule is for.
    always: (matching || is_for_all) && amounts.size === 1,
    condition: rest === true || is_for_all || !mayTell(rest, reader) ? null : formatCondition(rest),
  };
}

/** Conditions on callers may name other people. */
function mayTell(rest: unknown, { is_admin }: LimitReader): boolean {
  return is_admin || !factsRead(rest).some((fact) => fact.startsWith('principal.'));
}

/** What a limit comes to, by each group that may decide; `undefined` for requests that it is not for. */
function appliedTo(written: SpendLimit, way: KnownFacts): (Applied | undefined)[] {
  const { logic, limit } = written;
  const rest = simplify(logic, way);
  if (rest === false) return [undefined];
  const by_group = Object.entries(written.by_group ?? {});
  const groups = way.get('principal.groups') as readonly string[] | undefined;
  // A person whom nobody knows is in no group; where no person is named, each may be in any.
  const anybody = way.has('principal.email') ? [[]] : [[], ...by_group.map(([group]) => [group])];
  const choices = groups === undefined ? anybody : [groups];
  return choices.map((each) => {
    const amount = amountFor({ limit, by_group }, each);
    return amount === undefined ? undefined : { rest, amount };
  });
}
