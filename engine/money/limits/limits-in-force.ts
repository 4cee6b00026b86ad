import type {
  Clock,
  CounterName,
  LimitChanges,
  LimitDemand,
  LimitStatus,
  LimitsInForce,
  ReservationRequest,
} from '../../contract/services.ts';
import { createGroupCommit } from '../../kit/group-commit.ts';
import type { Database } from '../../store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
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
    execute(names) {
      return database.query<LimitChanges>(
        'limits_now',
        `with moment as (select coalesce($5::timestamptz, now()) as at)
         select case when s.amount is not null
             then jsonb_build_object('amount', s.amount, 'at', ${milliseconds('s.set_at')}, 'by', s.set_by) end as "set",
           coalesce((
             select jsonb_agg(jsonb_build_object('id', g.id, 'amount', g.amount, 'at', ${milliseconds('g.granted_at')},
               'by', g.granted_by, 'expires_at', ${milliseconds('g.expires_at')}) order by g.expires_at, g.id)
             from limit_grants g
             where g.scope = n.scope and g.key = n.key and g.window_kind = n.window_kind and g.unit = n.unit
               and g.revoked_at is null and g.granted_at <= at and at < g.expires_at), '[]') as grants
         from moment
         cross join unnest($1::text[], $2::text[], $3::text[], $4::text[])
           with ordinality as n (scope, key, window_kind, unit, position)
         left join limit_settings s
           on s.scope = n.scope and s.key = n.key and s.window_kind = n.window_kind and s.unit = n.unit
         order by n.position`,
        [
          names.map(({ scope }) => scope),
          names.map(({ key }) => key),
          names.map(({ window }) => window),
          names.map(({ unit }) => unit),
          databaseTime(clock),
        ],
      );
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
