import type { Window } from '../../contract/config.ts';
import { type ErrorDetails, StageError } from '../../contract/errors.ts';
import type { LimitStatus } from '../../contract/services.ts';
import { formatUsd, nanoToUsd } from '../../kit/money.ts';
import { NEXT_ROOM_SECONDS } from '../../kit/patience.ts';
import { formatInZone, formatMinuteFrom } from '../../kit/zoned-time.ts';
import type { LimitHeaders } from './limit-headers.ts';
import { lackOf, type Needs, neededIn, RUN_TIME_RULE } from './room.ts';
import { describeAmount, describeCounter, windowAdjective } from './spend-limits.ts';

/** What an operator decides about refusals. */
export interface RefusalStyle {
  /** HTTP status of a refusal for money. */
  readonly status: number;
  /** Ends every refusal instead of our own advice. */
  readonly advice: string | undefined;
  readonly headers: LimitHeaders;
  /** In which times are told: `spend_limits.time_zone`. */
  readonly time_zone: string;
}

/** A limit as it is listed beside others that had no room either. */
type Listed = Readonly<Record<string, string | number | null>>;

const usd = (nano: number) => `${formatUsd(nano)} USD`;
const requests = (count: number) => describeAmount(count, 'requests');
const isoTime = (milliseconds: number | null) => (milliseconds === null ? null : new Date(milliseconds).toISOString());

/** Limits without room, with one that no waiting helps before those that only need time. */
export function hopelessFirst(exceeded: readonly LimitStatus[], needs: Needs): readonly LimitStatus[] {
  const hopeless = exceeded.find((limit_status) => isHopeless(limit_status, needs));
  if (hopeless === undefined || hopeless === exceeded[0]) return exceeded;
  return [hopeless, ...exceeded.filter((limit_status) => limit_status !== hopeless)];
}

/**
 * The error of a request that some limits have no room for; it is about the first of them.
 * @param now milliseconds since the epoch
 */
export function refuseForLimits(
  exceeded: readonly LimitStatus[],
  needs: Needs,
  style: RefusalStyle,
  now: number,
): StageError {
  const first = exceeded[0]!;
  const listed = exceeded.map(list);
  return first.unit === 'nano_usd'
    ? refuseSpending(first, needs, listed, style, now)
    : refuseRate(first, needs, listed, style, now);
}

function list(status: LimitStatus): Listed {
  const { scope, key, window, unit, limit, rule, resets_at } = status;
  const amount = unit === 'nano_usd' ? { limit_usd: nanoToUsd(limit) } : { limit, unit };
  return { scope, key, window, ...amount, resets_at: isoTime(resets_at), rule, ...changeDetails(status) };
}

/** When a limit was set, and what of it is granted until when: not by whom, which is the administrators' to know. */
function changeDetails({ unit, rule, granted, changes }: LimitStatus): Listed {
  const set_at = rule === RUN_TIME_RULE ? changes?.set?.at : undefined;
  const ends_at = changes?.grants[0]?.expires_at;
  return {
    ...(set_at !== undefined && { set_at: isoTime(set_at) }),
    ...(granted !== undefined && (unit === 'nano_usd' ? { granted_usd: nanoToUsd(granted) } : { granted })),
    ...(granted !== undefined && ends_at !== undefined && { granted_until: isoTime(ends_at) }),
  };
}

/** What made a limit as it is: a rule of gateway.yaml, or an administrator at run time. */
function originOf(status: LimitStatus, time_zone: string): string {
  const { rule, limit, granted, changes, unit } = status;
  const ends_at = changes?.grants[0]?.expires_at;
  const until = ends_at === undefined ? 'for a time' : `until ${formatInZone(ends_at, time_zone)}`;
  if (granted === limit) return `Granted at run time, ${until}`;
  const set_at = changes?.set?.at;
  const base =
    rule === RUN_TIME_RULE
      ? `Limit set at run time${set_at === undefined ? '' : `, ${formatInZone(set_at, time_zone)}`}`
      : `Spend rule ${rule}`;
  return granted === undefined ? base : `${base}, with ${describeAmount(granted, unit)} granted ${until}`;
}

function secondsUntil(resets_at: number | null, now: number): number {
  return resets_at === null ? NEXT_ROOM_SECONDS : Math.max(1, Math.ceil((resets_at - now) / 1000));
}

/** Whether the request is refused however long its caller waits: the limit as a whole is smaller than it. */
function isHopeless(limit_status: LimitStatus, needs: Needs): boolean {
  return limit_status.limit === 0 || lackOf(limit_status, needs) === 'limit';
}

/** First words of a refusal that no waiting helps. */
const HOPELESS = 'Waiting does not help';

/** What a refusal says, in the order in which it says it. */
interface Explanation {
  /** What ran out and when it resets or is worth another try. */
  readonly fact: string;
  /** What else to do, where the operator gives no advice. */
  readonly own?: string;
  /** The amounts behind the fact. */
  readonly amounts?: string;
}

/**
 * There are clients that show the first 157 characters only, and hide the details: so what ran out, when it resets and what to do come
 * first.
 */
function sentence({ fact, own, amounts }: Explanation, origin: string, advice: string | undefined): string {
  const help = advice ?? own;
  const behind = amounts === undefined ? `${origin}.` : `${origin}: ${amounts}.`;
  return [`${fact}.`, ...(help === undefined ? [] : [ended(help)]), behind].join(' ');
}

/** "The limit ..." in the middle of a sentence. */
const theLimit = (what: string) => what.replace(/^The /, 'the ');

/** An operator may write no full stop. */
const ended = (text: string) => (/[.!?…。！？]\W*$/u.test(text) ? text : `${text}.`);

