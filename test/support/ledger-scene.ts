/** Two gateways on one ledger to which things happen, and what must be true of the ledger all the while. */
import assert from 'node:assert/strict';
import type { LimitDemand, LimitStatus, ReservationDecision, ReservationRequest } from '../../engine/api.ts';
import { frozenClock } from '../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../engine/money/ledger/ledger.ts';
import { lackOf, overshootOf } from '../../engine/money/limits/room.ts';
import { verifyLedger } from '../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../engine/store/database.ts';
import { quietLog, reservation, settlement } from './store.ts';

const MINUTE_MS = 60_000;
const OVERSHOOT_PERCENT = 25;
const SHADOW_LIMIT = 180;
/** Time passes while reservations are on their way, and none of them is late. */
const reserve_timeout_ms = () => Number.MAX_SAFE_INTEGER;
/** The most any request costs, in nano-USD. */
export const MOST_EXPENSIVE = 150;

/** The smallest limit of each counter; in money each request also comes under a larger one, and some under one in shadow mode. */
const LIMITS: readonly Pick<LimitDemand, 'scope' | 'window' | 'unit' | 'limit'>[] = [
  { scope: 'user', window: 'day', unit: 'nano_usd', limit: 250 },
  { scope: 'team', window: 'month', unit: 'nano_usd', limit: 400 },
  { scope: 'project', window: 'week', unit: 'nano_usd', limit: 450 },
  { scope: 'model', window: 'month', unit: 'nano_usd', limit: 350 },
  { scope: 'user+model', window: 'week', unit: 'nano_usd', limit: 300 },
  { scope: 'team', window: 'open', unit: 'requests', limit: 14 },
  { scope: 'user', window: 'minute', unit: 'requests', limit: 8 },
  { scope: 'model', window: 'minute', unit: 'tokens', limit: 1500 },
];
type LimitName = Pick<LimitDemand, 'scope' | 'window' | 'unit'>;
const nameOf = ({ scope, window, unit }: LimitName) => `${scope} ${window} ${unit}`;

interface ReserveStep {
  readonly do: 'reserve';
  readonly gateway: 0 | 1;
  readonly user: string;
  readonly model: string;
  readonly project: string | null;
  readonly most: number;
  readonly share: number;
  readonly tokens: number;
  readonly typical: boolean;
}
interface FlyingStep {
  readonly do: 'settle' | 'release' | 'topUp';
  readonly gateway: 0 | 1;
  readonly which: number;
  readonly share: number;
}
interface LimitStep {
  readonly do: 'set' | 'unset' | 'grant' | 'revoke';
  readonly counter: number;
  readonly amount: number;
  readonly hours: number;
}

/** Something that happens. */
export type SceneStep =
  | ReserveStep
  | FlyingStep
  | LimitStep
  | { readonly do: 'crash'; readonly gateway: 0 | 1 }
  | { readonly do: 'wait'; readonly minutes: number };

/** See the module. */
export class LedgerScene {
  /** Whether reservations hold the most they can cost, some of them less, or limits change meanwhile. */
  readonly mode: 'worst_case' | 'mixed' | 'changing';
  readonly clock = frozenClock('2026-03-29T12:00:00Z');
  readonly #run = crypto.randomUUID();
  readonly #databases: readonly [Database, Database];
  readonly #gateways: [DatabaseLedger, DatabaseLedger];
  /** Requests in flight, by gateway. */
  readonly #flying: [ReservationRequest[], ReservationRequest[]] = [[], []];
  /** Requests of gateways that crashed, with the gateway. */
  readonly #lost: { readonly gateway: DatabaseLedger; readonly request: ReservationRequest }[] = [];
  /** The least and the most that each request in the ledger may have cost. */
  readonly #costs = new Map<string, readonly [least: number, most: number]>();

  constructor(databases: readonly [Database, Database], mode: LedgerScene['mode']) {
    this.#databases = databases;
    this.mode = mode;
    this.#gateways = [this.#boot(0), this.#boot(1)];
  }

  async take(step: SceneStep): Promise<void> {
    if (step.do === 'wait') this.clock.advance(step.minutes * MINUTE_MS);
    else if (step.do === 'reserve') await this.#reserve(step);
    else if (step.do === 'crash') this.#crash(step.gateway);
    else if (step.do === 'topUp') this.#topUp(step);
    else if ('counter' in step) await this.#change(step);
    else await this.#end(step);
  }

