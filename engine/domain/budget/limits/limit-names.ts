import { type GatewayConfig, SPEND_SCOPES, type SpendScope } from '../../../base/contract/config.ts';
import { OperationError } from '../../../base/contract/operation-error.ts';
import type { CounterName, LimitUnit, LimitWindow } from '../../../base/contract/services.ts';
import { isSpendWindow, perWindow, WINDOWS } from '../../../base/contract/windows.ts';
import { nanoToUsd, usdToNano } from '../../../base/kit/money.ts';
import { printable } from '../../../base/kit/text/printable.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { nameOf } from '../../identity/index.ts';
import { modelOf } from '../prices/known-models.ts';
import type { LimitInForce } from './limit-statuses.ts';
import { ALWAYS_COUNTED, counterKey, describeCounter, spendLimits } from './spend-limits.ts';

/** The subject of a limit: a key for each named scope; several together are a combination. */
export type LimitParts = Readonly<Partial<Record<SpendScope, string>>>;

/** Units of amounts in commands, the admin API and the console. */
export const AMOUNT_UNITS = ['usd', 'requests', 'tokens'] as const;

/** Unit of an amount for people. */
export type AmountUnit = (typeof AMOUNT_UNITS)[number];

export type CountedName = Omit<CounterName, 'key'>;

/** Keeps the sum of a limit and its grants an exact number of nano-USD. */
const MAX_USD = 4_000_000;
const MAX_NANO_USD = usdToNano(MAX_USD);
const MAX_COUNT = 1_000_000_000_000;
const CREDENTIAL = /^(?:gw[rs]?_|eyJ)/;

/** Counters of a configuration. Limits and grants at run time are possible only on these. */
export function countedBy(config: Pick<GatewayConfig, 'spend_limits'>): readonly CountedName[] {
  const found = new Map<string, CountedName>();
  for (const { scope, window, unit } of [...ALWAYS_COUNTED, ...spendLimits(config)]) {
    found.set(`${scope} ${window} ${unit}`, { scope, window, unit });
    const own = personalScope(scope);
    if (own !== undefined) found.set(`${own} ${window} ${unit}`, { scope: own, window, unit });
  }
  return [...found.values()];
}

/**
 * The scope of grants to one person within a shared limit; `undefined` for a limit of one person. Such a grant is used once the
 * shared limit is used up.
 */
export function personalScope(scope: string): string | undefined {
  const scopes = scope.split('+');
  return scopes.includes('user') || scopes.includes('token') ? undefined : ['user', ...scopes].join('+');
}

/** The counter of grants to one person within a shared limit. */
export function personalCounter({ scope, key, window, unit }: CounterName, user: string): CounterName | undefined {
  const own = personalScope(scope);
  if (own === undefined) return undefined;
  const keys = scope.includes('+') ? (JSON.parse(key) as string[]) : [key];
  return { scope: own, key: counterKey([user, ...keys]), window, unit };
}

export interface LimitName {
  readonly of: LimitParts;
  readonly window: LimitWindow;
  readonly unit: LimitUnit;
}

/** The counter of a limit that can be set or granted. Raises OperationError when gateway.yaml does not count it. */
export function nameCounted(config: GatewayConfig, { of, window, unit }: LimitName): CounterName {
  const name = nameCounter({ of, window, unit });
  const { from_model_lists, models, upstreams } = config;
  if (!from_model_lists) requireKnown('model', of, models);
  else if (of.model !== undefined && modelOf(config, of.model) === undefined)
    throw new OperationError(`there is no model "${of.model}": the catalogue of prices does not know it`);
  requireKnown('upstream', of, upstreams);
  const rules = spendLimits(config).filter(({ matching }) => matching);
  requireKnown('rule', of, rules, 'gateway.yaml has no rule with `count: matching`');
  const counted = countedBy(config);
  if (counted.some((each) => each.scope === name.scope && each.window === window && each.unit === unit)) return name;
  const there_are = [...new Set(counted.map(describeCounted))].join('; ');
  throw new OperationError(
    `gateway.yaml does not count ${describeCounted(name)}: add such a limit to spend_limits, or name one that is counted: ${there_are}`,
  );
}

