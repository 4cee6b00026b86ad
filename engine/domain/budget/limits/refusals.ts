import { StageError } from '../../../base/contract/errors.ts';
import type { CounterName, CounterStatus, LimitStatus } from '../../../base/contract/services.ts';
import { type SpendWindow, WINDOWS } from '../../../base/contract/windows.ts';
import { nanoToUsd } from '../../../base/kit/money.ts';
import { CONCURRENCY_RETRY_SECONDS } from '../../../base/kit/retry-hints.ts';
import { formatInZone, formatMinuteFrom } from '../../../base/kit/zoned-time.ts';
import { lackOf, type Needs, neededIn, RUN_TIME_RULE } from './headroom.ts';
import { describeAmount, describeCounter } from './spend-limits.ts';

type Headers = Readonly<Record<string, string>>;

/** Shares of a limit at which callers get the first and the last warning. */
const WARNING_PERCENT = 75;
const LAST_WARNING_PERCENT = 95;
/** Bound on the reported share of accepted requests: clients stop at 100 %. */
const PERCENT_MAX = 99;

const NONE: Headers = {};

/** @param header_prefix of the profile, such as `vendor`. */
export function limitHeaders(header_prefix: string) {
  const prefix = `${header_prefix}-ratelimit-`;
  const names = namesUnder(prefix);
  return {
    /** Common prefix of these headers, and of the upstream's rate-limit headers. */
    prefix,
    /** Headers of a successful response, about the limit with the highest used share; none without a limit. */
    onSuccess(statuses: readonly LimitStatus[]): Headers {
      const nearest = nearestLimit(statuses);
      if (nearest === undefined) return NONE;
      const percent = percentOf(nearest.limit, nearest.spent + nearest.reserved);
      const status = percent >= WARNING_PERCENT ? 'allowed_warning' : 'allowed';
      const reset = unixSeconds(nearest);
      const headers: Record<string, string> = {
        [names.status]: status,
        [names.claim]: 'overage',
        [names.overage_status]: status,
        [names.utilization]: (Math.min(percent, PERCENT_MAX) / 100).toFixed(2),
        [names.reset]: reset,
        [names.overage_reset]: reset,
      };
      if (percent >= WARNING_PERCENT) headers[names.threshold] = percent >= LAST_WARNING_PERCENT ? '0.95' : '0.75';
      return headers;
    },
    // Without the claim and the overage status: with them, clients show their own text instead of the error message.
    /** Headers of a rejection by this spend limit. */
    onRefusal(exceeded: LimitStatus): Headers {
      const reset = unixSeconds(exceeded);
      return {
        [names.status]: 'rejected',
        [names.reset]: reset,
        [names.overage_reset]: reset,
        [names.utilization]: '1',
        [names.threshold]: '1',
        [names.period]: WINDOWS[exceeded.window as SpendWindow].adjective,
        [names.disabled_reason]: 'org_spend_cap_reached',
        ...(!isOwn(exceeded) && { [names.scope]: 'group_pool' }),
      };
    },
    /** Headers of a rejection because limits cannot be read. */
    unreadable: { [names.disabled_reason]: 'fetch_error' },
  };
}

/** The headers that tell callers how much of their limits is used, under the names of one profile. */
type LimitHeaders = ReturnType<typeof limitHeaders>;

function namesUnder(prefix: string) {
  const unified = `${prefix}unified-`;
  return {
    status: `${unified}status`,
    claim: `${unified}representative-claim`,
    reset: `${unified}reset`,
    overage_status: `${unified}overage-status`,
    utilization: `${unified}overage-utilization`,
    threshold: `${unified}overage-surpassed-threshold`,
    overage_reset: `${unified}overage-reset`,
    period: `${unified}overage-period`,
    disabled_reason: `${unified}overage-disabled-reason`,
    scope: `${unified}overage-scope`,
  } as const;
}

/** Whether a counter counts one caller only, not a group. */
function isOwn({ scope }: Pick<CounterName, 'scope'>): boolean {
  return scope.split('+').some((each) => each === 'user' || each === 'token');
}

/** Whole percent of a limit, from 0; 100 for a limit of 0. */
export function percentOf(limit: number, amount: number): number {
  // Multiplies first: 57 / 100 is slightly less than 0.57 in floating point.
  return limit > 0 ? Math.max(0, Math.floor((100 * amount) / limit)) : 100;
}

function shareUsed({ limit, spent, reserved }: LimitStatus): number {
  return limit > 0 ? (spent + reserved) / limit : 1;
}

