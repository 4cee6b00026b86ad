import { StageError } from '../../../base/contract/errors.ts';
import type {
  Clock,
  CounterName,
  CounterStatus,
  LimitChanges,
  LimitDemand,
  LimitStatus,
  LimitsInForce,
  MoveDecision,
  ReservationRequest,
  Services,
} from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { type SpendWindow, WINDOWS } from '../../../base/contract/windows.ts';
import { createGroupCommit } from '../../../base/kit/group-commit.ts';
import { nanoToUsd } from '../../../base/kit/money.ts';
import { CONCURRENCY_RETRY_SECONDS } from '../../../base/kit/retry-hints.ts';
import { formatInZone, formatMinuteFrom } from '../../../base/kit/zoned-time.ts';
import type { Database } from '../../../base/store/database.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { type ChangesInForce, withoutReasons } from '../reports/spending.ts';
import { counterText, grantedIn, lackOf, type Needs, neededIn, RUN_TIME_RULE } from './headroom.ts';
import { nameColumns, personalCounter } from './limit-names.ts';
import { MOMENT } from './limit-settings.ts';
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
  const unified = `${prefix}unified-`;
  const names = {
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
  };
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
    unreadable: { [names.disabled_reason]: 'fetch_error' },
  };
}

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

type Listed = Readonly<Record<string, string | number | null>>;

const requests = (count: number) => describeAmount(count, 'requests');
const isoTime = (milliseconds: number | null) => (milliseconds === null ? null : new Date(milliseconds).toISOString());

/** Exceeded limits; one that waiting does not help comes first. */
function hopelessFirst(exceeded: readonly LimitStatus[], needs: Needs): readonly LimitStatus[] {
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
  style: {
    readonly status: number;
    /** Text of the operator, instead of the gateway's advice. */
    readonly advice: string | undefined;
    readonly headers: ReturnType<typeof limitHeaders>;
    readonly time_zone: string;
  },
  now: number,
): StageError {
  const { status, advice, headers, time_zone } = style;
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

const HOPELESS = 'Retrying will not help';

interface Explanation {
  readonly fact: string;
  readonly own?: string;
  readonly amounts?: string;
}

/** Some clients show only the first 157 characters and hide the details, so the limit, its reset and the advice come first. */
function sentence({ fact, own, amounts }: Explanation, origin: string, advice: string | undefined): string {
  const help = advice ?? own;
  const behind = amounts === undefined ? `${origin}.` : `${origin}: ${amounts}.`;
  return [`${fact}.`, ...(help === undefined ? [] : [ended(help)]), behind].join(' ');
}

const ended = (text: string) => (/[.!?…。！？]\W*$/u.test(text) ? text : `${text}.`);

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
    const [are, one] = reserved === 1 ? ['is', 'the request in flight'] : ['are', 'one request'];
    const fact = `The ${what} is reached; try again when ${one} has finished`;
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
  const resets = `resets ${formatMinuteFrom(resets_at ?? 0, time_zone)}`;
  const is_spent = `${amount(spent)} is spent`;
  if (lack === 'spent') {
    const own = 'To continue sooner, ask your administrator for a higher limit.';
    const fact = `This request would exceed the ${what}; the limit ${resets}`;
    return { fact, own, amounts: `${is_spent}, and ${costs}`, needed };
  }
  const others = `${requests(in_flight)} in flight`;
  const busy = {
    fact: `The ${what} (${resets}) is reached while ${requests(in_flight)} ${in_flight === 1 ? 'runs' : 'run'}`,
    own: `Try again when ${in_flight === 1 ? 'the request has' : 'they have'} finished.`,
  };
  if (lack === 'reserved') {
    return { ...busy, amounts: `${is_spent}, ${amount(reserved)} is reserved by ${others}, and ${costs}`, needed };
  }
  const may = `${others} may cost up to ${amount(status.most)}, and this request up to ${amount(most)}`;
  return { ...busy, amounts: `${is_spent}, ${may}`, needed: most };
}

const NANO_USD_PER_CENT = 1e7;

/**
 * A caller's spending and limits, the body of `GET /api/oauth/usage`: amounts in cents, with decimals; `null` without a limit.
 * `extra_usage` is about the active limit, of any window; without limits about the month.
 * @param statuses spend counters, including the user's own of the day, week and month.
 */