/** The counter of a limit, also of one that gateway.yaml no longer counts. Raises OperationError. */
export function nameCounter({ of, window, unit }: LimitName): CounterName {
  const scopes = SPEND_SCOPES.filter((scope) => of[scope] !== undefined);
  if (scopes.length === 0)
    throw new OperationError(`whose limit? Name a ${listed([...SPEND_SCOPES])}, or several together`);
  const key = counterKey(scopes.map((scope) => keyOf(scope, of[scope]!)));
  return { scope: scopes.join('+'), key, window, unit };
}

/** Checks the subject of a search; names need not exist. Raises OperationError for a credential, which a response must not repeat. */
export function partsToFind(of: LimitParts): LimitParts {
  for (const [scope, key] of Object.entries(of)) rejectCredential(scope, key.trim());
  return of.user === undefined ? of : { ...of, user: of.user.toLowerCase() };
}

/** Names of counters as parameters of a statement: their scopes, keys, windows and units. */
export function nameColumns(names: readonly CounterName[]): string[][] {
  return (['scope', 'key', 'window', 'unit'] as const).map((field) => names.map((name) => name[field]));
}

/** The key of each scope of a counter. */
export function partsOf({ scope, key }: Pick<CounterName, 'scope' | 'key'>): LimitParts {
  const scopes = scope.split('+');
  const keys = scopes.length === 1 ? [key] : (JSON.parse(key) as string[]);
  return Object.fromEntries(scopes.map((each, i) => [each, keys[i]!]));
}

/** A counter for people: `user ana@example.com per day`, `team search at once`. */
export function describeName(name: CounterName): string {
  return `${describeCounter(name)} ${perWindow(name.window)}`;
}

/** The unit of a window that has only one; `undefined` for a minute, which has two. */
export function unitOfWindow(window: LimitWindow): LimitUnit | undefined {
  const [unit, another] = WINDOWS[window].units;
  return another === undefined ? unit : undefined;
}

/** The unit of counters for a unit of people. */
export function limitUnit(unit: AmountUnit): LimitUnit {
  return unit === 'usd' ? 'nano_usd' : unit;
}

/** The unit of people for a unit of counters. */
export function amountUnit(unit: LimitUnit): AmountUnit {
  return unit === 'nano_usd' ? 'usd' : unit;
}

/** Converts an amount in USD, requests or tokens to the unit of its counter. Raises OperationError. */
export function amountIn(unit: LimitUnit, shown: number, least: 0 | 1): number {
  const amount = unit === 'nano_usd' ? nanoOf(shown) : shown;
  const most = unit === 'nano_usd' ? MAX_NANO_USD : MAX_COUNT;
  if (Number.isSafeInteger(amount) && amount >= least && amount <= most) return amount;
  const kind = unit === 'nano_usd' ? 'an amount in USD' : `a whole number of ${unit}`;
  const range = `${least === 0 ? 'from 0' : 'above 0 and'} up to ${shownAmount(unit, most)}`;
  throw new OperationError(`the amount is wrong: expected ${kind} ${range}`);
}

/** Converts an amount of a counter to USD, requests or tokens. */
export function shownAmount(unit: LimitUnit, amount: number | bigint): number {
  return unit === 'nano_usd' ? nanoToUsd(amount) : Number(amount);
}

/** The largest sum of grants on one limit, in its unit. */
export function mostGranted(unit: LimitUnit): number {
  return unit === 'nano_usd' ? MAX_NANO_USD : MAX_COUNT;
}

/** Checks a reason; `null` without one. Raises OperationError. */
export function reasonOf(reason: string | undefined): string | null {
  return reason === undefined ? null : textOf('reason', reason);
}

function nanoOf(usd: number): number {
  if (usd > MAX_USD) return Number.NaN;
  try {
    return usdToNano(usd);
  } catch (error) {
    if (error instanceof RangeError) throw new OperationError(`the amount is wrong: ${error.message}`);
    throw error;
  }
}