  /** Lets the dead be found: only the gateways that live now say so. */
  async recover(): Promise<void> {
    for (const living of this.#gateways) await living.beat();
    this.clock.advance(31_000);
    for (const living of this.#gateways) await living.beat();
    await Promise.all(this.#gateways.map((living) => living.recover()));
  }

  /** Every second request of those that crashed is heard of after all, twice and from gateways that know nothing of each other. */
  async comeBack(): Promise<void> {
    const heard_of = this.#lost.filter((_, i) => i % 2 === 0);
    const settled = heard_of.flatMap(({ gateway, request }) => {
      const cost_nano_usd = Math.floor(request.most_nano_usd / 3);
      this.#costs.set(request.request_id, [cost_nano_usd, cost_nano_usd]);
      return [gateway, this.#gateways[0]].map((each) => each.settle(settlement(request, { cost_nano_usd })));
    });
    await Promise.all(settled);
  }

  async settleAll(): Promise<void> {
    for (const gateway of [0, 1] as const) {
      while (this.#flying[gateway].length > 0) await this.#end({ do: 'settle', gateway, which: 0, share: 50 });
    }
  }

  /** No counter is beyond its limit, with all that is in flight; limits that change are asked of each reservation. */
  async assertLimitsHold(): Promise<void> {
    const bounds = LIMITS.map((limit) => {
      const bound = this.mode === 'changing' ? Number.MAX_SAFE_INTEGER : this.#boundOf(limit.unit, limit.limit!);
      return [nameOf(limit), bound];
    });
    const over = await this.#databases[0].query(
      'test_over',
      `select * from spend_counters where key like $1 and
         (reserved < 0 or in_flight < 0 or most < reserved
          or spent + most > ($2::jsonb ->> (scope || ' ' || window_kind || ' ' || unit))::bigint)`,
      [`%${this.#run}%`, JSON.stringify(Object.fromEntries(bounds))],
    );
    assert.deepEqual(over, []);
  }

  /** At any moment, whatever is under way: nobody ever sees half of a move. */
  async assertLedgerAddsUp(): Promise<void> {
    const { differences, repeated, uncounted } = await verifyLedger({
      database: this.#databases[0],
      clock: this.clock,
    });
    for (const found of [differences, repeated, uncounted]) assert.deepEqual(found, { total: 0, first: [] });
  }

  /** Nothing is in flight any more, and every request is in the ledger once, at what it cost. */
  async assertBooksBalance(): Promise<void> {
    await this.assertLedgerAddsUp();
    const rows = await this.#databases[0].query<{ request_id: string; cost: number }>(
      'test_costs',
      'select request_id, sum(cost_nano_usd)::bigint as cost from ledger where user_email like $1 group by 1',
      [`%${this.#run}`],
    );
    assert.deepEqual(new Set(rows.map(({ request_id }) => request_id)), new Set(this.#costs.keys()));
    assert.equal(rows.length, this.#costs.size);
    for (const { request_id, cost } of rows) {
      const [least, most] = this.#costs.get(request_id)!;
      assert.ok(cost >= least && cost <= most, `${request_id} cost ${cost}, not ${least} to ${most}`);
    }
    const left = await this.#databases[0].query(
      'test_left',
      'select * from spend_counters where key like $1 and (reserved <> 0 or most <> 0 or in_flight <> 0)',
      [`%${this.#run}%`],
    );
    assert.deepEqual(left, []);
  }

  #boot(which: number): DatabaseLedger {
    const database = this.#databases[which]!;
    return new DatabaseLedger({
      database,
      clock: this.clock,
      log: quietLog,
      every: () => () => {},
      reserve_timeout_ms,
    });
  }

  #boundOf(unit: string, limit: number): number {
    if (this.mode !== 'mixed' || unit !== 'nano_usd') return limit;
    return limit + Math.max(overshootOf(limit, OVERSHOOT_PERCENT), MOST_EXPENSIVE);
  }

  #keyOf(scope: string, { user, model, project }: { user: string; model: string; project: string | null }) {
    if (scope === 'user+model') return JSON.stringify([`${user} ${this.#run}`, model]);
    const keys: Record<string, string | null> = { user, model, project, team: 'team' };
    return keys[scope] === null ? undefined : `${keys[scope]} ${this.#run}`;
  }

  #demands(step: ReserveStep): LimitDemand[] {
    const demands = LIMITS.flatMap((limit): LimitDemand[] => {
      const key = this.#keyOf(limit.scope, step);
      if (key === undefined) return [];
      const smaller = { ...limit, key, rule: 'smaller' };
      if (limit.unit !== 'nano_usd') return [smaller];
      const larger = { ...smaller, limit: limit.limit! + 100, rule: 'larger' };
      // Where there is one, requests are soon decided one by one.
      if (step.tokens % 4 > 0) return [larger, smaller];
      return [larger, smaller, { ...smaller, limit: SHADOW_LIMIT, rule: 'trial', shadow: true }];
    });
    // The order says nothing.
    return step.most % 2 === 0 ? demands : demands.toReversed();
  }

  async #reserve(step: ReserveStep): Promise<void> {
    const { gateway: which, user, model, project, most, share, tokens } = step;
    const is_typical = this.mode === 'mixed' && step.typical;
    const request = reservation({
      ...{ user: `${user} ${this.#run}`, team: 'team', project, model, tokens },
      amount_nano_usd: is_typical ? Math.floor((most * share) / 100) : most,
      most_nano_usd: most,
      ...(is_typical && { overshoot_percent: OVERSHOOT_PERCENT }),
      demands: this.#demands(step),
    });
    const gateway = this.#gateways[which];
    const answer = await gateway.reserve(request);
    this.#assertSensible(request, answer);
    if (answer.exceeded.length > 0) return;
    // It may have crashed meanwhile, and its successor knows nothing of the request.
    if (gateway === this.#gateways[which]) this.#flying[which].push(request);
    else this.#costs.set(request.request_id, [request.amount_nano_usd, most]);
  }

  /** What was without room is without room by what is told of it, and what was let in is within what is told of it. */
  #assertSensible(request: ReservationRequest, { exceeded, shadows, statuses }: ReservationDecision): void {
    const isLacking = (limit: LimitStatus) => lackOf(limit, request) !== undefined;
    assert.ok(exceeded.every(isLacking) && shadows.every(isLacking));
    assert.ok(shadows.every(({ rule, limit }) => rule === 'trial' && limit === SHADOW_LIMIT));
    assert.ok(exceeded.every(({ rule }) => rule !== 'trial'));
    assert.equal(statuses.length > 0, exceeded.length === 0);
    for (const { unit, limit, spent, most, in_flight, reserved } of statuses) {
      assert.ok(in_flight > 0 && reserved <= most);
      assert.ok(spent + most <= this.#boundOf(unit, limit), `${spent} and ${most} at ${limit}`);
    }
  }

  #pick(gateway: 0 | 1, which: number): number {
    return which % Math.max(1, this.#flying[gateway].length);
  }

  async #end({ do: how, gateway: which, which: pick, share }: FlyingStep): Promise<void> {
    const [request] = this.#flying[which].splice(this.#pick(which, pick), 1);
    if (request === undefined) return;
    const gateway = this.#gateways[which];
    if (how === 'release') return gateway.release(request.request_id);
    const part = (whole: number) => Math.floor((whole * share) / 100);
    const cost_nano_usd = part(request.most_nano_usd);
    this.#costs.set(request.request_id, [cost_nano_usd, cost_nano_usd]);
    const none = { output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
    await gateway.settle(settlement(request, { cost_nano_usd, tokens: { ...none, input: part(request.tokens) } }));
  }

  #topUp({ gateway, which, share }: FlyingStep): void {
    const request = this.#flying[gateway][this.#pick(gateway, which)];
    if (request === undefined) return;
    this.#gateways[gateway].topUp(request.request_id, Math.floor((request.most_nano_usd * share) / 100));
  }

