import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { IS_DEEP } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { closing, use } from '../../support/use.ts';
import {
  answerCrowd,
  assertBooks,
  CROWD_MODELS,
  Crowd,
  holdAnswers,
  makeCallers,
  numbersSeen,
  peopleOf,
} from '../support/crowd.ts';
import { type Fleet, startFleet, startMortalPostgres } from '../support/fleet.ts';
import { nothingReserved } from '../support/state.ts';
import { type ByScope, boundOf, type Watched, watchCounters } from './overshoots.ts';

const USD = 1_000_000_000;
const GATEWAYS = IS_DEEP ? 3 : 2;
const CALLERS = IS_DEEP ? 200 : 40;
const USERS = peopleOf(CALLERS, CALLERS / 4);

/** The callers, how much each of them, and all together, may spend, and how many requests may be in flight. */
interface People {
  readonly users: readonly string[];
  readonly user_usd: number;
  readonly team_usd: number;
  readonly in_flight: number;
}
const MANY: People = { users: USERS, user_usd: IS_DEEP ? 32 : 10, team_usd: 3 * CALLERS, in_flight: 140 };
/** One caller with so much headroom on each limit that leases are taken, until the limit is lowered. */
const ONE: People = {
  users: USERS.map(() => USERS[0]!),
  user_usd: 20_000,
  team_usd: 20_000,
  in_flight: 100_000,
};

/** The faults: a gateway is killed, or the database stops, one after the other. */
type Crash = { readonly gateway: number } | { readonly database: 'cleanly' | 'crash' };
const ALL_CRASHES: readonly Crash[] = [
  { gateway: 0 },
  { database: 'cleanly' },
  { gateway: 1 },
  { database: 'crash' },
  { gateway: 2 },
];
/** How many requests are done between them. */
const REQUESTS_BETWEEN = IS_DEEP ? 120 : 25;

/** So many requests need seconds, and much longer on a busy machine. */
const TIMEOUT_MS = 60_000;

const upstream = use(() => startUpstream(answerCrowd));
const postgres = use(startMortalPostgres);

/** Triggers every fault, each when the callers have advanced and have felt the one before. */
async function crashAll(
  crashes: readonly Crash[],
  crowd: Crowd,
  fleet: Fleet,
  beforeEach: () => Promise<unknown>,
  beforeLast: () => Promise<unknown>,
): Promise<void> {
  const getFurther = async () => {
    const goal = crowd.done + REQUESTS_BETWEEN;
    await until(`${goal} requests are done`, () => crowd.done >= goal, TIMEOUT_MS);
  };
  const crash = async (now: Crash) => {
    if ('gateway' in now) {
      const release = holdAnswers();
      try {
        await until('a request of it is at the upstream', () => {
          const seen = new Set(numbersSeen(upstream.requests));
          return crowd.openAt(fleet.urls[now.gateway]!).some((number) => seen.has(number));
        });
        return await fleet.kill(now.gateway);
      } finally {
        release();
      }
    }
    const failed = crowd.count('unavailable', 'broken');
    await postgres.stop(now.database);
    await until('the outage is felt', () => crowd.count('unavailable', 'broken') > failed);
    await postgres.start();
  };
  for (const each of crashes) {
    await getFurther();
    await beforeEach();
    crowd.repaired = crash(each);
    await crowd.repaired;
  }
  await beforeLast();
  await getFurther();
}

/** Counters of every other kind, which no crash may leave behind wrong either. */
const rulesFor = ({ in_flight }: People) => [
  { name: 'at-once', scope: 'team', concurrency: in_flight },
  { name: 'per-minute', scope: ['user', 'model'], requests_per_minute: 100_000, tokens_per_minute: 1_000_000_000_000 },
];

/** Queries a stopped database until it responds: a connection may be an old one. */
function whenBack<Answer>(ask: () => PromiseLike<Answer>): Promise<Answer> {
  return until('the database answers', async () => {
    try {
      return await ask();
    } catch {
      return undefined;
    }
  });
}

/** Lets the database count the reservations that are placed in leases: their rows are gone when the test looks. */
async function countPlaced({ knex }: Database): Promise<void> {
  await knex.raw(
    `create table placed (request_id text);
     create function note_placed() returns trigger language plpgsql as $$
     begin
       if current_query() like 'call place_rows%' then insert into placed values (new.request_id); end if;
       return null;
     end $$;
     create trigger note_placed after insert on reservations for each row execute function note_placed()`,
  );
}