function nearestLimit(statuses: readonly LimitStatus[]): LimitStatus | undefined {
  let nearest = statuses[0];
  for (let i = 1; i < statuses.length; i++) {
    if (shareUsed(statuses[i]!) > shareUsed(nearest!)) nearest = statuses[i];
  }
  return nearest;
}

function unixSeconds({ resets_at }: LimitStatus): string {
  return String(Math.ceil((resets_at ?? 0) / 1000));
}

/** What an operator decides about refusals. */
interface RefusalStyle {
  readonly status: number;
  /** Text of the operator, instead of the gateway's advice. */
  readonly advice: string | undefined;
  readonly headers: LimitHeaders;
  /** Time zone of times in messages: `spend_limits.time_zone`. */
  readonly time_zone: string;
}

/** One exceeded limit in the error details. */
type Listed = Readonly<Record<string, string | number | null>>;

const requests = (count: number) => describeAmount(count, 'requests');
const isoTime = (milliseconds: number | null) => (milliseconds === null ? null : new Date(milliseconds).toISOString());

/** Exceeded limits; one that waiting does not help comes first. */
export function hopelessFirst(exceeded: readonly LimitStatus[], needs: Needs): readonly LimitStatus[] {
  const hopeless = exceeded.find((limit_status) => isHopeless(limit_status, needs));
  if (hopeless === undefined || hopeless === exceeded[0]) return exceeded;
  return [hopeless, ...exceeded.filter((limit_status) => limit_status !== hopeless)];
}

/**
 * The error for a request that exceeds limits; its message is about the first one.
 * @param now milliseconds since the epoch
 */
export function refuseForLimits(
  exceeded: readonly LimitStatus[],
  needs: Needs,
  { status, advice, headers, time_zone }: RefusalStyle,
  now: number,
): StageError {
  const first = exceeded[0]!;
  const { scope, key, window, unit, rule, limit, spent, reserved, in_flight, resets_at } = first;
  const seconds = resets_at === null ? CONCURRENCY_RETRY_SECONDS : Math.max(1, Math.ceil((resets_at - now) / 1000));
  const { needed, ...explanation } = explain(first, needs, seconds, time_zone);
  const message = sentence(explanation, originOf(first, time_zone), advice);
  const about = { window, scope, key, resets_at: isoTime(resets_at), rule, ...changeDetails(first) };
  const retry_after = String(seconds);
  if (unit !== 'nano_usd') {
    return new StageError('rate_limit_exceeded', message, {
      headers: isHopeless(first, needs) ? { 'x-should-retry': 'false' } : { 'retry-after': retry_after },
      details: { limit, unit, used: spent, reserved, in_flight, needed, ...about, exceeded: exceeded.map(list) },
    });
  }
  return new StageError('spend_limit_exceeded', message, {
    status,
    headers: { 'retry-after': retry_after, 'x-should-retry': 'false', ...headers.onRefusal(first) },
    details: {
      limit_usd: nanoToUsd(limit),
      spent_usd: nanoToUsd(spent),
      reserved_usd: nanoToUsd(reserved),
      reserved_by_requests: in_flight,
      needed_usd: nanoToUsd(needed),
      ...about,
      exceeded: exceeded.map(list),
    },
  });
}

function list(status: LimitStatus): Listed {
  const { scope, key, window, unit, limit, rule, resets_at } = status;
  const amount: Listed = unit === 'nano_usd' ? { limit_usd: nanoToUsd(limit) } : { limit, unit };
  return { scope, key, window, ...amount, resets_at: isoTime(resets_at), rule, ...changeDetails(status) };
}

/** When a limit was set, and its grants with their ends. Administrators' names are left out. */
function changeDetails({ unit, rule, granted, changes }: LimitStatus): Listed {
  const set_at = rule === RUN_TIME_RULE ? changes?.set?.at : undefined;
  const ends_at = changes?.grants[0]?.expires_at;
  return {
    ...(set_at !== undefined && { set_at: isoTime(set_at) }),
    ...(granted !== undefined && (unit === 'nano_usd' ? { granted_usd: nanoToUsd(granted) } : { granted })),
    ...(granted !== undefined && ends_at !== undefined && { granted_until: isoTime(ends_at) }),
  };
}

