import type { SpendScope, Window } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import { describeLimit, type SpendLimit, spendLimits } from '../rules/config-rules.ts';
import { simplify } from '../rules/simplify.ts';
import { describeCondition } from '../rules/words.ts';
import { formatUsd, usdToNano } from '../services/money.ts';
import type { SpendingRow } from '../services/spending.ts';
import { type Change, compareNames, isSame } from './change.ts';

/** Reads what was spent in the current day or month. */
export type ReadSpending = (window: Window) => Promise<readonly SpendingRow[]>;

/** A limit wherever it stands in its list. */
type Limit = Omit<SpendLimit, 'pointer'>;

/** How many callers over a limit are named. */
const NAMED_MAX = 5;

function limitsOf(config: GatewayConfig): Map<string, Limit> {
  return new Map(spendLimits(config).map(({ pointer: _, ...limit }) => [limit.name, limit]));
}

function inWords(limit: Limit): string {
  const shadow = limit.mode === 'shadow' ? ', only recorded' : '';
  return `${describeLimit(limit)}${limit.logic === true ? '' : ` when ${describeCondition(limit.logic)}`}${shadow}`;
}

const KEYS: Readonly<Record<SpendScope, (row: SpendingRow) => string | null>> = {
  user: (row) => row.user,
  team: (row) => row.team,
  project: (row) => row.project,
  model: (row) => row.model,
  upstream: (row) => row.upstream,
};

/** Whether a limit may have applied to requests of this kind; conditions over anything else are given the benefit of the doubt. */
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

/** Whether a configuration with these limits keeps count of what this one limits. */
function isCounted({ scope, window }: Limit, limits: Iterable<Limit>): boolean {
  // These two are counted for everybody, whatever the limits are.
  if (scope === 'user' && window === 'day') return true;
  if (scope === 'team' && window === 'month') return true;
  return [...limits].some((other) => other.scope === scope && other.window === window);
}

function describeOver(limit: Limit, rows: readonly SpendingRow[]): string | undefined {
  const keyOf = KEYS[limit.scope];
  const spent = new Map<string, number>();
  const concerned = new Set<string>();
  for (const row of rows) {
    const key = keyOf(row);
    if (key === null) continue;
    spent.set(key, (spent.get(key) ?? 0) + row.cost_nano_usd);
    if (mayApply(limit, row)) concerned.add(key);
  }
  const most = usdToNano(limit.limit_usd!);
  const over = [...spent]
    .filter(([key, nano_usd]) => concerned.has(key) && nano_usd >= most)
    .sort(([, a], [, b]) => b - a);
  if (over.length === 0) return undefined;
  const named = over.slice(0, NAMED_MAX).map(([key, nano_usd]) => `${key} (${formatUsd(nano_usd)} USD)`);
  const more = over.length > NAMED_MAX ? ` and ${over.length - NAMED_MAX} more` : '';
  const what = over.length === 1 ? `1 ${limit.scope} has` : `${over.length} ${limit.scope}s have`;
  return `${what} already spent it ${limit.window === 'day' ? 'today' : 'this month'}: ${named.join(', ')}${more}`;
}

/** Limits that come, go or change, with the callers who are over a limit already when the ledger can be read. */
export async function diffLimits(
  before: GatewayConfig,
  after: GatewayConfig,
  readSpending: ReadSpending | undefined,
): Promise<Change[]> {
  const old_limits = limitsOf(before);
  const new_limits = limitsOf(after);
  const { kept, lost, gained } = compareNames(old_limits.keys(), new_limits.keys());
  const told = async (name: string, change: string): Promise<Change> => {
    const limit = new_limits.get(name)!;
    const rows = limit.limit_usd === undefined ? undefined : await readSpending?.(limit.window!);
    const over = rows && describeOver(limit, rows);
    const counted = isCounted(limit, old_limits.values());
    const from_now = counted ? '' : '; spending counts only from when the limit is first in force';
    return { section: 'limits', subject: name, change, ...(over === undefined ? {} : { details: [over + from_now] }) };
  };
  const changed = kept.filter((name) => !isSame(old_limits.get(name), new_limits.get(name)));
  return [
    ...lost.map((name) => ({
      section: 'limits' as const,
      subject: name,
      change: `is gone; before: ${inWords(old_limits.get(name)!)}`,
    })),
    ...(await Promise.all(gained.map((name) => told(name, `is new: ${inWords(new_limits.get(name)!)}`)))),
    ...(await Promise.all(
      changed.map((name) => told(name, `${inWords(old_limits.get(name)!)} -> ${inWords(new_limits.get(name)!)}`)),
    )),
  ];
}
