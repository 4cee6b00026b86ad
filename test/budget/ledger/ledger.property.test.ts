import assert from 'node:assert/strict';
import { afterEach, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { LimitDemand, LimitStatus, ReservationDecision, ReservationRequest } from '../../../engine/api.ts';
import type { ChargedAttempt, MoveDecision, Settlement } from '../../../engine/base/contract/services.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { LeasePolicy } from '../../../engine/domain/budget/leases/leases.ts';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { lackOf, overshootOf } from '../../../engine/domain/budget/limits/headroom.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { quietLog, reservation, settlement, useTestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

const MINUTE_MS = 60_000;
const OVERSHOOT_PERCENT = 25;
const SHADOW_LIMIT = 180;
/** Time passes while reservations are on their way, and none of them is late. */
const reserve_timeout_ms = () => Number.MAX_SAFE_INTEGER;
/** The most any request costs, in nano-USD. */
const MOST_EXPENSIVE = 150;

/** The smallest limit of each counter; in money each request also falls under a larger one, and some under one in shadow mode. */
const LIMITS: readonly Pick<LimitDemand, 'scope' | 'window' | 'unit' | 'limit'>[] = [
  { scope: 'user', window: 'day', unit: 'nano_usd', limit: 250 },
  { scope: 'team', window: 'month', unit: 'nano_usd', limit: 400 },
  { scope: 'project', window: 'week', unit: 'nano_usd', limit: 450 },
  { scope: 'model', window: 'month', unit: 'nano_usd', limit: 350 },
  { scope: 'user+model', window: 'week', unit: 'nano_usd', limit: 300 },
  { scope: 'upstream', window: 'day', unit: 'nano_usd', limit: 260 },
  { scope: 'upstream', window: 'minute', unit: 'requests', limit: 6 },
  { scope: 'team', window: 'open', unit: 'requests', limit: 14 },
  { scope: 'user', window: 'minute', unit: 'requests', limit: 8 },
  { scope: 'model', window: 'minute', unit: 'tokens', limit: 1500 },
];
/** Where reservations are placed in leases: fewer counters, since all of a request have to be leased, with room for many. */
const LEASED_LIMITS: typeof LIMITS = [
  { scope: 'user', window: 'day', unit: 'nano_usd', limit: 300 },
  { scope: 'team', window: 'month', unit: 'nano_usd', limit: 500 },
  { scope: 'upstream', window: 'day', unit: 'nano_usd', limit: 450 },
  { scope: 'upstream', window: 'minute', unit: 'requests', limit: 60 },
  { scope: 'team', window: 'open', unit: 'requests', limit: 40 },
  { scope: 'user', window: 'minute', unit: 'tokens', limit: 900 },
];
/** What identifies the counters of a request. */
interface Scoped {
  readonly user: string;
  readonly model: string;
  readonly project: string | null;
  readonly upstream?: string;
}
type LimitName = Pick<LimitDemand, 'scope' | 'window' | 'unit'>;
const nameOf = ({ scope, window, unit }: LimitName) => `${scope} ${window} ${unit}`;

/** One of two gateways. */
const gateway = fc.constantFrom(0 as const, 1 as const);
const reserve = fc.record({
  do: fc.constant('reserve' as const),
  gateway,
  user: fc.constantFrom('ann', 'bob', 'cy'),
  model: fc.constantFrom('coder-1', 'coder-2'),
  project: fc.constantFrom('apollo', null),
  most: fc.integer({ min: 0, max: MOST_EXPENSIVE }),
  /** Percent of the maximum that a typical reservation reserves. */
  share: fc.integer({ min: 0, max: 100 }),
  tokens: fc.integer({ min: 0, max: 300 }),
  typical: fc.boolean(),
});
/** Small ones, so that lots have room for several. */
const cheap = reserve.map((step) => ({
  ...{ ...step, most: step.most % 10, tokens: step.tokens % 20 },
  user: step.user === 'cy' ? ('bob' as const) : ('ann' as const),
}));
const end = fc.record({
  do: fc.constantFrom('settle' as const, 'settle' as const, 'release' as const, 'topUp' as const),
  gateway,
  which: fc.nat(),
  share: fc.integer({ min: 0, max: 100 }),
});
/** A request moves to another upstream. */
const move = fc.record({
  do: fc.constant('move' as const),
  gateway,
  which: fc.nat(),
  upstream: fc.constantFrom('main', 'spare', 'third'),
  most: fc.integer({ min: 0, max: MOST_EXPENSIVE }),
  share: fc.integer({ min: 0, max: 100 }),
  billed: fc.integer({ min: 0, max: 100 }),
});
/** A gateway dies, and another one replaces it. */
const crash = fc.record({ do: fc.constant('crash' as const), gateway });
const wait = (...minutes: number[]) =>
  fc.record({ do: fc.constant('wait' as const), minutes: fc.constantFrom(...minutes) });
const beat = fc.constant({ do: 'beat' as const });
const change = fc.record({
  do: fc.constantFrom('set' as const, 'unset' as const, 'grant' as const, 'revoke' as const),
  counter: fc.nat(),
  amount: fc.integer({ min: 1, max: 500 }),
  hours: fc.integer({ min: 1, max: 48 }),
});

type StepOf<Step> = Step extends fc.Arbitrary<infer Each> ? Each : never;
type ReserveStep = StepOf<typeof reserve>;
type FlyingStep = StepOf<typeof end>;
type MoveStep = StepOf<typeof move>;
type LimitStep = StepOf<typeof change>;
/** Something that happens. At a `beat` both gateways send heartbeats, and their other timers go off, too. */
type SceneStep =
  | ReserveStep
  | FlyingStep
  | MoveStep
  | LimitStep
  | StepOf<typeof beat | typeof crash | ReturnType<typeof wait>>;

/** Two gateways on one ledger under random events, and the invariants of the ledger. */
class LedgerScene {
  /** Whether reservations are at their maximum, some of them less, or limits change meanwhile. */
  readonly mode: 'worst_case' | 'mixed' | 'changing';
  readonly clock = frozenClock('2026-03-29T12:00:00Z');
  readonly #run = crypto.randomUUID();
  readonly #databases: readonly [Database, Database];
  readonly #gateways: [DatabaseLedger, DatabaseLedger];
  readonly #policy: LeasePolicy | undefined;
  readonly #limits: typeof LIMITS;
  /** The timers of the live gateways. */
  readonly #ticks: [(() => void)[], (() => void)[]] = [[], []];
  /** Requests in flight, by gateway. */
  readonly #flying: [ReservationRequest[], ReservationRequest[]] = [[], []];
  /** By request, the possible bills of its earlier attempts. */
  readonly #attempts = new Map<string, readonly ChargedAttempt[]>();
  /** Requests of gateways that crashed, with the gateway. */
  readonly #lost: { readonly gateway: DatabaseLedger; readonly request: ReservationRequest }[] = [];
  /** The least and the most that each request in the ledger may have cost. */
  readonly #costs = new Map<string, readonly [least: number, most: number]>();

  /** @param policy gateways place reservations in leases of this kind. */
  constructor(databases: readonly [Database, Database], mode: LedgerScene['mode'], policy?: LeasePolicy) {
    this.#databases = databases;
    this.mode = mode;
    this.#policy = policy;
    this.#limits = policy === undefined ? LIMITS : LEASED_LIMITS;
    this.#gateways = [this.#boot(0), this.#boot(1)];
  }

  async take(step: SceneStep): Promise<void> {
    if (step.do === 'wait') this.clock.advance(step.minutes * MINUTE_MS);
    else if (step.do === 'reserve') await this.#reserve(step);
    else if (step.do === 'move') await this.#move(step);
    else if (step.do === 'beat') await this.#beat();
    else if (step.do === 'crash') this.#crash(step.gateway);
    else if (step.do === 'topUp') this.#topUp(step);
    else if ('counter' in step) await this.#change(step);
    else await this.#end(step);
  }

  /** Detects dead gateways: only the live ones send heartbeats. */
  async recover(): Promise<void> {
    for (const living of this.#gateways) await living.beat();
    this.clock.advance(31_000);
    for (const living of this.#gateways) await living.beat();
    await Promise.all(this.#gateways.map((living) => living.recover()));
  }

  /** Every second request of crashed ones is reported after all, twice and from gateways that know nothing of each other. */
  async comeBack(): Promise<void> {
    const heard_of = this.#lost.filter((_, i) => i % 2 === 0);
    const settled = heard_of.flatMap(({ gateway, request }) => {
      const outcome = this.#outcomeOf(request, Math.floor(request.most_nano_usd / 3));
      return [gateway, this.#gateways[0]].map((each) => each.settle(settlement(request, outcome)));
    });
    await Promise.all(settled);
  }

  /** How many reservations were placed in leases, and how many leases were created. */
  leased(): { readonly placed: number; readonly taken: number } {
    const counts = [...this.#gateways, ...this.#lost.map(({ gateway }) => gateway)].map((each) => each.lease_counts);
    const sum = (of: 'leased' | 'taken') => counts.reduce((all, each) => all + (each?.[of] ?? 0), 0);
    return { placed: sum('leased'), taken: sum('taken') };
  }

  /** No caller asks for anything any more. */
  async close(): Promise<void> {
    await Promise.all(this.#gateways.map((gateway) => gateway.close()));
  }

  async settleAll(): Promise<void> {
    for (const gateway of [0, 1] as const) {
      while (this.#flying[gateway].length > 0) await this.#end({ do: 'settle', gateway, which: 0, share: 50 });
    }
  }

  /** No counter is beyond its limit, with all that is in flight; changing limits are checked for each reservation. */
  async assertLimitsHold(): Promise<void> {
    const bounds = this.#limits.map((limit) => {
      const bound = this.mode === 'changing' ? Number.MAX_SAFE_INTEGER : this.#boundOf(limit.unit, limit.limit!);
      return [nameOf(limit), bound];
    });
    const over = await this.#databases[0].query(
      'test_over',
      `select * from spend_counters where key like $1 and
         (reserved < 0 or in_flight < 0 or most < 0 or (most < reserved and not $3)
          or spent + most > ($2::jsonb ->> (scope || ' ' || window_kind || ' ' || unit))::bigint)`,
      // The rest of a lease need not be as likely as its reservations.
      [`%${this.#run}%`, JSON.stringify(Object.fromEntries(bounds)), this.#policy !== undefined],
    );
    assert.deepEqual(over, []);
  }

  /** At any moment, whatever is under way: no reader ever sees half of a move. */
  async assertLedgerAddsUp(): Promise<void> {
    const { differences, repeated, uncounted, attempts } = await verifyLedger({
      database: this.#databases[0],
      clock: this.clock,
    });
    for (const found of [differences, repeated, uncounted, attempts]) assert.deepEqual(found, { total: 0, first: [] });
  }

  /** Nothing is in flight any more, and every request is in the ledger once, at its cost. */
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
    const policy = this.#policy;
    this.#ticks[which] = [];
    return new DatabaseLedger({
      database,
      clock: this.clock,
      log: quietLog,
      every: (_, task) => {
        this.#ticks[which]!.push(task);
        return () => {};
      },
      reserve_timeout_ms,
      ...(policy && { leases: { lanes: database.lanes, listen: database.listen, is_on: () => true, policy } }),
    });
  }

  async #beat(): Promise<void> {
    await Promise.all(this.#gateways.map((gateway) => gateway.beat()));
    // The first one is the heartbeat itself.
    for (const ticks of this.#ticks) for (const tick of ticks.slice(1)) tick();
  }

  #boundOf(unit: string, limit: number): number {
    if (this.mode !== 'mixed' || unit !== 'nano_usd') return limit;
    return limit + Math.max(overshootOf(limit, OVERSHOOT_PERCENT), MOST_EXPENSIVE);
  }

  #keyOf(scope: string, { user, model, project, upstream = 'main' }: Scoped) {
    if (scope === 'user+model') return JSON.stringify([`${user} ${this.#run}`, model]);
    const keys: Record<string, string | null> = { user, model, project, upstream, team: 'team' };
    return keys[scope] === null ? undefined : `${keys[scope]} ${this.#run}`;
  }

  #demands(step: Scoped & Pick<ReserveStep, 'tokens' | 'most'>): LimitDemand[] {
    const demands = this.#limits.flatMap((limit): LimitDemand[] => {
      const key = this.#keyOf(limit.scope, step);
      if (key === undefined) return [];
      const smaller = { ...limit, key, rule: 'smaller' };
      if (limit.unit !== 'nano_usd') return [smaller];
      const larger = { ...smaller, limit: limit.limit! + 100, rule: 'larger' };
      // Where there is one, requests are soon decided one by one.
      if (step.tokens % 4 > 0) return [larger, smaller];
      return [larger, smaller, { ...smaller, limit: SHADOW_LIMIT, rule: 'trial', shadow: true }];
    });
    // The order is irrelevant.
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
    const response = await gateway.reserve(request);
    this.#assertSensible(request, response);
    if (response.exceeded.length > 0) return;
    // It may have crashed meanwhile, and its successor has no record of the request.
    if (gateway === this.#gateways[which]) this.#flying[which].push(request);
    else this.#costs.set(request.request_id, [request.amount_nano_usd, most]);
  }

  /** To another upstream, as when an attempt failed; it may be billed all the same. */
  async #move({ gateway: which, which: pick, upstream, most, share, billed: percent }: MoveStep): Promise<void> {
    const [before] = this.#flying[which].splice(this.#pick(which, pick), 1);
    if (before === undefined) return;
    const billed = Math.floor((before.most_nano_usd * percent) / 100);
    const { request_id, overshoot_percent, model, project, tokens } = before;
    const user = before.user.replace(` ${this.#run}`, '');
    const attempts = [...(this.#attempts.get(request_id) ?? [])];
    const cost_before = costOf(attempts);
    if (this.mode !== 'mixed' && billed > 0)
      attempts.push(chargedAttempt(attempts.length + 1, before.upstream, billed));
    const request: ReservationRequest = {
      ...{ ...before, upstream, most_nano_usd: most },
      amount_nano_usd: overshoot_percent === undefined ? most : Math.floor((most * share) / 100),
      demands: this.#demands({ user, model, project, upstream, tokens, most }),
    };
    const gateway = this.#gateways[which];
    const decision = await gateway.move(request, attempts);
    const has_moved = decision.exceeded.length === 0;
    if (has_moved) this.#attempts.set(request_id, attempts);
    const now = has_moved ? request : before;
    this.#assertSensible(request, decision, ({ scope, key }) => {
      const had = before.demands.some((demand) => demand.scope === scope && demand.key === key);
      return had ? most + costOf(attempts) - cost_before > before.most_nano_usd : most > 0;
    });
    if (gateway === this.#gateways[which]) this.#flying[which].push(now);
    else this.#noteLost(gateway, now);
  }

  /**
   * A rejected reservation has no headroom by the reported state, and an admitted one is within it. A move needs
   * no headroom where it needs no more than before, also if the limit was lowered meanwhile.
   */
  #assertSensible(
    request: ReservationRequest,
    { exceeded, shadows, statuses }: ReservationDecision | MoveDecision,
    needsMore: (limit: LimitStatus) => boolean = () => true,
  ): void {
    const isLacking = (limit: LimitStatus) => lackOf(limit, request) !== undefined;
    assert.ok(exceeded.every(isLacking) && shadows.every(isLacking));
    assert.ok(shadows.every(({ rule, limit }) => rule === 'trial' && limit === SHADOW_LIMIT));
    assert.ok(exceeded.every(({ rule }) => rule !== 'trial'));
    assert.equal(statuses.length > 0, exceeded.length === 0);
    // The reported leased headroom is what was known when it was leased, and what happened here since.
    if (this.#policy !== undefined) return;
    for (const status of statuses) {
      const { unit, limit, spent, most, in_flight, reserved } = status;
      assert.ok(in_flight > 0 && reserved <= most);
      const is_asked = this.mode !== 'changing' || needsMore(status);
      assert.ok(!is_asked || spent + most <= this.#boundOf(unit, limit), `${spent} and ${most} at ${limit}`);
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
    const outcome = this.#outcomeOf(request, part(request.most_nano_usd));
    const none = { output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
    await gateway.settle(settlement(request, { ...outcome, tokens: { ...none, input: part(request.tokens) } }));
  }

  #topUp({ gateway, which, share }: FlyingStep): void {
    const request = this.#flying[gateway][this.#pick(gateway, which)];
    if (request === undefined) return;
    this.#gateways[gateway].topUp(request.request_id, Math.floor((request.most_nano_usd * share) / 100));
  }

  #crash(which: 0 | 1): void {
    const gateway = this.#gateways[which];
    for (const request of this.#flying[which].splice(0)) this.#noteLost(gateway, request);
    this.#gateways[which] = this.#boot(which);
  }

  #noteLost(gateway: DatabaseLedger, request: ReservationRequest): void {
    const cost = costOf(this.#attempts.get(request.request_id) ?? []);
    this.#costs.set(request.request_id, [request.amount_nano_usd + cost, request.most_nano_usd + cost]);
    this.#lost.push({ gateway, request });
  }

  /** The outcome of a request; possible bills of its earlier attempts are in its cost. */
  #outcomeOf({ request_id, upstream }: ReservationRequest, cost_nano_usd: number): Partial<Settlement> {
    const attempts = this.#attempts.get(request_id) ?? [];
    const cost = cost_nano_usd + costOf(attempts);
    this.#costs.set(request_id, [cost, cost]);
    if (attempts.length === 0) return { cost_nano_usd: cost };
    const last = chargedAttempt(attempts.length + 1, upstream, cost_nano_usd);
    return { cost_nano_usd: cost, attempts: [...attempts, { ...last, outcome: 'answered', reason: 'served' }] };
  }

  async #change({ do: how, counter, amount, hours }: LimitStep): Promise<void> {
    const { scope, window: window_kind, unit } = this.#limits[counter % this.#limits.length]!;
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

function chargedAttempt(n: number, upstream: string, cost_nano_usd: number): ChargedAttempt {
  const failed = {
    certainty: 'possibly_accepted',
    status: null,
    outcome: 'unanswered',
    reason: 'next_unconfirmed',
  } as const;
  return { n, upstream, upstream_model: 'coder', ...failed, sends: 1, ms: 1, cost_nano_usd, provenance: 'possible' };
}

function costOf(attempts: readonly ChargedAttempt[]): number {
  return attempts.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0);
}

let databases: [Database, Database];
const { store } = useTestStore();

before(async () => {
  databases = [store.database, await store.another()];
});

/** The running play. A run that is too long is interrupted and plays on: its gateways would declare those of the next test dead. */
let playing: Promise<unknown> = Promise.resolve();
afterEach(() => playing);

type Weighted = readonly [arbitrary: fc.Arbitrary<SceneStep>, weight: number];

/** Bursts of some steps, so many of them; those within a burst happen at the same time. */
function bursts(least: number, most: number, steps: readonly Weighted[]): fc.Arbitrary<SceneStep[][]> {
  const burst = fc.oneof(...steps.map(([arbitrary, weight]) => ({ arbitrary, weight })));
  return fc.array(fc.array(burst, { minLength: 1, maxLength: 16 }), { minLength: least, maxLength: most });
}

const waiting = (mode: LedgerScene['mode']) =>
  bursts(1, 6, [
    ...([
      [reserve, 8],
      [end, 8],
      [move, 4],
      [crash, 1],
    ] as const),
    [wait(0.4, 1, 60, 300, 2400, 12_000), 1],
    ...(mode === 'changing' ? ([[change, 3]] as const) : []),
  ]);
/** A process that is not heard of for 12 seconds uses no lease; a minute ends some windows, a day most. */
const leasing = (mode: LedgerScene['mode']) =>
  bursts(4, 10, [
    ...([
      [cheap, 32],
      [reserve, 2],
      [end, 16],
      [move, 2],
      [beat, 4],
      [crash, 1],
    ] as const),
    [wait(0.005, 0.02, 0.02, 0.04, 0.1, 0.1, 0.5, 1, 1500), 1],
    ...(mode === 'changing' ? ([[change, 2]] as const) : []),
  ]);

/** From lots for one request to lots of all that is left. */
const anyPolicy: fc.Arbitrary<LeasePolicy> = fc.record({
  busy_per_second: fc.integer({ min: 1, max: 2 }),
  seconds: fc.integer({ min: 1, max: 3 }),
  requests: fc.integer({ min: 1, max: 3 }),
  headroom_factor: fc.constantFrom(1, 1, 2, 4),
});

/** A caller who asks again and again, and is placed in leases for sure. */
const ASKING = {
  ...({ do: 'reserve', gateway: 0, user: 'ann', model: 'coder-1', project: null } as const),
  ...{ most: 5, share: 50, tokens: 1, typical: false },
};
const LEASED: [SceneStep[][], LeasePolicy] = [
  Array.from({ length: 6 }, () => [ASKING]),
  { busy_per_second: 1, seconds: 3, requests: 3, headroom_factor: 1 },
];

/** A failure is minimized for a while, not until the test is cut off. */
const RUNS = { numRuns: times(3), interruptAfterTimeLimit: 60_000 };

/** @returns how many requests were placed in leases. */
function play(...scene: Parameters<typeof playOut>): Promise<number> {
  const placed = playOut(...scene);
  playing = placed.catch(() => {});
  return placed;
}

async function playOut(steps: SceneStep[][], mode: LedgerScene['mode'], policy?: LeasePolicy): Promise<number> {
  const scene = new LedgerScene(databases, mode, policy);
  for (const burst of steps) {
    await Promise.all([...burst.map((step) => scene.take(step)), scene.assertLedgerAddsUp()]);
    await scene.assertLimitsHold();
    await scene.assertLedgerAddsUp();
  }
  await scene.recover();
  await scene.assertLimitsHold();
  await scene.settleAll();
  await scene.comeBack();
  await scene.close();
  await scene.assertBooksBalance();
  return scene.leased().placed;
}

/** In `mixed` reservations are typical, and a limit is passed by no more than its share or the most expensive request. */
describe('two gateways on one ledger exceed no limit and keep every nano-USD, under any order of operations and failures', () => {
  for (const mode of ['worst_case', 'mixed', 'changing'] as const) {
    it(`without leases: ${mode}`, async () => {
      await fc.assert(
        fc.asyncProperty(waiting(mode), async (steps) => void (await play(steps, mode))),
        RUNS,
      );
    });

    it(`with leases: ${mode}`, async () => {
      let placed = 0;
      const property = fc.asyncProperty(leasing(mode), anyPolicy, async (steps, policy) => {
        placed += await play(steps, mode, policy);
      });
      await fc.assert(property, { ...RUNS, numRuns: times(4), examples: [LEASED] });
      assert.ok(placed > 0, 'some requests were placed in leases');
    });
  }
});
