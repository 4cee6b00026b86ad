import type { Window } from '../config.ts';
import { type ErrorDetails, StageError } from '../errors.ts';
import { describeAmount, describeCounter, windowAdjective } from '../rules/spend-limits.ts';
import { formatUsd, nanoToUsd } from '../services/money.ts';
import type { LimitStanding, ReservationRequest } from '../stage-services.ts';
import type { LimitHeaders } from './limit-headers.ts';

/** What an operator decides about refusals. */
export interface RefusalStyle {
  /** HTTP status of a refusal for money. */
  readonly status: number;
  /** Ends every refusal instead of our own advice. */
  readonly advice: string | undefined;
  readonly headers: LimitHeaders;
}

type Needs = Pick<ReservationRequest, 'amount_nano_usd' | 'most_nano_usd' | 'tokens'>;

/** A limit as it is listed beside others that had no room either. */
type Listed = Readonly<Record<string, string | number | null>>;

const usd = (nano: number) => `${formatUsd(nano)} USD`;
const requests = (count: number) => describeAmount(count, 'requests');
const isoTime = (milliseconds: number | null) => (milliseconds === null ? null : new Date(milliseconds).toISOString());

/**
 * The error of a request that some limits have no room for; it is about the first of them.
 * @param now milliseconds since the epoch
 */
export function refuseForLimits(
  exceeded: readonly LimitStanding[],
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

function list({ scope, key, window, unit, limit, rule, resets_at }: LimitStanding): Listed {
  const amount = unit === 'nano_usd' ? { limit_usd: nanoToUsd(limit) } : { limit, unit };
  return { scope, key, window, ...amount, resets_at: isoTime(resets_at), rule };
}

function secondsUntil(resets_at: number | null, now: number): number {
  return resets_at === null ? 1 : Math.max(1, Math.ceil((resets_at - now) / 1000));
}

/** What is wrong, and what to do when waiting is no help: the operator's advice, or our own, which goes on after the fact. */
function sentence(fact: string, advice: string | undefined, own = ''): string {
  return advice === undefined ? `${fact}${own}.` : `${fact}. ${advice}`;
}

function refuseSpending(
  standing: LimitStanding,
  needs: Needs,
  exceeded: readonly Listed[],
  { status, advice, headers }: RefusalStyle,
  now: number,
): StageError {
  const { scope, key, window, rule, limit, spent, held, in_flight, resets_at } = standing;
  const { fact, own, needed } = explainSpending(standing, needs);
  const details: ErrorDetails = {
    limit_usd: nanoToUsd(limit),
    spent_usd: nanoToUsd(spent),
    held_usd: nanoToUsd(held),
    held_by_requests: in_flight,
    needed_usd: nanoToUsd(needed),
    window,
    scope,
    key,
    resets_at: isoTime(resets_at),
    rule,
    exceeded,
  };
  return new StageError('spend_limit_exceeded', sentence(fact, advice, own), {
    status,
    headers: {
      'retry-after': String(secondsUntil(resets_at, now)),
      'x-should-retry': 'false',
      ...headers.onRefusal(standing),
    },
    details,
  });
}

/** What ran out and when it resets, what to do about it, and the amount in nano-USD there was no room for. */
function explainSpending(standing: LimitStanding, { amount_nano_usd: amount, most_nano_usd: most }: Needs) {
  const { window, rule, limit, spent, held, in_flight } = standing;
  const resets = `it resets at ${isoTime(standing.resets_at)}`;
  const soon = `${resets}, but try again as soon as they have finished`;
  const what = `The ${windowAdjective(window as Window)} limit of ${usd(limit)} for ${describeCounter(standing)} (spend rule ${rule})`;
  const costs = `which ${amount < most ? 'is likely to cost' : 'may cost'} ${usd(amount)}`;
  const others = `${requests(in_flight)} in flight`;
  if (limit === 0) {
    return {
      fact: `${what} allows nothing; ${resets}, which will not change that`,
      own: ': ask your administrator for a higher limit',
      needed: amount,
    };
  }
  if (amount > limit) {
    return {
      fact: `${what} is smaller than what this request needs, ${costs}; ${resets}, which will not change that`,
      own: ': ask for fewer output tokens, or your administrator for a higher limit',
      needed: amount,
    };
  }
  if (spent + amount > limit) {
    return {
      fact: `${what} has no room for this request, ${costs}: ${usd(spent)} is spent; ${resets}`,
      own: ', until then ask your administrator for a higher limit',
      needed: amount,
    };
  }
  if (spent + held + amount > limit) {
    return {
      fact: `${what} has no room for this request, ${costs}: ${usd(spent)} is spent and ${usd(held)} is held by ${others}; ${soon}`,
      needed: amount,
    };
  }
  return {
    fact: `${what} has no room for all that may become of this request, up to ${usd(most)}: ${usd(spent)} is spent, and ${others} may cost up to ${usd(standing.most)}; ${soon}`,
    needed: most,
  };
}

function refuseRate(
  standing: LimitStanding,
  { tokens }: Needs,
  exceeded: readonly Listed[],
  { advice }: RefusalStyle,
  now: number,
): StageError {
  const { scope, key, window, unit, rule, limit, spent, held, in_flight, resets_at } = standing;
  const patience = secondsUntil(resets_at, now);
  const needed = unit === 'tokens' ? tokens : 1;
  // Waiting does not help a request that is larger than the whole limit.
  const hopeless = needed > limit;
  const who = `${describeCounter(standing)} (spend rule ${rule})`;
  return new StageError('rate_limit_exceeded', explainRate(), {
    headers: hopeless ? { 'x-should-retry': 'false' } : { 'retry-after': String(patience) },
    details: {
      limit,
      unit,
      used: spent,
      held,
      in_flight,
      needed,
      window,
      scope,
      key,
      resets_at: isoTime(resets_at),
      rule,
      exceeded,
    },
  });

  function explainRate(): string {
    const at_once = window === 'open';
    const most = `The limit of ${describeAmount(limit, unit)} ${at_once ? 'at once' : 'per minute'} for ${who}`;
    if (limit === 0) return sentence(`${most} allows nothing`, advice, ': ask your administrator for a higher limit');
    if (at_once) {
      const [are, they] = held === 1 ? ['is', 'it has'] : ['are', 'one of them has'];
      const fact = `${most} has no room: ${requests(held)} ${are} under way`;
      return sentence(`${fact}; try again when ${they} finished`, advice);
    }
    if (hopeless) {
      const fact = `${most} is smaller than what this request may need, ${describeAmount(needed, unit)}`;
      return sentence(
        fact,
        advice,
        ': send less, ask for fewer output tokens, or your administrator for a higher limit',
      );
    }
    const which = unit === 'tokens' ? `, which may need ${describeAmount(needed, unit)}` : '';
    const fact = `${most} has no room for this request${which}: ${spent} used and ${held} held by requests in flight in this minute`;
    return sentence(`${fact}; try again in ${patience} ${patience === 1 ? 'second' : 'seconds'}`, advice);
  }
}
