import { useSession } from '../api.ts';
import type { LimitInForce } from '../operations.ts';
import { counted } from '../parts/basic.tsx';

/** What counts something: whose, in which window, in which unit. */
export type Counter = Pick<LimitInForce, 'of' | 'window' | 'unit'>;
/** One of the windows of limits. */
type LimitWindow = LimitInForce['window'];
/** Whose a limit is, by the name of each key. */
export type Scope = keyof LimitInForce['of'];

/** The keys a limit can have, in the order in which they are told, with what people call them. */
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

/** An amount with its unit, in money rounded to cents where it has more: `20 USD`, `3.14 USD`, `8 requests`. */
export function amountWords(amount: number, unit: LimitInForce['unit']): string {
  if (unit !== 'usd') return `${NUMBER.format(amount)} ${amount === 1 ? unit.slice(0, -1) : unit}`;
  if (amount > 0 && amount < 0.01) return 'less than 0.01 USD';
  return `${Number.isInteger(amount) ? NUMBER.format(amount) : MONEY.format(amount)} USD`;
}

/** The same without its unit, beside another amount that has it. */
export function bareAmount(amount: number, unit: LimitInForce['unit']): string {
  const words = amountWords(amount, unit);
  return words.slice(0, words.lastIndexOf(' '));
}

/** What a rule allows, by the groups of who asks where those decide: `50 USD for science, 5 USD for others`. */
export function amountsWords(
  { limit, by_group }: Pick<LimitInForce['rules'][number], 'limit' | 'by_group'>,
  unit: LimitInForce['unit'],
): string {
  const groups = Object.entries(by_group ?? {}).map(([group, amount]) => `${amountWords(amount, unit)} for ${group}`);
  const others = limit === null ? [] : [`${amountWords(limit, unit)}${groups.length > 0 ? ' for others' : ''}`];
  return [...groups, ...others].join(', ') || 'By group';
}

/** `per day`, or `at once`. */
export function windowWords(window: LimitWindow): string {
  return window === 'open' ? 'at once' : `per ${window}`;
}

/** Whose a counter is: `ana@example.com`, `team search and model coder-1`. */
export function whoseWords(of: LimitInForce['of']): string {
  const keys = SCOPES.flatMap(({ scope }) => (of[scope] === undefined ? [] : [{ scope, key: of[scope] }]));
  return keys.map(({ scope, key }) => (scope === 'user' ? key : `${scope} ${key}`)).join(' and ');
}

/** Whose a limit is, for whoever looks: `You`, `You, model coder-1`, or a name. */
export function useWhose({ of }: Pick<Counter, 'of'>): string {
  const { person } = useSession();
  const { user, ...others } = of;
  if (user !== person.email) return whoseWords(of);
  return Object.keys(others).length === 0 ? 'You' : `You, ${whoseWords(others)}`;
}

/** Which counter it is, in words: `team search per month`. */
export function counterWords({ of, window }: Pick<Counter, 'of' | 'window'>): string {
  return `${whoseWords(of)} ${windowWords(window)}`;
}

/** What so many of a scope are called: `1 person`, `3 teams`, `2 combinations of user and model`. */
export function howMany(count: number, scope: string): string {
  const words = SCOPES.find((each) => each.scope === scope);
  if (words !== undefined) return counted(count, words.one, words.many);
  return `${counted(count, 'combination')} of ${scope.split('+').join(' and ')}`;
}

/** Which counter it is, as one text: a key of lists, and what an address keeps of it. */
export function counterId({ of, window, unit }: Counter): string {
  return new URLSearchParams({ ...of, window, unit }).toString();
}

/** The counter that a text of `counterId` names; `undefined` for any other text, which may stand in an address. */
export function counterOf(id: string): Counter | undefined {
  const said = Object.fromEntries(new URLSearchParams(id));
  const window = (['day', 'week', 'month', 'minute', 'open'] as const).find((each) => each === said.window);
  const unit = (['usd', 'requests', 'tokens'] as const).find((each) => each === said.unit);
  const of = Object.fromEntries(SCOPES.flatMap(({ scope }) => (said[scope] ? [[scope, said[scope]]] : [])));
  if (window === undefined || unit === undefined || Object.keys(of).length === 0) return undefined;
  return { of, window, unit };
}
