/** What one person is granted within a limit that several share: used once that has no more room, by nobody else. */
import type { LimitDemand, LimitStatus, LimitsInForce, ReservationRequest } from '../../contract/services.ts';
import { personalCounter } from './limit-names.ts';
import { grantedIn } from './limits-in-force.ts';

/** What was asked of the ledger in the end, and what it said. */
export interface Asked<Decision> {
  readonly request: ReservationRequest;
  readonly decision: Decision;
}

/** Asks for room within what is shared, else within what the person is granted beside it. Raises what asking raises. */
export async function askWithin<Decision extends { readonly exceeded: readonly LimitStatus[] }>(
  request: ReservationRequest,
  ask: (request: ReservationRequest) => Promise<Decision>,
  limits: LimitsInForce,
): Promise<Asked<Decision>> {
  const decision = await ask(request);
  if (decision.exceeded.length === 0) return { request, decision };
  const own = await withPersonalRoom(request, decision.exceeded, limits);
  return own === undefined ? { request, decision } : { request: own, decision: await ask(own) };
}

/**
 * The request again, with what its person is granted in the place of limits that have no room; `undefined` where there is one
 * within which nothing is granted to them. It then counts on that alone: what is shared stays used up as it is.
 */
async function withPersonalRoom(
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
    instead.set(nameOf(limit), { ...own, limit: 0, rule: limit.rule });
  }
  const shared = request.demands.filter((demand) => !instead.has(nameOf(demand)));
  return { ...request, demands: [...shared, ...instead.values()] };
}

const nameOf = ({ scope, key, window, unit }: Pick<LimitDemand, 'scope' | 'key' | 'window' | 'unit'>): string =>
  JSON.stringify([scope, key, window, unit]);
