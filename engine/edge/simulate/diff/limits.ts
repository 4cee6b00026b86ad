import type { GatewayConfig } from '../../../base/contract/config.ts';
import { type SpendWindow, WINDOWS } from '../../../base/contract/windows.ts';
import { formatUsd } from '../../../base/kit/money.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { simplify } from '../../../base/rules/simplify.ts';
import {
  ALWAYS_COUNTED,
  amountFor,
  counterKey,
  describeLimit,
  type SpendLimit,
  spendLimits,
} from '../../../domain/budget/limits/spend-limits.ts';
import type { SpendingRow } from '../../../domain/budget/reports/spending.ts';
import { asChange, type Change, compareNames, isSame } from './change.ts';

/** Reads what was spent in the current calendar window. */
export type ReadSpending = (window: SpendWindow) => Promise<readonly SpendingRow[]>;

type Limit = Omit<SpendLimit, 'pointer'>;

type Limits = readonly Limit[];

const NAMED_MAX = 5;

function limitsOf(config: GatewayConfig): Map<string, Limits> {
  const limits = spendLimits(config).map(({ pointer: _, ...limit }) => limit);
  return Map.groupBy(limits, ({ name }) => name);
}

function formatLimits(limits: Limits): string {
  const { mode, logic } = limits[0]!;
  const shadow = mode === 'shadow' ? ', only recorded' : '';
  const amounts = limits.map((limit) => describeLimit(limit)).join(' and ');
  return `${amounts}${logic === true ? '' : ` when ${formatCondition(logic)}`}${shadow}`;
}

/** `undefined` with the scope `rule`: the ledger does not record which conditions matched. */
function keyOf({ scopes }: Limit, row: SpendingRow): string | undefined {
  const keys = scopes.map((scope) => (scope === 'rule' ? null : row[scope === 'token' ? 'token_id' : scope]));
  return keys.every((key) => key !== null) ? counterKey(keys) : undefined;
}

/** Whether a limit may apply to the requests of a row; conditions on unknown facts count as true. */
function mayApply(limit: Limit, row: SpendingRow): boolean {
  const known = new Map<string, unknown>([
    ['principal.email', row.user],
    ['principal.team', row.team],
    ['principal.project', row.project],
    ['request.model', row.model],
    ['route.upstream', row.upstream],
    ...(row.token_group === null
      ? []
      : [['principal.groups', [row.token_group]] as const, ['principal.token.group', row.token_group] as const]),
  ]);
  return simplify(limit.logic, known) !== false;
}

function isCounted({ scope, window }: Limit, limits: readonly Limit[]): boolean {
  return [...ALWAYS_COUNTED, ...limits].some((other) => other.scope === scope && other.window === window);
}

function describeWho({ scopes }: Limit, count: number): string {
  if (scopes.length > 1) return `${count} ${count === 1 ? 'combination' : 'combinations'} of ${scopes.join(' and ')}`;
  return `${count} ${scopes[0]}${count === 1 ? '' : 's'}`;
}

function describeOver(limit: Limit, rows: readonly SpendingRow[]): string | undefined {
  const spent = new Map<string, number>();
  const most = new Map<string, number>();
  for (const row of rows) {
    const key = keyOf(limit, row);
    if (key === undefined) continue;
    spent.set(key, (spent.get(key) ?? 0) + row.cost_nano_usd);
    // Only the token group of a caller is recorded.
    const groups = row.token_group === null ? [] : [row.token_group];
    const amount = mayApply(limit, row) ? amountFor(limit, groups) : undefined;
    if (amount !== undefined) most.set(key, Math.max(most.get(key) ?? 0, amount));
  }
  const over = [...spent]
    .filter(([key, nano_usd]) => nano_usd >= (most.get(key) ?? Number.POSITIVE_INFINITY))
    .sort(([, a], [, b]) => b - a);
  if (over.length === 0) return undefined;
  const shown = (key: string) => (limit.scopes.length === 1 ? key : (JSON.parse(key) as string[]).join(' + '));
  const named = over.slice(0, NAMED_MAX).map(([key, nano_usd]) => `${shown(key)} (${formatUsd(nano_usd)} USD)`);
  const more = over.length > NAMED_MAX ? ` and ${over.length - NAMED_MAX} more` : '';
  const verb = over.length === 1 ? 'has' : 'have';
  const when = WINDOWS[limit.window as SpendWindow].now;
  return `${describeWho(limit, over.length)} ${verb} already spent it ${when}: ${named.join(', ')}${more}`;
}

/** Added, removed and changed limits, with callers already over a limit if the ledger is readable. */
export async function diffLimits(
  before: GatewayConfig,
  after: GatewayConfig,
  readSpending: ReadSpending | undefined,
): Promise<Change[]> {
  const old_limits = limitsOf(before);
  const new_limits = limitsOf(after);
  const { kept, lost, gained } = compareNames(old_limits.keys(), new_limits.keys());
  const overNow = async (limit: Limit): Promise<string[]> => {
    if (limit.unit !== 'nano_usd') return [];
    const rows = await readSpending?.(limit.window as SpendWindow);
    const over = rows && describeOver(limit, rows);
    if (over === undefined) return [];
    const counted = isCounted(limit, [...old_limits.values()].flat());
    return [over + (counted ? '' : '; spending counts only from when the limit is first in force')];
  };
  const changeOf = async (name: string, change: string): Promise<Change[]> =>
    asChange('limits', name, [change, ...(await Promise.all(new_limits.get(name)!.map(overNow))).flat()]);
  const before_and_after = (name: string) =>
    [old_limits.get(name)!, new_limits.get(name)!].map(formatLimits).join(' -> ');
  const changed = kept.filter((name) => !isSame(old_limits.get(name), new_limits.get(name)));
  const now = [
    ...gained.map((name) => changeOf(name, `is new: ${formatLimits(new_limits.get(name)!)}`)),
    ...changed.map((name) => changeOf(name, before_and_after(name))),
  ];
  return [
    ...lost.flatMap((name) => asChange('limits', name, [`is gone; before: ${formatLimits(old_limits.get(name)!)}`])),
    ...(await Promise.all(now)).flat(),
  ];
}