/** The origin of a limit: a rule of gateway.yaml, or an administrator at run time. */
function originOf({ rule, limit, granted, changes, unit }: LimitStatus, time_zone: string): string {
  const ends_at = changes?.grants[0]?.expires_at;
  const until = ends_at === undefined ? 'temporarily' : `until ${formatInZone(ends_at, time_zone)}`;
  if (granted === limit) return `Granted at run time, ${until}`;
  const set_at = changes?.set?.at;
  const set = `Limit set at run time${set_at === undefined ? '' : `, ${formatInZone(set_at, time_zone)}`}`;
  const base = rule === RUN_TIME_RULE ? set : `Spend rule ${rule}`;
  return granted === undefined ? base : `${base}, with ${describeAmount(granted, unit)} granted ${until}`;
}

/** Whether waiting cannot help: the request is larger than the whole limit. */
function isHopeless(limit_status: LimitStatus, needs: Needs): boolean {
  return limit_status.limit === 0 || lackOf(limit_status, needs) === 'limit';
}

/** First words of a rejection that waiting does not help. */
const HOPELESS = 'Retrying will not help';

/** The parts of a rejection's message, in their order. */
interface Explanation {
  /** Which limit is exceeded, and when it resets or when to retry. */
  readonly fact: string;
  /** The gateway's advice, without advice of the operator. */
  readonly own?: string;
  /** The amounts behind the fact. */
  readonly amounts?: string;
}

/**
 * Some clients show only the first 157 characters and hide the details, so the limit, its reset and the advice come first.
 */
function sentence({ fact, own, amounts }: Explanation, origin: string, advice: string | undefined): string {
  const help = advice ?? own;
  const behind = amounts === undefined ? `${origin}.` : `${origin}: ${amounts}.`;
  return [`${fact}.`, ...(help === undefined ? [] : [ended(help)]), behind].join(' ');
}

/** Adds a missing full stop to the operator's text. */
const ended = (text: string) => (/[.!?…。！？]\W*$/u.test(text) ? text : `${text}.`);

/** Why a limit is exceeded, and the amount that was needed, in the unit of the limit. */
function explain(
  status: LimitStatus,
  needs: Needs,
  seconds: number,
  time_zone: string,
): Explanation & { readonly needed: number } {
  const { window, unit, limit, spent, reserved, in_flight, resets_at } = status;
  const { amount: needed, most } = neededIn(unit, needs);
  const lack = lackOf(status, needs);
  const is_money = unit === 'nano_usd';
  const amount = (of: number) => describeAmount(of, unit);
  const per = window === 'open' ? ' at once' : ' per minute';
  const which = is_money ? `${WINDOWS[window as SpendWindow].adjective} limit` : 'limit';
  const size = is_money ? amount(limit) : amount(limit) + per;
  const what = `${which} of ${size} for ${describeCounter(status)}`;
  if (limit === 0) {
    return {
      fact: `${HOPELESS}: the ${which} for ${describeCounter(status)} is ${size}`,
      own: 'Ask your administrator for a higher limit.',
      needed,
    };
  }
  if (window === 'open') {
    const [are, they] = reserved === 1 ? ['is', 'it has'] : ['are', 'one of them has'];
    const fact = `The ${what} is reached; try again when ${they} finished`;
    return { fact, amounts: `${requests(reserved)} ${are} in flight`, needed };
  }
  const costs = is_money
    ? `this request ${needed < most ? 'is likely to cost' : 'may cost'} ${amount(needed)}`
    : `this request may need ${amount(needed)}`;
  if (lack === 'limit') {
    const less = is_money ? 'Request' : 'Shorten the input, request';
    const own = `${less} fewer output tokens, or ask your administrator for a higher limit.`;
    return { fact: `${HOPELESS}: this request alone exceeds the ${what}`, own, amounts: costs, needed };
  }
  if (!is_money) {
    const counted = `${spent} used and ${reserved} reserved by requests in flight in this minute`;
    return {
      fact: `This request would exceed the ${what}; try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}`,
      amounts: unit === 'tokens' ? `${counted}, and ${costs}` : counted,
      needed,
    };
  }
  const resets = `it resets ${formatMinuteFrom(resets_at ?? 0, time_zone)}`;
  const is_spent = `${amount(spent)} is spent`;
  if (lack === 'spent') {
    const own = 'Until then, ask your administrator for a higher limit.';
    const fact = `This request would exceed the ${what}; ${resets}`;
    return { fact, own, amounts: `${is_spent}, and ${costs}`, needed };
  }
  const others = `${requests(in_flight)} in flight`;
  const busy = {
    fact: `The ${what} is reached while ${requests(in_flight)} ${in_flight === 1 ? 'runs' : 'run'}; ${resets}`,
    own: `Try again when ${in_flight === 1 ? 'it has' : 'they have'} finished.`,
  };
  if (lack === 'reserved') {
    return { ...busy, amounts: `${is_spent}, ${amount(reserved)} is reserved by ${others}, and ${costs}`, needed };
  }
  const may = `${others} may cost up to ${amount(status.most)}, and this request up to ${amount(most)}`;
  return { ...busy, amounts: `${is_spent}, ${may}`, needed: most };
}

