import type { AuditRecord } from '../../base/contract/services.ts';
import { usdToNano } from '../../base/kit/money.ts';
import type { LimitReader } from '../../domain/budget/limits/limit-statuses.ts';
import { describeCounter } from '../../domain/budget/limits/spend-limits.ts';
import { describeAmount, formatInUtc } from './words.ts';

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
  readonly refused: boolean;
  readonly words: string;
  /** Who set it and granted room on top of it at run time, and when, in sentences; `null` where it is as gateway.yaml has it. */
  readonly changed: string | null;
}

/** The limits of an audit record. Whatever in it is none is left out. */
export function toldLimits(record: AuditRecord, reader: LimitReader): ToldLimit[] {
  const limits = Array.isArray(record.limits) ? (record.limits as Record<string, unknown>[]) : [];
  const isWhole = ({ limit, spent, reserved }: Record<string, unknown>) =>
    [limit, spent, reserved].every((amount) => typeof amount === 'number' && Number.isFinite(amount));
  return limits
    .filter((found) => found !== null && isWhole(found))
    .flatMap((limit) => {
      try {
        return [tell(limit, record, reader)];
      } catch {
        // An amount that is no amount of money, a key that is none of several.
        return [];
      }
    });
}

/** Who set or granted something; nobody for a reader who may not know. */
const byWhom = (who: unknown, { is_admin }: LimitReader) => (is_admin && typeof who === 'string' ? ` by ${who}` : '');

/** A record of a stage of the operator's own may hold anything. */
const moment = (at: unknown) => {
  const read = new Date(String(at));
  return Number.isNaN(read.getTime()) ? String(at) : formatInUtc(read);
};

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** What was changed about a limit of an audit record at run time; `undefined` where nothing was. */
export function describeChanges(limit: Readonly<Record<string, unknown>>, reader: LimitReader): string | undefined {
  const { set_at, set_by, unit } = limit;
  const grants = Array.isArray(limit.grants) ? limit.grants.filter(isRecord) : [];
  const sentences = [
    ...(typeof set_at === 'string' ? [`Set at run time${byWhom(set_by, reader)}, ${moment(set_at)}.`] : []),
    ...grants.map(({ amount, granted_at, granted_by, expires_at }) => {
      const until = `${moment(granted_at)}, until ${moment(expires_at)}`;
      return `${describeAmount(String(unit), Number(amount))} of it granted${byWhom(granted_by, reader)}, ${until}.`;
    }),
  ];
  return sentences.length === 0 ? undefined : sentences.join(' ');
}

/** An audit record for a reader: who is no administrator is not told which of them set limits and granted room. */
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

function tell(found: Record<string, unknown>, record: AuditRecord, reader: LimitReader): ToldLimit {
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
    ...{ rule, scope, key, window, unit: unit as ToldLimit['unit'], limit, spent, reserved, after, refused },
    resets_at: typeof found.resets_at === 'string' ? found.resets_at : null,
    words: `${describeCounter({ scope, key })}: ${shown(spent)} of ${shown(limit)} ${per}${others}${then}`,
    changed: describeChanges(found, reader) ?? null,
  };
}
