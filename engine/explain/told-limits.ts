import type { AuditRecord } from '../contract/services.ts';
import { formatUsd, usdToNano } from '../kit/money.ts';
import { describeCounter } from '../money/limits/spend-limits.ts';

/** A limit as a request found it and left it; amounts in the unit, money in USD. */
export interface ToldLimit {
  readonly rule: string;
  readonly scope: string;
  readonly key: string;
  readonly window: string;
  readonly unit: 'usd' | 'requests' | 'tokens';
  readonly limit: number;
  readonly spent: number;
  /** By other requests under way then. */
  readonly reserved: number;
  /** What was spent when this request was settled; `null` where it never was, or the limit counts no money. */
  readonly after: number | null;
  /** ISO 8601; `null` for what counts only while it is under way. */
  readonly resets_at: string | null;
  /** Whether this limit refused the request. */
  readonly refused: boolean;
  readonly words: string;
}

/** The limits of an audit record. Whatever in it is none is left out. */
export function toldLimits(record: AuditRecord): ToldLimit[] {
  const limits = Array.isArray(record.limits) ? (record.limits as Record<string, unknown>[]) : [];
  const isWhole = ({ limit, spent, reserved }: Record<string, unknown>) =>
    [limit, spent, reserved].every((amount) => typeof amount === 'number' && Number.isFinite(amount));
  return limits
    .filter((found) => found !== null && isWhole(found))
    .flatMap((limit) => {
      try {
        return [tell(limit, record)];
      } catch {
        // An amount that is no amount of money, a key that is none of several.
        return [];
      }
    });
}

function tell(found: Record<string, unknown>, record: AuditRecord): ToldLimit {
  const { rule, scope, key, window, unit } = Object.fromEntries(
    ['rule', 'scope', 'key', 'window', 'unit'].map((name) => [name, String(found[name])]),
  ) as Record<'rule' | 'scope' | 'key' | 'window' | 'unit', string>;
  const [limit, spent, reserved] = [Number(found.limit), Number(found.spent), Number(found.reserved)];
  const refused = record.error !== null && record.reserved_usd === undefined;
  const cost = Number(record.cost_usd ?? Number.NaN);
  const is_usd = unit === 'usd';
  const after = refused || !is_usd || Number.isNaN(cost) ? null : (usdToNano(spent) + usdToNano(cost)) / 1e9;
  const shown = (amount: number) => (is_usd ? `${formatUsd(usdToNano(amount))} USD` : `${amount} ${unit}`);
  const per = window === 'open' ? 'at once' : `per ${window}`;
  const others = reserved > 0 ? `, ${shown(reserved)} reserved by other requests` : '';
  const then = after === null ? '' : `; ${shown(after)} with this request`;
  return {
    ...{ rule, scope, key, window, unit: unit as ToldLimit['unit'], limit, spent, reserved, after, refused },
    resets_at: typeof found.resets_at === 'string' ? found.resets_at : null,
    words: `${describeCounter({ scope, key })}: ${shown(spent)} of ${shown(limit)} ${per}${others}${then}`,
  };
}
