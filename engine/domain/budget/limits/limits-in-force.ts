import type {
  Clock,
  CounterName,
  LimitChanges,
  LimitDemand,
  LimitStatus,
  LimitsInForce,
  ReservationRequest,
} from '../../../base/contract/services.ts';
import { createGroupCommit } from '../../../base/kit/group-commit.ts';
import type { Database } from '../../../base/store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import type { GrantInForce } from '../reports/spending.ts';
import { personalCounter } from './limit-names.ts';
import { counterId, grantedIn, RUN_TIME_RULE } from './room.ts';

/** Nothing was set or granted. */
export const NO_CHANGES: LimitChanges = { set: null, grants: [] };

/** Makes the service that knows what was set and granted at run time. */
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
      const rows = await database.query<Pick<LimitChanges, 'set'> & { readonly grants: readonly GrantInForce[] }>(
        'limits_now',
        `with moment as (select coalesce($5::timestamptz, now()) as at)
         select case when l.amount is not null
             then jsonb_build_object('amount', l.amount, 'at', ${milliseconds('l.set_at')}, 'by', l.set_by) end as "set",
           l.grants
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
      // Reasons are for administrators.
      return rows.map(({ set, grants }) => ({ set, grants: grants.map(({ reason: _, ...grant }) => grant) }));
    },
  });
  return { changes: (name) => lookups.run(name) };
}

/**
 * Limits that refuse a request, with who changed them at run time. Where that cannot be read the request is refused without: the
 * limit itself is known.
 */
export function withChanges(exceeded: readonly LimitStatus[], limits: LimitsInForce): Promise<readonly LimitStatus[]> {
  return Promise.all(
    exceeded.map(async (status) => {
      if (status.rule !== RUN_TIME_RULE && status.granted === undefined) return status;
      const changes = await limits.changes(status).catch(() => undefined);
      return changes === undefined ? status : { ...status, changes };
    }),
  );
}

function milliseconds(column: string): string {
  return `floor(extract(epoch from ${column}) * 1000)::bigint`;
}

// What one person is granted within a limit that several share: used once that has no more room, by nobody else.

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
    instead.set(counterId(limit), { ...own, limit: 0, rule: limit.rule });
  }
  const shared = request.demands.filter((demand) => !instead.has(counterId(demand)));
  return { ...request, demands: [...shared, ...instead.values()] };
}
