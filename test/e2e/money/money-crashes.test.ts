import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../../engine/kit/clock.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { answerCrowd, assertBooks, CROWD_MODELS, Crowd, makeCallers, numbersSeen } from '../support/crowd.ts';
import { type Fleet, type MortalPostgres, startFleet, startMortalPostgres } from '../support/fleet.ts';
import { nothingReserved } from '../support/state.ts';
import { type ByScope, boundOf, type Watched, watchCounters } from './overshoots.ts';

const USD = 1_000_000_000;
const CALLERS = 200;
const TEAM_USD = 600;
const USER_USD = 32;

/** One user has a fifth of the callers, and more to do than may be spent. */
const USERS = Array.from({ length: CALLERS }, (_, index) => `user-${index < CALLERS / 5 ? 0 : index % 50}@example.com`);

/** What goes wrong, one thing after every so many requests. */
type Trouble = { readonly after: number } & ({ readonly gateway: number } | { readonly database: 'cleanly' | 'crash' });
const ALL_TROUBLE: readonly Trouble[] = [
  { after: 120, gateway: 0 },
  { after: 120, database: 'cleanly' },
  { after: 120, gateway: 1 },
  { after: 120, database: 'crash' },
  { after: 120, gateway: 2 },
];
/** The same of each kind once, where only the amounts that are reserved differ. */
const SOME_TROUBLE = ALL_TROUBLE.slice(2, 4);
const LAST_REQUESTS = 150;
/** That many requests take seconds, and much longer on a machine that has other things to do. */
const PATIENCE_MS = 60_000;

let upstream: ScriptedUpstream;

before(async () => {
  upstream = await startUpstream(answerCrowd);
});
after(() => upstream?.close());

/** Causes all the trouble, each when the crowd has got so much further and has felt the one before. */
async function cause(
  troubles: readonly Trouble[],
  crowd: Crowd,
  fleet: Fleet,
  postgres: MortalPostgres,
): Promise<void> {
  const mend = async (trouble: Trouble) => {
    if ('gateway' in trouble) return fleet.kill(trouble.gateway);
    const failed = crowd.count('unavailable', 'broken');
    await postgres.stop(trouble.database);
    await until('the outage is felt', () => crowd.count('unavailable', 'broken') > failed);
    await postgres.start();
  };
  for (const trouble of troubles) {
    const goal = crowd.done + trouble.after;
    await until(`${goal} requests are done`, () => crowd.done >= goal, PATIENCE_MS);
    crowd.repaired = mend(trouble);
    await crowd.repaired;
  }
  const goal = crowd.done + LAST_REQUESTS;
  await until(`${goal} requests are done`, () => crowd.done >= goal, PATIENCE_MS);
}

/** Counters of every other kind, which no crash may leave behind wrong either. */
const RULES = [
  { name: 'at-once', scope: 'team', concurrency: 140 },
  { name: 'per-minute', scope: ['user', 'model'], requests_per_minute: 100_000, tokens_per_minute: 1_000_000_000_000 },
];

/** Lets 200 callers ask three gateways while everything goes wrong, and returns what the counters passed. */
async function surviveTrouble(
  troubles: readonly Trouble[],
  limits: object,
  watched: Watched,
): Promise<{ passed_by: ByScope; bound: ByScope }> {
  const postgres = await startMortalPostgres();
  upstream.requests.length = 0;
  const defaults = { user_daily_usd: USER_USD, team_monthly_usd: TEAM_USD };
  let fleet: Fleet | undefined;
  try {
    fleet = await startFleet({
      gateways: 3,
      upstream_url: upstream.url,
      database_url: postgres.url,
      config: { ...CROWD_MODELS, spend_limits: { defaults, rules: RULES, on_exceeded: 'deny', ...limits } },
    });
    const { database } = fleet;
    const bound = await boundOf(fleet.config_file);
    const passedBy = await watchCounters(database, watched, { user: USER_USD * USD, team: TEAM_USD * USD });
    const callers = await makeCallers(database, USERS, 'pool');
    const crowd = new Crowd(fleet.urls);
    await crowd.run(callers, 0, cause(troubles, crowd, fleet, postgres));
    await nothingReserved(database);
    const estimates = await assertBooks(database, crowd, numbersSeen(upstream.requests));
    assert.ok(estimates > 0, 'requests were under way when gateways died');
    assert.ok(crowd.count('refused') > 0, 'a limit was reached');
    const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
    for (const found of [differences, repeated, uncounted, attempts, left])
      assert.deepEqual(found, { total: 0, first: [] });
    return { passed_by: await passedBy(), bound };
  } finally {
    await fleet?.close();
    await postgres.close();
  }
}

describe('three gateways, 200 callers at once; gateways are killed, the database is stopped and crashes', () => {
  test('worst_case: no limit is passed at any moment, and what was forwarded has exactly one row', async () => {
    const { passed_by } = await surviveTrouble(ALL_TROUBLE, { reserve: 'worst_case' }, 'spent + reserved');
    assert.deepEqual(passed_by, { user: 0, team: 0 });
  });

  test('typical: no limit is passed by more than check says, and what was forwarded has exactly one row', async () => {
    const limits = { reserve: 'typical', overshoot_percent: 5 };
    const { passed_by, bound } = await surviveTrouble(SOME_TROUBLE, limits, 'spent + most');
    assert.ok(passed_by.user <= bound.user && passed_by.team <= bound.team, JSON.stringify({ passed_by, bound }));
  });
});