  #crash(which: 0 | 1): void {
    const gateway = this.#gateways[which];
    for (const request of this.#flying[which].splice(0)) {
      this.#costs.set(request.request_id, [request.amount_nano_usd, request.most_nano_usd]);
      this.#lost.push({ gateway, request });
    }
    this.#gateways[which] = this.#boot(which);
  }

  async #change({ do: how, counter, amount, hours }: LimitStep): Promise<void> {
    const { scope, window: window_kind, unit } = LIMITS[counter % LIMITS.length]!;
    const key = this.#keyOf(scope, { user: 'ann', model: 'coder-1', project: 'apollo' })!;
    const name = { scope, key, window_kind, unit };
    const { knex } = this.#databases[0];
    const now = new Date(this.clock.now());
    if (how === 'set') {
      const row = { ...name, amount, set_at: now, set_by: 'test' };
      await knex('limit_settings').insert(row).onConflict(['scope', 'key', 'window_kind', 'unit']).merge();
    } else if (how === 'unset') {
      await knex('limit_settings').where(name).delete();
    } else if (how === 'grant') {
      const expires_at = new Date(this.clock.now() + hours * 60 * MINUTE_MS);
      const times = { granted_at: now, granted_by: 'test', expires_at };
      await knex('limit_grants').insert({ ...name, id: crypto.randomUUID(), amount, ...times });
    } else {
      await knex('limit_grants').where(name).update({ revoked_at: now });
    }
  }
}
