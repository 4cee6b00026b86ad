import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../../engine/kit/clock.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
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

/** Who asks, and how much each of them, and all together, may spend. */
interface People {
  readonly users: readonly string[];
  readonly user_usd: number;
  readonly team_usd: number;
}
const MANY: People = { users: USERS, user_usd: USER_USD, team_usd: TEAM_USD };
/** Everybody asks in one name and has so much left that nearly all is placed in leases, until the limit is lowered. */
const ONE: People = { users: USERS.map(() => USERS[0]!), user_usd: 20_000, team_usd: 20_000 };

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
  beforeEach: () => Promise<void>,
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
    await beforeEach();
    crowd.repaired = mend(trouble);
    await crowd.repaired;
  }
  await beforeEach();
  const goal = crowd.done + LAST_REQUESTS;
  await until(`${goal} requests are done`, () => crowd.done >= goal, PATIENCE_MS);
}

/** Counters of every other kind, which no crash may leave behind wrong either. */
const RULES = [
  { name: 'at-once', scope: 'team', concurrency: 140 },
  { name: 'per-minute', scope: ['user', 'model'], requests_per_minute: 100_000, tokens_per_minute: 1_000_000_000_000 },
];

/** Asks a database that was stopped until it answers: a connection may be one from before. */
function whenBack<Answer>(ask: () => PromiseLike<Answer>): Promise<Answer> {
  return until('the database answers', async () => {
    try {
      return await ask();
    } catch {
      return undefined;
    }
  });
}

/** Has the database keep in mind which leases there were: most are gone when somebody looks. */
async function noteLeases({ knex }: Database): Promise<void> {
  await knex.raw(
    `create table leases_seen (counter_id bigint);
     create function note_lease() returns trigger language plpgsql as $$
     begin
       insert into leases_seen values (new.counter_id);
       return null;
     end $$;
     create trigger note_lease after insert on reservation_leases for each row execute function note_lease()`,
  );
}

/** Sets everybody's limit to what is spent of it. */
async function lowerLimit({ knex }: Database): Promise<void> {
  await knex.raw(
    `insert into limit_settings (scope, key, window_kind, unit, amount, set_at, set_by)
     select scope, key, window_kind, unit, spent, now(), 'test' from spend_counters
     where scope = 'user' and window_kind = 'day' and unit = 'nano_usd'
     on conflict do nothing`,
  );
}

/** Lets 200 callers ask three gateways while everything goes wrong, and returns what the counters passed. */
async function surviveTrouble(
  troubles: readonly Trouble[],
  limits: object,
  watched: Watched,
  { users, user_usd, team_usd }: People = MANY,
): Promise<{ passed_by: ByScope; bound: ByScope; leased: number }> {
  const postgres = await startMortalPostgres();
  upstream.requests.length = 0;
  const defaults = { user_daily_usd: user_usd, team_monthly_usd: team_usd };
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
    const passedBy = await watchCounters(database, watched, { user: user_usd * USD, team: team_usd * USD });
    const callers = await makeCallers(database, users, 'pool');
    const crowd = new Crowd(fleet.urls);
    await noteLeases(database);
    let times_left = troubles.length;
    const beforeEach = async () => {
      if (times_left-- === 0 && users === ONE.users) await whenBack(() => lowerLimit(database).then(() => true));
    };
    await crowd.run(callers, 0, cause(troubles, crowd, fleet, postgres, beforeEach));
    await nothingReserved(database);
    const estimates = await assertBooks(database, crowd, numbersSeen(upstream.requests));
    assert.ok(estimates > 0, 'requests were under way when gateways died');
    assert.ok(crowd.count('refused') > 0, 'a limit was reached');
    const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
    for (const found of [differences, repeated, uncounted, attempts, left])
      assert.deepEqual(found, { total: 0, first: [] });
    const [row] = await database.knex('leases_seen').count({ count: '*' });
    return { passed_by: await passedBy(), bound, leased: Number(row!.count) };
  } finally {
    await fleet?.close();
    await postgres.close();
  }
}

describe('three gateways, 200 callers at once; gateways are killed, the database is stopped and crashes', () => {
  test('worst_case: no limit is passed at any moment, and what was forwarded has exactly one row', async () => {
    const limits = { reserve: 'worst_case', lease: 'off' };
    const { passed_by, leased } = await surviveTrouble(ALL_TROUBLE, limits, 'spent + reserved');
    assert.deepEqual({ passed_by, leased }, { passed_by: { user: 0, team: 0 }, leased: 0 });
  });

  test('in leases: the same, and all that was leased is given back', async () => {
    const limits = { reserve: 'worst_case' };
    const { passed_by, leased } = await surviveTrouble(ALL_TROUBLE, limits, 'spent + reserved', ONE);
    assert.deepEqual(passed_by, { user: 0, team: 0 });
    assert.ok(leased > 0, 'reservations were placed in leases');
  });

  test('typical: no limit is passed by more than check says, and what was forwarded has exactly one row', async () => {
    const limits = { reserve: 'typical', overshoot_percent: 5 };
    const { passed_by, bound } = await surviveTrouble(SOME_TROUBLE, limits, 'spent + most');
    assert.ok(passed_by.user <= bound.user && passed_by.team <= bound.team, JSON.stringify({ passed_by, bound }));
  });
});