/** How many reservations have been placed in leases. */
async function placedIn({ knex }: Database): Promise<number> {
  const [row] = await knex('placed').count({ count: '*' });
  return Number(row!.count);
}

/** Sets every caller's limit to what is spent of it. */
async function lowerLimit({ knex }: Database): Promise<void> {
  await knex.raw(
    `insert into limit_settings (scope, key, window_kind, unit, amount, set_at, set_by)
     select scope, key, window_kind, unit, spent, now(), 'test' from spend_counters
     where scope = 'user' and window_kind = 'day' and unit = 'nano_usd'
     on conflict do nothing`,
  );
}

/** Lets callers send requests to gateways during every fault, and returns how far the counters exceeded. */
async function surviveCrashes(
  crashes: readonly Crash[],
  limits: object,
  watched: Watched,
  people: People = MANY,
): Promise<{ passed_by: ByScope; bound: ByScope; placed: number }> {
  upstream.requests.length = 0;
  const { users, user_usd, team_usd } = people;
  const defaults = { user_daily_usd: user_usd, team_monthly_usd: team_usd };
  await using fleet = closing(
    await startFleet({
      gateways: GATEWAYS,
      upstream_url: upstream.url,
      database_url: await postgres.createDatabase(),
      config: { ...CROWD_MODELS, spend_limits: { defaults, rules: rulesFor(people), on_exceeded: 'deny', ...limits } },
    }),
  );
  const { database } = fleet;
  const bound = await boundOf(fleet.config_file);
  const passedBy = await watchCounters(database, watched, { user: user_usd * USD, team: team_usd * USD });
  const callers = await makeCallers(database, users, 'pool');
  const crowd = new Crowd(fleet.urls);
  await countPlaced(database);
  const beforeEach = async () => {
    if (people !== ONE) return;
    const count = () => whenBack(() => placedIn(database));
    const earlier = await count();
    await until('a reservation is placed in a lease', async () => (await count()) > earlier, TIMEOUT_MS);
  };
  const beforeLast = async () => people === ONE && whenBack(() => lowerLimit(database).then(() => true));
  await crowd.run(callers, 0, crashAll(crashes, crowd, fleet, beforeEach, beforeLast));
  await nothingReserved(database);
  const estimates = await assertBooks(database, crowd, numbersSeen(upstream.requests));
  assert.ok(estimates > 0, 'requests were under way when gateways died');
  assert.ok(crowd.count('refused') > 0, 'a limit was reached');
  const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
  for (const found of [differences, repeated, uncounted, attempts, left])
    assert.deepEqual(found, { total: 0, first: [] });
  return { passed_by: await passedBy(), bound, placed: await placedIn(database) };
}

describe(`${GATEWAYS} gateways, ${CALLERS} callers at once; gateways are killed, the database is stopped and crashes`, () => {
  test('worst_case: no limit is exceeded at any moment, and each forwarded request has exactly one row', async () => {
    const limits = { reserve: 'worst_case', lease: 'off' };
    const crashes = IS_DEEP ? ALL_CRASHES : ALL_CRASHES.slice(0, 2);
    const { passed_by, placed } = await surviveCrashes(crashes, limits, 'spent + reserved');
    assert.deepEqual({ passed_by, placed }, { passed_by: { user: 0, team: 0 }, placed: 0 });
  });

  test('in leases: the same, and all leases are returned', async () => {
    const limits = { reserve: 'worst_case' };
    const crashes = IS_DEEP ? ALL_CRASHES : ALL_CRASHES.slice(2, 4);
    const { passed_by, placed } = await surviveCrashes(crashes, limits, 'spent + reserved', ONE);
    assert.deepEqual(passed_by, { user: 0, team: 0 });
    assert.ok(placed > 0);
  });

  test('typical: no limit is exceeded by more than check reports; each forwarded request has one row', async () => {
    const limits = { reserve: 'typical', overshoot_percent: 5 };
    const crashes = IS_DEEP ? ALL_CRASHES : ALL_CRASHES.slice(0, 1);
    const { passed_by, bound } = await surviveCrashes(crashes, limits, 'spent + most');
    assert.ok(passed_by.user <= bound.user && passed_by.team <= bound.team, JSON.stringify({ passed_by, bound }));
  });
});
