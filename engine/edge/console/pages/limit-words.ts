import { perWindow } from '../../../base/contract/windows.ts';
import { useSession } from '../api.ts';
import type { LimitInForce } from '../operations.ts';

/** A counter: scopes, window and unit. */
export type Counter = Pick<LimitInForce, 'of' | 'window' | 'unit'>;

type Scope = keyof LimitInForce['of'];

/** Scopes in display order, with their names. */
export const SCOPES: readonly { readonly scope: Scope; readonly one: string; readonly many: string }[] = [
  { scope: 'user', one: 'person', many: 'people' },
  { scope: 'team', one: 'team', many: 'teams' },
  { scope: 'project', one: 'project', many: 'projects' },
  { scope: 'token', one: 'token', many: 'tokens' },
  { scope: 'model', one: 'model', many: 'models' },
  { scope: 'upstream', one: 'upstream', many: 'upstreams' },
  { scope: 'rule', one: 'rule', many: 'rules' },
];

const NUMBER = new Intl.NumberFormat('en', { maximumFractionDigits: 9 });
const MONEY = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** An amount with its unit, USD rounded to cents: `20 USD`, `3.14 USD`, `8 requests`. */
export function amountWords(amount: number, unit: LimitInForce['unit']): string {
  if (unit !== 'usd') return `${NUMBER.format(amount)} ${amount === 1 ? unit.slice(0, -1) : unit}`;
  if (amount > 0 && amount < 0.01) return 'less than 0.01 USD';
  return `${Number.isInteger(amount) ? NUMBER.format(amount) : MONEY.format(amount)} USD`;
}

/** Scopes in words: `ana@example.com`, `team search and model coder-1`. */
export function whoseWords(of: LimitInForce['of']): string {
  const keys = SCOPES.flatMap(({ scope }) => (of[scope] === undefined ? [] : [{ scope, key: of[scope] }]));
  return keys.map(({ scope, key }) => (scope === 'user' ? key : `${scope} ${key}`)).join(' and ');
}

/** Scopes in words, with `You` for the signed-in person: `You, model coder-1`. */
export function useWhose({ of }: Pick<Counter, 'of'>): string {
  const { person } = useSession();
  const { user, ...others } = of;
  if (user !== person.email) return whoseWords(of);
  return Object.keys(others).length === 0 ? 'You' : `You, ${whoseWords(others)}`;
}

/** A counter in words: `team search per month`. */
export function counterWords({ of, window }: Pick<Counter, 'of' | 'window'>): string {
  return `${whoseWords(of)} ${perWindow(window)}`;
}

/** Key of a counter, for lists and URLs. */
export function counterId({ of, window, unit }: Counter): string {
  return new URLSearchParams({ ...of, window, unit }).toString();
}
