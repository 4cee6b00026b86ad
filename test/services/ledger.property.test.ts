import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { ReservationRequest } from '../../engine/api.ts';
import { frozenClock } from '../../engine/services/clock.ts';
import type { Database } from '../../engine/services/database.ts';
import { type OpenLedger, openLedger } from '../../engine/services/ledger.ts';
import {
  openTestStore,
  quietLog,
  reservation,
  settlement,
  type TestStore,
  teamClaim,
  userClaim,
} from '../support/store.ts';

const USER_LIMIT = 500;
const TEAM_LIMIT = 800;
const HOUR_MS = 3_600_000;

let store: TestStore;
let databases: [Database, Database];

before(async () => {
  store = await openTestStore();
  databases = [store.database, await store.another()];
});
after(() => store.close());

const gateway = fc.constantFrom(0, 1);
const reserve = fc.record({
  do: fc.constant('reserve' as const),
  gateway,
  user: fc.constantFrom('ann', 'bob', 'cy'),
  amount: fc.integer({ min: 0, max: 300 }),
});
const end = fc.record({
  do: fc.constantFrom('settle' as const, 'settle' as const, 'release' as const),
  gateway,
  which: fc.nat(),
  share: fc.integer({ min: 0, max: 100 }),
});
const crash = fc.record({ do: fc.constant('crash' as const), gateway });
const wait = fc.record({ do: fc.constant('wait' as const), hours: fc.integer({ min: 1, max: 40 }) });
const step = fc.oneof(
  { arbitrary: reserve, weight: 8 },
  { arbitrary: end, weight: 6 },
  { arbitrary: crash, weight: 1 },
  { arbitrary: wait, weight: 1 },
);
/** Steps within a burst run at the same time. */
const bursts = fc.array(fc.array(step, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 5 });

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** Two gateways on one database, and what they should know. */
class Scene {
  readonly clock = frozenClock('2026-03-30T12:00:00Z');
  readonly run = crypto.randomUUID();
  readonly gateways: [OpenLedger, OpenLedger] = [this.#boot(0), this.#boot(1)];
  /** Requests in flight, by gateway. */
  readonly flying: [ReservationRequest[], ReservationRequest[]] = [[], []];
  /** Cost by request id of everything that must be in the ledger. */
  readonly costs = new Map<string, number>();

  #boot(which: number): OpenLedger {
    const database = databases[which]!;
    return openLedger({ database, clock: this.clock, log: quietLog, every: () => () => {} });
  }

  async take(each: Step): Promise<void> {
    if (each.do === 'wait') this.clock.advance(each.hours * HOUR_MS);
    else if (each.do === 'reserve') await this.#reserve(each.gateway, each.user, each.amount);
    else if (each.do === 'crash') await this.#crash(each.gateway);
    else await this.#end(each.do, each.gateway, each.which, each.share);
  }

  async #reserve(which: number, name: string, amount_nano_usd: number): Promise<void> {
    const [user, team] = [`${name} ${this.run}`, `team ${this.run}`];
    const claims = [userClaim(user, USER_LIMIT), teamClaim(team, TEAM_LIMIT)];
    const request = reservation({ user, team, amount_nano_usd, claims });
    const gateway = this.gateways[which]!;
    const refusal = await gateway.reserve(request);
    if (refusal !== undefined) {
      assert.ok(refusal.spent_nano_usd + refusal.held_nano_usd + amount_nano_usd > refusal.limit_nano_usd);
      return;
    }
    // It may have crashed meanwhile, and its successor knows nothing of the request.
    if (gateway === this.gateways[which]) this.flying[which]!.push(request);
    else this.costs.set(request.request_id, amount_nano_usd);
  }

  async #end(how: 'settle' | 'release', which: number, pick: number, share: number): Promise<void> {
    const mine = this.flying[which]!;
    const [request] = mine.splice(pick % Math.max(1, mine.length), 1);
    if (request === undefined) return;
    const gateway = this.gateways[which]!;
    if (how === 'release') return gateway.release(request.request_id);
    const cost_nano_usd = Math.floor((request.amount_nano_usd * share) / 100);
    this.costs.set(request.request_id, cost_nano_usd);
    await gateway.settle(settlement(request, { cost_nano_usd }));
  }

  async #crash(which: number): Promise<void> {
    for (const { request_id, amount_nano_usd } of this.flying[which]!.splice(0))
      this.costs.set(request_id, amount_nano_usd);
    this.gateways[which] = this.#boot(which);
  }

  /** Lets the dead be found: only the gateways that live now say so. */
  async recover(): Promise<void> {
    for (const living of this.gateways) await living.beat();
    this.clock.advance(31_000);
    for (const living of this.gateways) await living.beat();
    await Promise.all(this.gateways.map((living) => living.recover()));
  }

  async settleAll(): Promise<void> {
    for (const which of [0, 1]) {
      while (this.flying[which]!.length > 0) await this.#end('settle', which, 0, 50);
    }
  }

  async assertLimitsHold(): Promise<void> {
    const over = await databases[0].query(
      'test_over',
      `select * from spend_counters where key like $1 and (held_nano_usd < 0 or spent_nano_usd + held_nano_usd >
         case scope when 'user' then $2::bigint else $3::bigint end)`,
      [`%${this.run}`, USER_LIMIT, TEAM_LIMIT],
    );
    assert.deepEqual(over, []);
  }

  async assertBooksBalance(): Promise<void> {
    const rows = await databases[0].query<{ request_id: string; cost: number }>(
      'test_costs',
      'select request_id, cost_nano_usd as cost from ledger where user_email like $1',
      [`%${this.run}`],
    );
    assert.equal(rows.length, this.costs.size);
    assert.deepEqual(new Map(rows.map(({ request_id, cost }) => [request_id, cost])), this.costs);
    const wrong = await databases[0].query(
      'test_wrong',
      `select * from spend_counters c where key like $1 and (held_nano_usd <> 0 or spent_nano_usd <>
         (select coalesce(sum(cost_nano_usd), 0) from ledger l where c.id = any (l.counter_ids)))`,
      [`%${this.run}`],
    );
    assert.deepEqual(wrong, []);
  }
}

describe('two gateways that share a ledger', () => {
  it('never exceed a limit and lose or invent no nano-USD, whatever happens in whatever order', async () => {
    await fc.assert(
      fc.asyncProperty(bursts, async (all) => {
        const scene = new Scene();
        for (const burst of all) {
          await Promise.all(burst.map((each) => scene.take(each)));
          await scene.assertLimitsHold();
        }
        await scene.recover();
        await scene.assertLimitsHold();
        await scene.settleAll();
        await scene.assertBooksBalance();
      }),
      { numRuns: 40 },
    );
  });
});
