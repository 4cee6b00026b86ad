import { type GatewayConfig, SPEND_SCOPES, type SpendScope, WINDOWS } from '../../../base/contract/config.ts';
import { OperationError } from '../../../base/contract/operation-error.ts';
import type { CounterName, LimitUnit, LimitWindow } from '../../../base/contract/services.ts';
import { nanoToUsd, usdToNano } from '../../../base/kit/money.ts';
import { printable } from '../../../base/kit/text/printable.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { nameOf } from '../../identity/index.ts';
import { modelOf } from '../prices/known-models.ts';
import type { LimitInForce } from './limit-statuses.ts';
import { ALWAYS_COUNTED, counterKey, describeCounter, spendLimits } from './spend-limits.ts';

/** Whose limit it is: the key of each scope that is named; several together are a combination. */
export type LimitParts = Readonly<Partial<Record<SpendScope, string>>>;

/** Windows of limits, in the order in which they are told. */
export const LIMIT_WINDOWS: readonly LimitWindow[] = [...WINDOWS, 'minute', 'open'];

/** Units in which people say and are told amounts. */
export const AMOUNT_UNITS = ['usd', 'requests', 'tokens'] as const;

/** One of them. */
export type AmountUnit = (typeof AMOUNT_UNITS)[number];

/** What one counter of every key is: its scope, window and unit. */
export type CountedName = Omit<CounterName, 'key'>;

/** Limits and all grants on one stay exact numbers of nano-USD when they are added up. */
const MAX_USD = 4_000_000;
const MAX_NANO_USD = usdToNano(MAX_USD);
const MAX_COUNT = 1_000_000_000_000;
const CREDENTIAL = /^(?:gw[rs]?_|eyJ)/;

/** The counters that a configuration keeps, without keys: only these can be limited at run time. */
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
 * The scope of what one person is granted within a limit that several share; `undefined` for one of a person alone. What is
 * granted there is used when the shared limit has no more room.
 */
export function personalScope(scope: string): string | undefined {
  const scopes = scope.split('+');
  return scopes.includes('user') || scopes.includes('token') ? undefined : ['user', ...scopes].join('+');
}

/** The counter of what a person is granted within a limit that several share. */
export function personalCounter({ scope, key, window, unit }: CounterName, user: string): CounterName | undefined {
  const own = personalScope(scope);
  if (own === undefined) return undefined;
  const keys = scope.includes('+') ? (JSON.parse(key) as string[]) : [key];
  return { scope: own, key: counterKey([user, ...keys]), window, unit };
}

/** A limit by its parts. */
export interface LimitName {
  readonly of: LimitParts;
  readonly window: LimitWindow;
  readonly unit: LimitUnit;
}

/** The counter of a limit that can be set or granted. Raises OperationError when gateway.yaml does not count it. */
export function nameCounted(config: GatewayConfig, { of, window, unit }: LimitName): CounterName {
  const name = nameCounter({ of, window, unit });
  const { from_model_lists, models, upstreams } = config;
  if (!from_model_lists) demandKnown('model', of, models);
  else if (of.model !== undefined && modelOf(config, of.model) === undefined)
    throw new OperationError(`there is no model "${of.model}": the catalogue of prices does not know it`);
  demandKnown('upstream', of, upstreams);
  const rules = spendLimits(config).filter(({ matching }) => matching);
  demandKnown('rule', of, rules, 'gateway.yaml has no rule with `count: matching`');
  const counted = countedBy(config);
  if (counted.some((each) => each.scope === name.scope && each.window === window && each.unit === unit)) return name;
  const there_are = [...new Set(counted.map(describeCounted))].join('; ');
  throw new OperationError(
    `gateway.yaml does not count ${describeCounted(name)}; it counts ${there_are}; a limit in spend_limits adds to them`,
  );
}

/** The counter of a limit, whether it is counted any more or not. Raises OperationError. */
export function nameCounter({ of, window, unit }: LimitName): CounterName {
  const scopes = SPEND_SCOPES.filter((scope) => of[scope] !== undefined);
  if (scopes.length === 0)
    throw new OperationError(`whose limit? Name a ${listed([...SPEND_SCOPES])}, or several together`);
  const key = counterKey(scopes.map((scope) => keyOf(scope, of[scope]!)));
  return { scope: scopes.join('+'), key, window, unit };
}

