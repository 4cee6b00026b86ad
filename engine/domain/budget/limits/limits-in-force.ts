import { StageError } from '../../../base/contract/errors.ts';
import type {
  Clock,
  CounterName,
  LimitChanges,
  LimitDemand,
  LimitStatus,
  LimitsInForce,
  MoveDecision,
  ReservationRequest,
  Services,
} from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { createGroupCommit } from '../../../base/kit/group-commit.ts';
import type { Database } from '../../../base/store/database.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import type { ChangesInForce } from '../reports/spending.ts';
import { counterId, grantedIn, RUN_TIME_RULE } from './headroom.ts';
import { personalCounter } from './limit-names.ts';
import { hopelessFirst, limitHeaders, refuseForLimits } from './refusals.ts';

/** No changes at run time. */
export const NO_CHANGES: LimitChanges = { set: null, grants: [] };

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
        `with moment as (select coalesce($5::timestamptz, now()) as at)
         select l.changes
         from moment
         cross join unnest($1::text[], $2::text[], $3::text[], $4::text[])
           with ordinality as n (scope, key, window_kind, unit, position)
         cross join lateral changed_limit(n.scope, n.key, n.window_kind, n.unit, at) as l
         order by n.position`,
        [
          names.map(({ scope }) => scope),
          names.map(({ key }) => key),
          names.map(({ window }) => window),
          names.map(({ unit }) => unit),
          databaseTime(clock),
        ],
      );
      return rows.map(({ changes: { set, grants } }) => ({
        set: set && withoutReason(set),
        grants: grants.map(withoutReason),
      }));
    },
  });
  return { changes: (name) => lookups.run(name) };
}

/** Only administrators may read reasons. */
function withoutReason<Change extends { readonly reason: string | null }>({ reason: _, ...change }: Change) {
  return change;
}

/**
 * The final reservation request, its decision, and the limits without headroom: limits that waiting cannot help come first.
 */
export interface RoomFound<Decision extends MoveDecision = MoveDecision> {
  readonly request: ReservationRequest;
  readonly decision: Decision;
  readonly exceeded: readonly LimitStatus[];
}

/** Creates the limit check: reserves, and builds the error of a rejected request. */
export function createLimitCheck(services: Pick<Services, 'config' | 'clock' | 'limits_in_force'>) {
  const { config, clock, limits_in_force } = services;
  const { status = 429, advice, time_zone = 'UTC' } = config.spend_limits ?? {};
  const headers = limitHeaders(config.server.profile.header_prefix);

  async function inStore<Decision>(ask: Promise<Decision>): Promise<Decision> {
    try {
      return await ask;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      const all_headers = { ...error.headers, ...headers.unreadable };
      const { status: code, details } = error;
      throw new StageError(error.code, error.message, { status: code, details, cause: error, headers: all_headers });
    }
  }

  return {
    /**
     * Reserves on the shared limits, else on the user's personal grants. Raises store_unavailable, with headers that say
     * that limits cannot be read, and the errors of `ask`.
     */
    async ask<Decision extends MoveDecision>(
      ctx: Pick<RequestContext, 'recordShadow'>,
      wanted: ReservationRequest,
      ask: (request: ReservationRequest) => Promise<Decision>,
    ): Promise<RoomFound<Decision>> {
      let request = wanted;
      let decision = await inStore(ask(request));
      const { exceeded } = decision;
      const own = exceeded.length > 0 ? await withPersonalGrant(request, exceeded, limits_in_force) : undefined;
      if (own !== undefined) {
        request = own;
        decision = await inStore(ask(own));
      }
      for (const { rule } of decision.shadows) ctx.recordShadow(`spend:${rule}`);
      return { request, decision, exceeded: hopelessFirst(decision.exceeded, request) };
    },

    /**
     * The error of a rejected request, with the run-time changes of its limits. If these cannot be read, the error omits
     * them.
     */
    async refusal(
      ctx: Pick<RequestContext, 'recordLimits'>,
      { request, decision, exceeded }: RoomFound,
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
    instead.set(counterId(limit), { ...own, limit: 0, rule: limit.rule });
  }
  const shared = request.demands.filter((demand) => !instead.has(counterId(demand)));
  return { ...request, demands: [...shared, ...instead.values()] };
}
