import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { createTestDatabase } from '../../support/database.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { IS_DEEP } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import {
  answerCrowd,
  assertBooks,
  CROWD_MODELS,
  Crowd,
  MOST_EXPENSIVE_NANO_USD,
  makeCallers,
  numbersSeen,
  peopleOf,
} from '../support/crowd.ts';
import { startFleet } from '../support/fleet.ts';
import { nothingReserved } from '../support/state.ts';
import { type ByScope, boundOf, type Watched, watchCounters } from './overshoots.ts';

const USD = 1_000_000_000;
const GATEWAYS = IS_DEEP ? 3 : 2;
const CALLERS = IS_DEEP ? 500 : 60;
const USERS = peopleOf(CALLERS, IS_DEEP ? 50 : 15);
const TEAM_USD = 1.2 * CALLERS;
const USER_USD = IS_DEEP ? 36 : 12;
/** Served and rejected ones. */
const REQUESTS = IS_DEEP ? 1800 : 300;

/** Fewer than there are callers, and than there is money for. */
const AT_ONCE = IS_DEEP ? 280 : 34;
let under_way = 0;
let most_at_once = 0;

const upstream = use(async () =>
  startUpstream(async (exchange) => {
    most_at_once = Math.max(most_at_once, ++under_way);
    // Until the maximum number has arrived, the first stay.
    await until('the limit of requests at once is reached', () => most_at_once >= AT_ONCE);
    await answerCrowd(exchange);
    under_way--;
  }),
);

/** All of it shares the cores of one machine, and no client may give up because of that. */
const LONGEST_SECONDS = 5;
const PATIENT = { store_timeout_seconds: LONGEST_SECONDS };

/** Lets callers send requests to gateways until the team's money is spent, and checks every state of the counters. */
async function spendAll(
  limits: object,
  watched: Watched,
): Promise<{ passed_by: ByScope; bound: ByScope; spent_nano_usd: number }> {
  const test_database = await createTestDatabase();
  upstream.requests.length = 0;
  most_at_once = 0;
  const defaults = { user_daily_usd: USER_USD, team_monthly_usd: TEAM_USD };
  const rules = [{ name: 'at-once', scope: 'team', concurrency: AT_ONCE }];
  const fleet = await startFleet({
    gateways: GATEWAYS,
    upstream_url: upstream.url,
    database_url: test_database.url,
    config: { ...CROWD_MODELS, spend_limits: { defaults, rules, ...PATIENT, ...limits } },
  });
  const { database } = fleet;
  try {
    const bound = await boundOf(fleet.config_file);
    const passedBy = await watchCounters(database, watched, { user: USER_USD * USD, team: TEAM_USD * USD });
    const callers = await makeCallers(database, USERS, 'pool');
    const crowd = new Crowd(fleet.urls);
    await crowd.run(callers, REQUESTS);
    await nothingReserved(database);
    const estimates = await assertBooks(database, crowd, numbersSeen(upstream.requests));
    assert.deepEqual([estimates, crowd.count('broken', 'unavailable', 'unreachable')], [0, 0], fleet.output());
    assert.ok(crowd.count('refused') > CALLERS, 'the limits in money were reached');
    assert.ok(crowd.count('too many') > 0, 'the limit of requests at once was reached');
    assert.equal(most_at_once, AT_ONCE);
    const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
    for (const found of [differences, repeated, uncounted, attempts, left])
      assert.deepEqual(found, { total: 0, first: [] });
    const [sum] = await database.knex('ledger').sum({ spent: 'cost_nano_usd' });
    return { passed_by: await passedBy(), bound, spent_nano_usd: Number(sum!.spent) };
  } finally {
    await fleet.close();
    await test_database.drop();
  }
}

describe(`${GATEWAYS} gateways on one database, ${CALLERS} callers at once, one limit for all of them and one for each user`, () => {
  test('worst_case: spent and reserved amounts never exceed a limit, at no moment', async () => {
    const { passed_by, bound, spent_nano_usd } = await spendAll({ reserve: 'worst_case' }, 'spent + reserved');
    assert.deepEqual(bound, { user: 0, team: 0 });
    assert.deepEqual(passed_by, { user: 0, team: 0 });
    assert.ok(spent_nano_usd <= TEAM_USD * USD);
    assert.ok(spent_nano_usd > 0.5 * TEAM_USD * USD, `only ${spent_nano_usd / USD} USD were spent`);
  });

  test('typical: spent and possible amounts never exceed a limit by more than check reports', async () => {
    const limits = { reserve: 'typical', overshoot_percent: 5 };
    const { passed_by, bound, spent_nano_usd } = await spendAll(limits, 'spent + most');
    const team = Math.max(MOST_EXPENSIVE_NANO_USD, 0.05 * TEAM_USD * USD);
    assert.deepEqual(bound, { user: MOST_EXPENSIVE_NANO_USD, team });
    assert.ok(passed_by.user <= bound.user && passed_by.team <= bound.team, JSON.stringify(passed_by));
    // A few callers may never need it.
    if (IS_DEEP) assert.ok(passed_by.team > 0, 'the headroom above the limit was used');
    assert.ok(spent_nano_usd <= TEAM_USD * USD + bound.team);
    assert.ok(spent_nano_usd > 0.5 * TEAM_USD * USD, `only ${spent_nano_usd / USD} USD were spent`);
  });
});