export function usageReport(statuses: readonly CounterStatus[]) {
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

function windowUsage(limit_status: CounterStatus) {
  const { limit, spent } = limit_status;
  return {
    limit: limit === null ? null : limit / NANO_USD_PER_CENT,
    used_credits: spent / NANO_USD_PER_CENT,
    utilization: percentUsed(limit_status),
    resets_at: resetTime(limit_status),
  };
}

function limitUsage(limit_status: CounterStatus, is_active: boolean) {
  const percent = percentUsed(limit_status);
  if (percent === null) return [];
  const { window, scope, rule } = limit_status;
  const severity = percent >= LAST_WARNING_PERCENT ? 'critical' : percent >= WARNING_PERCENT ? 'warning' : 'normal';
  const group = WINDOWS[window as SpendWindow].adjective;
  return [{ kind: 'spend', group, percent, resets_at: resetTime(limit_status), severity, is_active, scope, rule }];
}

function percentUsed({ limit, spent }: CounterStatus): number | null {
  return limit === null ? null : Math.min(100, percentOf(limit, spent));
}

function resetTime({ resets_at }: CounterStatus): string {
  return new Date(resets_at!).toISOString();
}

/** Creates the service that reads limits and grants set at run time. */
export function createLimitsInForce(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
}): LimitsInForce {
  const { database, clock } = options;
  const lookups = createGroupCommit<CounterName, LimitChanges>({
    lanes: 1,
    max_items: 100,
    isolates: () => false,
    async execute(names) {
      const rows = await database.query<{ readonly changes: ChangesInForce }>(
        'limits_now',
        `with moment as (${MOMENT})
         select l.changes
         from moment
         cross join unnest($2::text[], $3::text[], $4::text[], $5::text[])
           with ordinality as n (scope, key, window_kind, unit, position)
         cross join lateral changed_limit(n.scope, n.key, n.window_kind, n.unit, at) as l
         order by n.position`,
        [databaseTime(clock), ...nameColumns(names)],
      );
      return rows.map(({ changes }) => withoutReasons(changes));
    },
  });
  return { changes: (name) => lookups.run(name) };
}

/** The final reservation request, its decision, and the limits without headroom: limits that waiting cannot help come first. */
export interface LimitCheckResult<Decision extends MoveDecision = MoveDecision> {
  readonly request: ReservationRequest;
  readonly decision: Decision;
  readonly exceeded: readonly LimitStatus[];
}

/** Creates the limit check: reserves, and builds the error of a rejected request. */
export function createLimitCheck(services: Pick<Services, 'config' | 'clock' | 'limits_in_force'>) {
  const { config, clock, limits_in_force } = services;
  const { status = 429, advice, time_zone = 'UTC' } = config.spend_limits ?? {};
  const headers = limitHeaders(config.server.profile.header_prefix);

  async function inStore<Decision>(decided: Promise<Decision>): Promise<Decision> {
    try {
      return await decided;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      const all_headers = { ...error.headers, ...headers.unreadable };
      const { status: code, details } = error;
      throw new StageError(error.code, error.message, { status: code, details, cause: error, headers: all_headers });
    }
  }

  return {
    /**
     * Reserves on the shared limits, else on the user's personal grants. Raises store_unavailable, with headers that show
     * that limits cannot be read, and the errors of `reserve`.
     */
    async check<Decision extends MoveDecision>(
      ctx: Pick<RequestContext, 'recordShadow'>,
      wanted: ReservationRequest,
      reserve: (request: ReservationRequest) => Promise<Decision>,
    ): Promise<LimitCheckResult<Decision>> {
      let request = wanted;
      let decision = await inStore(reserve(request));
      const { exceeded } = decision;
      const own = exceeded.length > 0 ? await withPersonalGrant(request, exceeded, limits_in_force) : undefined;
      if (own !== undefined) {
        request = own;
        decision = await inStore(reserve(own));
      }
      for (const { rule } of decision.shadows) ctx.recordShadow(`spend:${rule}`);
      return { request, decision, exceeded: hopelessFirst(decision.exceeded, request) };
    },

    /**
     * The error of a rejected request, with the run-time changes of its limits. If these cannot be read, the error omits them.
     */
    async refusal(
      ctx: Pick<RequestContext, 'recordLimits'>,
      { request, decision, exceeded }: LimitCheckResult,
    ): Promise<StageError> {
      const limits_then = await Promise.all(
        exceeded.map(async (limit) => {
          if (limit.rule !== RUN_TIME_RULE && limit.granted === undefined) return limit;
          const changes = await limits_in_force.changes(limit).catch(() => undefined);
          return changes === undefined ? limit : { ...limit, changes };
        }),
      );
      ctx.recordLimits(limits_then);
      // Windows end by the database's clock, which may differ from this machine's.
      const at = decision.decided_at ?? clock.now();
      return refuseForLimits(limits_then, request, { status, advice, headers, time_zone }, at);
    },
  };
}

type RequestContext = StageContext<never, never, never>;

/**
 * The request with personal grants in place of the exhausted limits; `undefined` if the user lacks a grant for one of them.
 * The request then counts only against the grant, not against the shared limit.
 */
async function withPersonalGrant(
  request: ReservationRequest,
  exceeded: readonly LimitStatus[],
  limits: LimitsInForce,
): Promise<ReservationRequest | undefined> {
  const instead = new Map<string, LimitDemand>();
  for (const limit of exceeded) {
    const own = personalCounter(limit, request.user);
    if (own === undefined) return undefined;
    const { set, ...granted } = await limits.changes(own);
    if ((set?.amount ?? 0) + grantedIn(granted) === 0) return undefined;
    instead.set(counterText(limit), { ...own, limit: 0, rule: limit.rule });
  }
  const shared = request.demands.filter((demand) => !instead.has(counterText(demand)));
  return { ...request, demands: [...shared, ...instead.values()] };
}