/** Whose limits are looked for; any name may be. Raises OperationError for a credential, which nobody shall read in an answer. */
export function partsToFind(of: LimitParts): LimitParts {
  for (const [scope, key] of Object.entries(of)) demandNoCredential(scope, key.trim());
  return of.user === undefined ? of : { ...of, user: of.user.toLowerCase() };
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

/** `per day`, or `at once` for what is under way. */
export function perWindow(window: LimitWindow): string {
  return window === 'open' ? 'at once' : `per ${window}`;
}

/** The unit of a window when no other is possible; `undefined` for a minute, which has two. */
export function unitOfWindow(window: LimitWindow): LimitUnit | undefined {
  if (window === 'minute') return undefined;
  return window === 'open' ? 'requests' : 'nano_usd';
}

/** The unit that limits count in, for one in which people say amounts. */
export function limitUnit(unit: AmountUnit): LimitUnit {
  return unit === 'usd' ? 'nano_usd' : unit;
}

/** The unit in which people are told amounts of a limit. */
export function amountUnit(unit: LimitUnit): AmountUnit {
  return unit === 'nano_usd' ? 'usd' : unit;
}

/** An amount in the unit of limits, from one that somebody said in USD, requests or tokens. Raises OperationError. */
export function amountIn(unit: LimitUnit, said: number, least: 0 | 1): number {
  const amount = unit === 'nano_usd' ? nanoOf(said) : said;
  const most = unit === 'nano_usd' ? MAX_NANO_USD : MAX_COUNT;
  if (Number.isSafeInteger(amount) && amount >= least && amount <= most) return amount;
  const kind = unit === 'nano_usd' ? 'an amount in USD' : `a whole number of ${unit}`;
  const range = `${least === 0 ? 'from 0' : 'above 0 and'} up to ${shownAmount(unit, most)}`;
  throw new OperationError(`the amount is wrong: expected ${kind} ${range}`);
}

/** An amount as people are told it: in USD, requests or tokens. */
export function shownAmount(unit: LimitUnit, amount: number | bigint): number {
  return unit === 'nano_usd' ? nanoToUsd(amount) : Number(amount);
}

/** The most that grants on one limit may add up to, in its unit. */
export function mostGranted(unit: LimitUnit): number {
  return unit === 'nano_usd' ? MAX_NANO_USD : MAX_COUNT;
}

/** A reason as it is kept: `null` without one. Raises OperationError. */
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

function demandKnown(
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

function keyOf(scope: SpendScope, given: string): string {
  const key = textOf(scope, given);
  if (scope !== 'user') return key;
  if (/\s/.test(key)) throw new OperationError('the user holds a space; expected an e-mail address');
  return key.toLowerCase();
}

function textOf(what: string, given: string): string {
  const text = nameOf(what, given);
  demandNoCredential(what, text);
  return text;
}

/** A credential would be kept, and shown in lists. */
function demandNoCredential(what: string, text: string): void {
  if (!CREDENTIAL.test(text)) return;
  throw new OperationError(`the ${what} is a credential; name a token by its id, as "appscli tokens list" shows it`);
}

// Sentences about limits, for commands and the admin API.

/** More digits than these a number in USD does not have. */
const DIGITS = 15;

/** An amount with its unit: `20 USD`, `1 request`. */
export function formatAmount(amount: number, unit: AmountUnit): string {
  if (unit === 'usd') return `${formatShownUsd(amount)} USD`;
  return `${amount} ${amount === 1 ? unit.slice(0, -1) : unit}`;
}

/** Whose limit it is, for how long: `user ana@example.com per day`. */
export function describeWhose({ of, window }: Pick<LimitInForce, 'of' | 'window'>): string {
  const who = Object.entries(of).map(([scope, key]) => `${scope} ${printable(key)}`);
  return `${who.join(' and ')} ${perWindow(window)}`;
}

/** Which requests alone meet a limit that was set; `undefined` when all do. */
export function describeWhere({ window, rules }: Pick<LimitInForce, 'window' | 'rules'>): string | undefined {
  if (window !== 'minute' && window !== 'open') return undefined;
  // A rule that only reports counts its requests all the same.
  if (rules.length === 0 || rules.some(({ always }) => always)) return undefined;
  return `It holds for requests that ${rules.map(({ rule }) => printable(rule)).join(' or ')} is for.`;
}

/** What stands in the place of an amount where no one limit is for all requests. */
export function describeUnlimited({ rules }: Pick<LimitInForce, 'rules'>): string {
  const enforced = rules.filter(({ mode }) => mode === 'enforce');
  if (enforced.some(({ limit }) => limit === null)) return 'limited by group';
  return enforced.length > 0 ? 'limited for some requests' : 'no limit';
}

/** That something is room of one person within a limit that several share; `undefined` where it is a limit of its own. */
export function describePersonal({
  of: { user, ...shared },
  rules,
  counted,
  window,
}: Pick<LimitInForce, 'of' | 'rules' | 'counted' | 'window'>): string | undefined {
  if (user === undefined || !counted || rules.length > 0 || Object.keys(shared).length === 0) return undefined;
  return `used once ${describeWhose({ of: shared, window })} has no more room`;
}

/** That room was granted where nothing is limited; `undefined` where something is. */
export function describeNothingLimited({
  limit,
  grants,
  rules,
}: Pick<LimitInForce, 'limit' | 'rules'> & { readonly grants: readonly unknown[] }): string | undefined {
  if (limit !== null || grants.length === 0 || rules.some(({ mode }) => mode === 'enforce')) return undefined;
  return 'Nothing limits it: what is granted counts only once something does.';
}

/** An amount in USD that a number holds, as a decimal: `12.5`. */
export function formatShownUsd(usd: number): string {
  const decimal = Number(usd.toPrecision(DIGITS)).toFixed(9);
  return decimal.replace(/\.?0+$/, '');
}
