/**
 * Sentences about limits, for commands and the admin API.
 * @module
 */
import { printable } from '../../kit/text/printable.ts';
import { type AmountUnit, perWindow } from './limit-names.ts';
import type { LimitInForce } from './limit-statuses.ts';

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
