import type { AuditRecord } from '../../base/contract/services.ts';
import { usdToNano } from '../../base/kit/money.ts';
import type { LimitReader } from '../../domain/budget/limits/limit-statuses.ts';
import { describeCounter } from '../../domain/budget/limits/spend-limits.ts';
import { describeAmount, formatInUtc } from './words.ts';

/** A limit before and after a request. Amounts are in the limit's unit, money in USD. */
export interface LimitView {
  readonly rule: string;
  readonly scope: string;
  readonly key: string;
  readonly window: string;
  readonly unit: 'usd' | 'requests' | 'tokens';
  readonly limit: number;
  readonly spent: number;
  /** By other requests in flight at that time. */
  readonly reserved: number;
  /** Spent after this request was settled; `null` if it was not, and for other units than money. */
  readonly after: number | null;
  /** ISO 8601; `null` for limits on concurrent requests. */
  readonly resets_at: string | null;
  readonly refused: boolean;
  readonly words: string;
  /** Sentences about changes and grants at run time; `null` without any. */
  readonly changed: string | null;
}

/** The limits of an audit record. Skips malformed entries. */
export function limitViews(record: AuditRecord, reader: LimitReader): LimitView[] {
  const limits = Array.isArray(record.limits) ? (record.limits as Record<string, unknown>[]) : [];
  const isWhole = ({ limit, spent, reserved }: Record<string, unknown>) =>
    [limit, spent, reserved].every((amount) => typeof amount === 'number' && Number.isFinite(amount));
  return limits
    .filter((found) => found !== null && isWhole(found))
    .flatMap((limit) => {
      try {
        return [limitView(limit, record, reader)];
      } catch {
        // The record may come from an operator's stage, with invalid amounts or keys.
        return [];
      }
    });
}

/** The author of a change; empty for readers who are not administrators. */
const byWhom = (who: unknown, { is_admin }: LimitReader) => (is_admin && typeof who === 'string' ? ` by ${who}` : '');

/** Formats a time; records of operators' stages may contain anything. */
const moment = (at: unknown) => {
  const read = new Date(String(at));
  return Number.isNaN(read.getTime()) ? String(at) : formatInUtc(read);
};

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** Sentences about changes and grants of a limit at run time; `undefined` without any. */
export function describeChanges(limit: Readonly<Record<string, unknown>>, reader: LimitReader): string | undefined {
  const { set_at, set_by, unit } = limit;
  const grants = Array.isArray(limit.grants) ? limit.grants.filter(isRecord) : [];
  const sentences = [
    ...(typeof set_at === 'string' ? [`Set at run time${byWhom(set_by, reader)}, ${moment(set_at)}.`] : []),
    ...grants.map(({ amount, granted_at, granted_by, expires_at }) => {
      const until = `${moment(granted_at)}, until ${moment(expires_at)}`;
      return `Includes a grant of ${describeAmount(String(unit), Number(amount))}${byWhom(granted_by, reader)}, ${until}.`;
    }),
  ];
  return sentences.length === 0 ? undefined : sentences.join(' ');
}

/** An audit record for a reader. Names of those who changed or granted limits are for administrators only. */
export function recordFor({ is_admin }: LimitReader, record: AuditRecord): AuditRecord {
  if (is_admin || !Array.isArray(record.limits)) return record;
  const limits = (record.limits as readonly unknown[]).map((limit) => {
    if (!isRecord(limit)) return limit;
    const { set_by: _, grants, ...known } = limit;
    const nameless = ({ granted_by: _by, ...grant }: Record<string, unknown>) => grant;
    return { ...known, ...(Array.isArray(grants) && { grants: grants.filter(isRecord).map(nameless) }) };
  });
  return { ...record, limits };
}

function limitView(found: Record<string, unknown>, record: AuditRecord, reader: LimitReader): LimitView {
  const { rule, scope, key, window, unit } = Object.fromEntries(
    ['rule', 'scope', 'key', 'window', 'unit'].map((name) => [name, String(found[name])]),
  ) as Record<'rule' | 'scope' | 'key' | 'window' | 'unit', string>;
  const [limit, spent, reserved] = [Number(found.limit), Number(found.spent), Number(found.reserved)];
  const refused = record.error !== null && record.reserved_usd === undefined;
  const cost = Number(record.cost_usd ?? Number.NaN);
  const is_usd = unit === 'usd';
  const after = refused || !is_usd || Number.isNaN(cost) ? null : (usdToNano(spent) + usdToNano(cost)) / 1e9;
  const shown = (amount: number) => describeAmount(unit, amount);
  const per = window === 'open' ? 'at once' : `per ${window}`;
  const others = reserved > 0 ? `, ${shown(reserved)} reserved by other requests` : '';
  const then = after === null ? '' : `; ${shown(after)} with this request`;
  return {
    ...{ rule, scope, key, window, unit: unit as LimitView['unit'], limit, spent, reserved, after, refused },
    resets_at: typeof found.resets_at === 'string' ? found.resets_at : null,
    words: `${describeCounter({ scope, key })}: ${shown(spent)} of ${shown(limit)} ${per}${others}${then}`,
    changed: describeChanges(found, reader) ?? null,
  };
}
