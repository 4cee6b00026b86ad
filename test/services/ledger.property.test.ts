import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { LimitClaim, LimitStanding, ReservationRequest, SpendScope } from '../../engine/api.ts';
import { frozenClock } from '../../engine/services/clock.ts';
import type { Database } from '../../engine/services/database.ts';
import { type OpenLedger, openLedger } from '../../engine/services/ledger.ts';
import { verifyLedger } from '../../engine/services/verify-ledger.ts';
import { openTestStore, quietLog, reservation, settlement, type TestStore } from '../support/store.ts';

/** The smallest limit of each scope, in nano-USD; each request also comes under a larger one, and one in shadow mode. */
const LIMITS = { user: 500, team: 800, project: 900, model: 700, upstream: 1000 } as const;
const SHADOW_LIMIT = 400;
const WINDOWS = { user: 'day', team: 'month', project: 'day', model: 'month', upstream: 'day' } as const;
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
  model: fc.constantFrom('coder-1', 'coder-2'),
  project: fc.constantFrom('apollo', null),
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
type Reserve = typeof reserve extends fc.Arbitrary<infer S> ? S : never;

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
    else if (each.do === 'reserve') await this.#reserve(each);
    else if (each.do === 'crash') await this.#crash(each.gateway);
    else await this.#end(each.do, each.gateway, each.which, each.share);
  }

  /** Two limits in force and one in shadow mode on each counter, in an order that depends on the amount. */
  #claims(keys: Readonly<Record<SpendScope, string | null>>, amount: number): LimitClaim[] {
    const claims = (Object.keys(LIMITS) as SpendScope[]).flatMap((scope) => {
      const key = keys[scope];
      if (key === null) return [];
      const claim = { scope, key: `${key} ${this.run}`, window: WINDOWS[scope] };
      return [
        { ...claim, limit_nano_usd: LIMITS[scope] + 100, rule: 'larger' },
        { ...claim, limit_nano_usd: LIMITS[scope], rule: 'smaller' },
        { ...claim, limit_nano_usd: SHADOW_LIMIT, rule: 'trial', shadow: true },
      ];
    });
    return amount % 2 === 0 ? claims : claims.toReversed();
  }

  async #reserve(wish: Reserve): Promise<void> {
    const { gateway: which, user, model, project, amount: amount_nano_usd } = wish;
    const keys = { user, team: 'team', project, model, upstream: 'main' };
    const claims = this.#claims(keys, amount_nano_usd);
    const request = reservation({ user: `${user} ${this.run}`, team: 'team', project, model, amount_nano_usd, claims });
    const gateway = this.gateways[which]!;
    const isExceeded = ({ spent_nano_usd, held_nano_usd, limit_nano_usd }: LimitStanding) =>
      spent_nano_usd + held_nano_usd + amount_nano_usd > limit_nano_usd;
    const refusal = await gateway.reserve(request, (standing) => {
      assert.ok(standing.rule === 'trial' && isExceeded(standing));
    });
    if (refusal !== undefined) {
      assert.ok(refusal.rule === 'smaller' && isExceeded(refusal));
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
      `select * from spend_counters where key like $1 and
         (held_nano_usd < 0 or spent_nano_usd + held_nano_usd > ($2::jsonb ->> scope)::bigint)`,
      [`%${this.run}`, JSON.stringify(LIMITS)],
    );
    assert.deepEqual(over, []);
  }

  /** At any moment, whatever is under way: nobody ever sees half of a move. */
  async assertLedgerAddsUp(): Promise<void> {
    const { differences, repeated, uncounted } = await verifyLedger({ database: databases[0], clock: this.clock });
    for (const found of [differences, repeated, uncounted]) assert.deepEqual(found, { total: 0, first: [] });
  }

  async assertBooksBalance(): Promise<void> {
    const { left, held_nano_usd } = await verifyLedger({ database: databases[0], clock: this.clock });
    assert.deepEqual({ left, held_nano_usd }, { left: { total: 0, first: [] }, held_nano_usd: 0n });
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
          await Promise.all([...burst.map((each) => scene.take(each)), scene.assertLedgerAddsUp()]);
          await scene.assertLimitsHold();
        }
        await scene.recover();
        await scene.assertLimitsHold();
        await scene.settleAll();
        await scene.assertLedgerAddsUp();
        await scene.assertBooksBalance();
      }),
      { numRuns: 40 },
    );
  });
});