function refuseSpending(
  limit_status: LimitStatus,
  needs: Needs,
  exceeded: readonly Listed[],
  { status, advice, headers, time_zone }: RefusalStyle,
  now: number,
): StageError {
  const { scope, key, window, rule, limit, spent, reserved, in_flight, resets_at } = limit_status;
  const { needed, ...explanation } = explainSpending(limit_status, needs, time_zone);
  const details: ErrorDetails = {
    limit_usd: nanoToUsd(limit),
    spent_usd: nanoToUsd(spent),
    reserved_usd: nanoToUsd(reserved),
    reserved_by_requests: in_flight,
    needed_usd: nanoToUsd(needed),
    window,
    scope,
    key,
    resets_at: isoTime(resets_at),
    rule,
    ...changeDetails(limit_status),
    exceeded,
  };
  return new StageError('spend_limit_exceeded', sentence(explanation, originOf(limit_status, time_zone), advice), {
    status,
    headers: {
      'retry-after': String(secondsUntil(resets_at, now)),
      'x-should-retry': 'false',
      ...headers.onRefusal(limit_status),
    },
    details,
  });
}

/** Why there is no room, and the amount in nano-USD there was none for. */
function explainSpending(
  limit_status: LimitStatus,
  needs: Needs,
  time_zone: string,
): Explanation & { readonly needed: number } {
  const { amount_nano_usd: amount, most_nano_usd: most } = needs;
  const { window, limit, spent, reserved, in_flight } = limit_status;
  const lack = lackOf(limit_status, needs);
  const resets = `it resets ${formatMinuteFrom(limit_status.resets_at ?? 0, time_zone)}`;
  const what = `The ${windowAdjective(window as Window)} limit of ${usd(limit)} for ${describeCounter(limit_status)}`;
  const costs = `this request ${amount < most ? 'is likely to cost' : 'may cost'} ${usd(amount)}`;
  const others = `${requests(in_flight)} in flight`;
  const busy = {
    fact: `${what} has no room while ${requests(in_flight)} ${in_flight === 1 ? 'runs' : 'run'}; ${resets}`,
    own: `Try again when ${in_flight === 1 ? 'it has' : 'they have'} finished.`,
  };
  if (limit === 0) {
    return {
      fact: `${HOPELESS}: ${theLimit(what)} allows nothing`,
      own: 'Ask your administrator for a higher limit.',
      needed: amount,
    };
  }
  if (lack === 'limit') {
    return {
      fact: `${HOPELESS}: this request alone is larger than ${theLimit(what)}`,
      own: 'Ask for fewer output tokens, or your administrator for a higher limit.',
      amounts: costs,
      needed: amount,
    };
  }
  if (lack === 'spent') {
    return {
      fact: `${what} has no room for this request; ${resets}`,
      own: 'Until then ask your administrator for a higher limit.',
      amounts: `${usd(spent)} is spent, and ${costs}`,
      needed: amount,
    };
  }
  if (lack === 'reserved') {
    return {
      ...busy,
      amounts: `${usd(spent)} is spent, ${usd(reserved)} is reserved by ${others}, and ${costs}`,
      needed: amount,
    };
  }
  return {
    ...busy,
    amounts: `${usd(spent)} is spent, ${others} may cost up to ${usd(limit_status.most)}, and this request up to ${usd(most)}`,
    needed: most,
  };
}

function refuseRate(
  limit_status: LimitStatus,
  needs: Needs,
  exceeded: readonly Listed[],
  { advice, time_zone }: RefusalStyle,
  now: number,
): StageError {
  const { scope, key, window, unit, rule, limit, spent, reserved, in_flight, resets_at } = limit_status;
  const patience = secondsUntil(resets_at, now);
  const needed = neededIn(unit, needs).amount;
  const hopeless = isHopeless(limit_status, needs);
  return new StageError('rate_limit_exceeded', sentence(explainRate(), originOf(limit_status, time_zone), advice), {
    headers: hopeless ? { 'x-should-retry': 'false' } : { 'retry-after': String(patience) },
    details: {
      limit,
      unit,
      used: spent,
      reserved,
      in_flight,
      needed,
      window,
      scope,
      key,
      resets_at: isoTime(resets_at),
      rule,
      ...changeDetails(limit_status),
      exceeded,
    },
  });

  function explainRate(): Explanation {
    const at_once = window === 'open';
    const most = `The limit of ${describeAmount(limit, unit)} ${at_once ? 'at once' : 'per minute'} for ${describeCounter(limit_status)}`;
    if (limit === 0) {
      return {
        fact: `${HOPELESS}: ${theLimit(most)} allows nothing`,
        own: 'Ask your administrator for a higher limit.',
      };
    }
    if (at_once) {
      const [are, they] = reserved === 1 ? ['is', 'it has'] : ['are', 'one of them has'];
      const fact = `${most} is reached; try again when ${they} finished`;
      return { fact, amounts: `${requests(reserved)} ${are} under way` };
    }
    const needs = `this request may need ${describeAmount(needed, unit)}`;
    if (hopeless) {
      return {
        fact: `${HOPELESS}: this request alone is larger than ${theLimit(most)}`,
        own: 'Send less, ask for fewer output tokens, or your administrator for a higher limit.',
        amounts: needs,
      };
    }
    const wait = `try again in ${patience} ${patience === 1 ? 'second' : 'seconds'}`;
    const counted = `${spent} used and ${reserved} reserved by requests in flight in this minute`;
    return {
      fact: `${most} has no room for this request; ${wait}`,
      amounts: unit === 'tokens' ? `${counted}, and ${needs}` : counted,
    };
  }
}