function describeCounted({ scope, window, unit }: CountedName): string {
  return `${amountUnit(unit) === 'usd' ? 'USD' : unit} by ${scope} ${perWindow(window)}`;
}

function requireKnown(
  scope: 'model' | 'upstream' | 'rule',
  of: LimitParts,
  all: readonly ({ readonly id: string } | { readonly name: string })[],
  none = 'gateway.yaml has none',
): void {
  const name = of[scope];
  const known = all.map((each) => ('id' in each ? each.id : each.name));
  if (name === undefined || known.includes(name)) return;
  const there_are = known.length === 0 ? none : `gateway.yaml has ${listed(known)}`;
  throw new OperationError(`there is no ${scope} "${name}": ${didYouMean(name, known, there_are)}`);
}

function keyOf(scope: SpendScope, input: string): string {
  const key = textOf(scope, input);
  if (scope !== 'user') return key;
  if (/\s/.test(key)) throw new OperationError('the user contains a space; expected an e-mail address');
  return key.toLowerCase();
}

function textOf(what: string, input: string): string {
  const text = nameOf(what, input);
  rejectCredential(what, text);
  return text;
}

function rejectCredential(what: string, text: string): void {
  if (!CREDENTIAL.test(text)) return;
  throw new OperationError(`the ${what} is a credential; name a token by its id, as "appscli tokens list" shows it`);
}

const DIGITS = 15;

/** An amount with its unit: `20 USD`, `1 request`. */
export function formatAmount(amount: number, unit: AmountUnit): string {
  if (unit === 'usd') return `${formatShownUsd(amount)} USD`;
  return `${amount} ${amount === 1 ? unit.slice(0, -1) : unit}`;
}

/** Subject and window of a limit: `user ana@example.com per day`. */
export function describeWhose({ of, window }: Pick<LimitInForce, 'of' | 'window'>): string {
  const who = Object.entries(of).map(([scope, key]) => `${scope} ${printable(key)}`);
  return `${who.join(' and ')} ${perWindow(window)}`;
}

/** The requests to which a limit set at run time applies; `undefined`: to all. */
export function describeWhere({ window, rules }: Pick<LimitInForce, 'window' | 'rules'>): string | undefined {
  if (isSpendWindow(window)) return undefined;
  // A rule in shadow mode counts its requests, too.
  if (rules.length === 0 || rules.some(({ always }) => always)) return undefined;
  return `It applies to requests of ${rules.map(({ rule }) => printable(rule)).join(' or ')}.`;
}

/** Shown instead of an amount where no single limit applies to all requests. */
export function describeUnlimited({ rules }: Pick<LimitInForce, 'rules'>): string {
  const enforced = rules.filter(({ mode }) => mode === 'enforce');
  if (enforced.some(({ limit }) => limit === null)) return 'limited by group';
  return enforced.length > 0 ? 'limited for some requests' : 'no limit';
}

/** A note that a counter is a personal grant within a shared limit; `undefined` for other counters. */
export function describePersonal({
  of: { user, ...shared },
  rules,
  counted,
  window,
}: Pick<LimitInForce, 'of' | 'rules' | 'counted' | 'window'>): string | undefined {
  if (user === undefined || !counted || rules.length > 0 || Object.keys(shared).length === 0) return undefined;
  return `used once ${describeWhose({ of: shared, window })} is used up`;
}

/** Warns of a grant without a limit; `undefined` where there is a limit. */
export function describeNothingLimited({
  limit,
  grants,
  rules,
}: Pick<LimitInForce, 'limit' | 'rules'> & { readonly grants: readonly unknown[] }): string | undefined {
  if (limit !== null || grants.length === 0 || rules.some(({ mode }) => mode === 'enforce')) return undefined;
  return 'It has no limit: a grant has an effect only on top of one.';
}

/** An amount in USD as a decimal: `12.5`. */
export function formatShownUsd(usd: number): string {
  const decimal = Number(usd.toPrecision(DIGITS)).toFixed(9);
  return decimal.replace(/\.?0+$/, '');
}