/** A user's spending in one window. Amounts are in cents, with decimals; `null` without a limit. */
interface WindowUsage {
  readonly limit: number | null;
  readonly used_credits: number;
  /** Percent. */
  readonly utilization: number | null;
  readonly resets_at: string;
}

/** A spend limit that applies to a user, alone or with others. */
interface LimitUsage {
  readonly kind: 'spend';
  readonly group: string;
  readonly percent: number;
  readonly resets_at: string;
  readonly severity: 'normal' | 'warning' | 'critical';
  /** Whether `extra_usage` is about this limit. */
  readonly is_active: boolean;
  readonly scope: string;
  readonly rule: string;
}

/** A caller's spending and limits; the body of `GET /api/oauth/usage`. Amounts are in cents, with decimals. */
export interface UsageReport {
  /** The active limit, of any window; without limits, the month. */
  readonly extra_usage: {
    readonly is_enabled: true;
    readonly monthly_limit: number | null;
    readonly used_credits: number;
    readonly utilization: number | null;
    readonly currency: 'USD';
    readonly daily: WindowUsage;
    readonly weekly: WindowUsage;
  };
  readonly limits: readonly LimitUsage[];
}

const NANO_USD_PER_CENT = 1e7;

/** @param statuses spend counters, including the user's own of the day, week and month. */
export function usageReport(statuses: readonly CounterStatus[]): UsageReport {
  const nearest = furthestLimit(statuses);
  const { limit, used_credits, utilization } = windowUsage(nearest ?? ownStatus('month', statuses));
  return {
    extra_usage: {
      is_enabled: true,
      monthly_limit: limit,
      used_credits,
      utilization,
      currency: 'USD',
      daily: windowUsage(ownStatus('day', statuses)),
      weekly: windowUsage(ownStatus('week', statuses)),
    },
    limits: statuses.flatMap((limit_status) => limitUsage(limit_status, limit_status === nearest)),
  };
}

/** The limit with the highest used share; of exhausted ones, the one that resets last. */
function furthestLimit(statuses: readonly CounterStatus[]): CounterStatus | undefined {
  const share = ({ limit, spent }: CounterStatus) => (limit! > 0 ? Math.min(1, spent / limit!) : 1);
  const limited = statuses.filter(({ limit }) => limit !== null);
  const [nearest] = limited.toSorted(
    (a, b) => share(b) - share(a) || (share(a) === 1 ? b.resets_at! - a.resets_at! : 0) || a.limit! - b.limit!,
  );
  return nearest;
}

function ownStatus(window: SpendWindow, statuses: readonly CounterStatus[]): CounterStatus {
  const own = statuses.filter((each) => each.scope === 'user' && each.window === window);
  const [least] = own.toSorted((a, b) => (a.limit ?? Number.MAX_VALUE) - (b.limit ?? Number.MAX_VALUE));
  if (least === undefined) throw new Error(`the status of the user's ${window} is missing`);
  return least;
}

function windowUsage(limit_status: CounterStatus): WindowUsage {
  const { limit, spent } = limit_status;
  return {
    limit: limit === null ? null : limit / NANO_USD_PER_CENT,
    used_credits: spent / NANO_USD_PER_CENT,
    utilization: percentUsed(limit_status),
    resets_at: resetTime(limit_status),
  };
}

function limitUsage(limit_status: CounterStatus, is_active: boolean): LimitUsage[] {
  const percent = percentUsed(limit_status);
  if (percent === null) return [];
  const { window, scope, rule } = limit_status;
  const severity = percent >= LAST_WARNING_PERCENT ? 'critical' : percent >= WARNING_PERCENT ? 'warning' : 'normal';
  const group = WINDOWS[window as SpendWindow].adjective;
  return [{ kind: 'spend', group, percent, resets_at: resetTime(limit_status), severity, is_active, scope, rule }];
}

/** Whole percent from 0 to 100; `null` without a limit. */
function percentUsed({ limit, spent }: CounterStatus): number | null {
  return limit === null ? null : Math.min(100, percentOf(limit, spent));
}

function resetTime({ resets_at }: CounterStatus): string {
  return new Date(resets_at!).toISOString();
}
