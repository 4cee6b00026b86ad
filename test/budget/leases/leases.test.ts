import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { LimitDemand, LimitStatus, ReservationDecision } from '../../../engine/base/contract/services.ts';
import { everyInBackground, frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { PipelinedConnection, SentStatement } from '../../../engine/base/store/postgres-client.ts';
import {
  LEASE_POLICY,
  LeasedHeadroom,
  Leases,
  type Moment,
  RowSender,
} from '../../../engine/domain/budget/leases/leases.ts';
import {
  type BatchCounterState,
  type CounterSnapshot,
  type LeasedRow,
  LedgerStatements,
  sharesOf,
} from '../../../engine/domain/budget/ledger/ledger-statements.ts';
import type { CounterNumbers } from '../../../engine/domain/budget/limits/headroom.ts';
import { setLimit } from '../../../engine/domain/budget/limits/limit-settings.ts';
import { randomOf } from '../../support/random.ts';
import {
  assertGranted,
  balanceOf,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  useTestStore,
} from '../../support/store.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import {
  ask,
  assertAddsUp,
  GREEDY,
  LeasingLedger,
  leasedRequests,
  stoppedClock,
  teamLimit,
  warmUp,
} from './leasing.ts';

const never = () => () => {};
const CHILD = join(import.meta.dirname, 'leasing-child.ts');
const { store, ledgers } = useTestStore();

function open(database: Database, more: ConstructorParameters<typeof LeasingLedger>[1] = {}): LeasingLedger {
  const ledger = new LeasingLedger(database, { every: never, ...more });
  ledgers.push(ledger);
  return ledger;
}

/** A ledger with connections of its own, whose timers run unless the test stops them. */
const openAnother = async (more: ConstructorParameters<typeof LeasingLedger>[1] = {}) =>
  open(await store.another(), { every: everyInBackground, ...more });

describe('a ledger with leases', () => {
  test('places requests in memory, keeps the ledger consistent at any moment, and returns idle leases', async () => {
    const clock = stoppedClock();
    const ledger = await openAnother({ clock });
    const demands = [teamLimit('fast', 1_000_000_000)];
    let spent = await warmUp(ledger, demands);
    const before = { ...ledger.lease_counts! };
    for (let i = 0; i < 60; i++) {
      const { request, decision } = await ask(ledger, demands);
      assertGranted(decision);
      const [status] = decision.statuses;
      // The only process has all usage: statuses are the same as without leases.
      assert.deepEqual([status!.spent, status!.reserved, status!.in_flight], [spent, 100, 1]);
      if (i % 10 === 0) await assertAddsUp(store.database);
      await ledger.settle(settlement(request));
      spent += 60;
    }
    const { leased, waited } = ledger.lease_counts!;
    assert.ok(leased - before.leased > 50, `${leased - before.leased} of 60 were placed in leases`);
    assert.equal(leased + waited - before.leased - before.waited, 60);
    await assertAddsUp(store.database);
    clock.passed_ms = 60_000;
    await until('leases are returned', async () => (await leasedRequests(store.database, 'fast')) === 0);
    assert.deepEqual(await balanceOf(store.database, 'fast'), { spent, reserved: 0 });
  });

  test('takes no lease if leases are off, with little headroom, or at low demand', async () => {
    const off = await openAnother({ is_on: () => false });
    const near = await openAnother();
    const rare = await openAnother({ policy: LEASE_POLICY });
    for (let i = 0; i < 20; i++) {
      await ask(off, [teamLimit('off', 1_000_000_000)]);
      await ask(near, [teamLimit('near', 100 * 4 * 16)]);
    }
    for (let i = 0; i < 3; i++) await ask(rare, [teamLimit('rare', 1_000_000_000)]);
    for (const ledger of [off, near, rare]) assert.equal(ledger.lease_counts!.leased + ledger.lease_counts!.taken, 0);
  });

  test("does not use a lease taken under a larger limit than the request's", async () => {
    const ledger = await openAnother({ policy: GREEDY, every: never });
    await warmUp(ledger, [teamLimit('groups', 1_000_000)]);
    const { leased } = ledger.lease_counts!;
    const smaller = await ask(ledger, [teamLimit('groups', 200)]);
    const limits = smaller.decision.exceeded.map(({ limit }) => limit);
    assert.deepEqual(limits, [200]);
    assert.equal(ledger.lease_counts!.leased, leased);
  });

  test('recalls leases of other processes before a rejection, so that all of a limit can be used', async () => {
    const keeper = await openAnother({ policy: GREEDY, every: never });
    const other = await openAnother({ every: never });
    const limit = 10_000;
    const spent = await warmUp(keeper, [teamLimit('shared', limit)]);
    assert.ok((await leasedRequests(store.database, 'shared')) > 0);
    const rest = limit - spent;
    const { decision } = await ask(other, [teamLimit('shared', limit)], { amount_nano_usd: rest, most_nano_usd: rest });
    assertGranted(decision);
    const { decision: more } = await ask(other, [teamLimit('shared', limit)], { amount_nano_usd: 1, most_nano_usd: 1 });
    assert.equal(more.exceeded.length, 1);
    // Its own leases are no reason either.
    const { decision: own } = await ask(keeper, [teamLimit('shared', limit)], { amount_nano_usd: 1, most_nano_usd: 1 });
    assert.equal(own.exceeded.length, 1);
    await assertAddsUp(store.database);
  });

  test('a typical request without competition may cost anything, despite leases', async () => {
    const keeper = await openAnother({ policy: GREEDY, every: never });
    const other = await openAnother({ every: never });
    await warmUp(keeper, [teamLimit('alone', 10_000)]);
    const more = { amount_nano_usd: 10, most_nano_usd: 90_000, overshoot_percent: 0 };
    const { decision } = await ask(other, [teamLimit('alone', 10_000)], more);
    assertGranted(decision);
  });

  test('greedy processes spend all of a limit and never exceed it', async () => {
    const limit = 60_000;
    const demands: LimitDemand[] = [
      teamLimit('crowded', limit),
      { scope: 'user', key: 'crowd', window: 'open', unit: 'requests', limit: 1000, rule: 'at-once' },
    ];
    const crowd = await Promise.all(
      Array.from({ length: 3 }, () => openAnother({ policy: { ...GREEDY, headroom_factor: 2 } })),
    );
    let over = false;
    const watch = async () => {
      while (!over) {
        const { spent, reserved } = await balanceOf(store.database, 'crowded');
        assert.ok(spent + reserved <= limit, `${spent} and ${reserved}`);
        await assertAddsUp(store.database);
      }
    };
    const persist = async (ledger: LeasingLedger) => {
      for (;;) {
        const { request, decision } = await ask(ledger, demands);
        if (decision.exceeded.length > 0) return;
        await ledger.settle(settlement(request, { cost_nano_usd: 100 }));
      }
    };
    await Promise.all(crowd.map((ledger) => ledger.laneOpened()));
    await ask(crowd[0]!, demands, { amount_nano_usd: 0, most_nano_usd: 0 });
    const watching = watch();
    await Promise.all(crowd.flatMap((ledger) => Array.from({ length: 8 }, () => persist(ledger))));
    over = true;
    await watching;
    const leased = crowd.reduce((sum, ledger) => sum + ledger.lease_counts!.leased, 0);
    assert.ok(leased > 0, 'some were placed in leases');
    assert.equal((await balanceOf(store.database, 'crowded')).spent, limit);
  });

  test('a limit lowered at run time applies to the next request of every process', async () => {
    const one = await openAnother({ every: never });
    const other = await openAnother({ every: never });
    const demand = teamLimit('lowered', 1_000_000_000);
    for (const ledger of [one, other]) await warmUp(ledger, [demand]);
    const by = { database: store.database, clock: systemClock, actor: { kind: 'command', name: 'test' } as const };
    await setLimit(by, { name: demand, amount: 1, reason: undefined });
    for (const ledger of [one, other]) {
      const { exceeded } = (await ask(ledger, [demand])).decision;
      const limits = exceeded.map(({ limit }) => limit);
      assert.deepEqual(limits, [1]);
    }
    await assertAddsUp(store.database);
  });

  test('leases are returned when the time zone changes', async () => {
    let time_zone = 'UTC';
    const ledger = await openAnother({ every: never, time_zone: () => time_zone });
    const demands = [teamLimit('zoned', 1_000_000_000)];
    await warmUp(ledger, demands);
    time_zone = 'Pacific/Auckland';
    const { leased } = ledger.lease_counts!;
    assertGranted((await ask(ledger, demands)).decision);
    assert.equal(ledger.lease_counts!.leased, leased);
    const windows = await store.database.knex('spend_counters').where({ key: 'zoned' });
    assert.equal(windows.length, 2);
  });
});

describe('a lot in the database', () => {
  /** Leases a lot of one request on each counter. */
  async function lease(names: readonly LimitDemand[]) {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const { database } = store;
    const statements = new LedgerStatements({
      database,
      clock,
      time_zone: () => 'UTC',
      process_id: crypto.randomUUID(),
    });
    const lots = names.map((name) => ({ name, amount: 1, most: 1, requests: 1, limit: 1000 }));
    let counters: readonly BatchCounterState[] = [];
    await statements.spend(
      { settlements: [], requests: [], lease_id: crypto.randomUUID(), headroom_factor: 1, lots },
      (_, news) => {
        counters = news;
        return [];
      },
    );
    assert.ok(counters.every(({ is_leased }) => is_leased));
    return { statements, counters };
  }

  test('ends with its window, or before with the first of its grants', async () => {
    for (const hour of ['14', '13']) {
      const name = { scope: 'team', key: 'granted', window_kind: 'month', amount: 5 };
      const times = { granted_at: new Date('2026-03-10T11:00:00Z'), expires_at: new Date(`2026-03-10T${hour}:00:00Z`) };
      await store.database.knex('limit_grants').insert({ ...name, ...times, id: hour, granted_by: 'test' });
    }
    const { statements, counters } = await lease([
      teamLimit('granted', 1000),
      teamLimit('ending', 1000),
      { ...teamLimit('ending', 1000), window: 'day' },
      { ...teamLimit('ending', 1000), window: 'open', unit: 'requests' },
    ]);
    assert.deepEqual(
      counters.map(({ ends_at }) => ends_at),
      [
        ...['2026-03-10T13:00:00Z', '2026-04-01T00:00:00Z', '2026-03-11T00:00:00Z'].map((end) => Date.parse(end)),
        Number.POSITIVE_INFINITY,
      ],
    );
    await statements.endLeases();
  });

  test('is in no status while no request has taken it', async () => {
    const names = [teamLimit('untaken', 1000)];
    const { statements, counters } = await lease(names);
    const { numbers } = counters[0]!;
    assert.deepEqual([numbers.reserved, numbers.most, numbers.in_flight], [1, 1, 1]);
    const [status] = await statements.statuses(names);
    assert.deepEqual([status!.reserved, status!.most, status!.in_flight], [0, 0, 0]);
    await statements.endLeases();
  });
});

const AT: Moment = { monotonic: 10_000, database: 10_000 };
const UNCHANGED = { set: null, granted: 0, resets_at: null };
const NUMBERS: CounterNumbers = { spent: 0, reserved: 1000, most: 1000, in_flight: 10, ...UNCHANGED };

/** Room that was leased for requests of a demand. */
function leasedFor(demand: LimitDemand, numbers: CounterNumbers = NUMBERS) {
  const room = new LeasedHeadroom(GREEDY);
  const request = reservation({ demands: [demand] });
  const shares = sharesOf(request);
  room.record(shares, AT.monotonic);
  for (const lot of room.takeLots(AT.monotonic))
    room.granted(lot, { is_leased: true, id: 7, ends_at: Number.POSITIVE_INFINITY, numbers }, AT.monotonic);
  return { room, request, shares };
}

test('a used-up lease is returned, so that its row is deleted', () => {
  const { room, request, shares } = leasedFor(teamLimit('all', 1_000_000));
  let placed = 0;
  while (room.place(request, shares, AT) !== undefined) placed++;
  assert.equal(placed, 10);
  room.returnIdle({ ...AT, monotonic: AT.monotonic + 60_000 });
  assert.deepEqual(room.takeReturns(), [{ id: 7, amount: 0, most: 0, requests: 0 }]);
});

test('a limit in shadow mode with run-time changes is checked in the database, because leases follow the limit in force', () => {
  const shadow: LimitDemand = { ...teamLimit('shadow', 500), shadow: true };
  for (const [changed, is_placed] of [
    [{}, true],
    [{ set: 1_000_000 }, false],
    [{ granted: 5 }, false],
  ] as const) {
    const { room, request, shares } = leasedFor(shadow, { ...NUMBERS, ...changed });
    assert.equal(room.place(request, shares, AT) !== undefined, is_placed);
  }
});

const FULL: LimitStatus = {
  ...{ scope: 'user', key: 'alice', window: 'open', unit: 'requests', rule: 'at-once' },
  ...{ limit: 4, spent: 0, reserved: 4, most: 4, in_flight: 4, resets_at: null },
};

/** Rejects repeatedly while the status of the limit changes. @returns how often it decided again. */
async function decisions(leased: (turn: number) => boolean): Promise<number> {
  let turn = 0;
  const recall = async (): Promise<CounterSnapshot[]> => {
    const numbers = { spent: 0, reserved: 3, most: 3, in_flight: 3, ...UNCHANGED };
    return [{ is_leased: leased(turn++), free: { amount: 0, most: 0, requests: 0 }, numbers }];
  };
  const leases = new Leases({
    database: { lanes: () => ({ free: () => undefined, count: 1, close() {} }), listen: async () => {} },
    statements: { recall } as unknown as LedgerStatements,
    heartbeat: { isFresh: () => true, databaseNow: () => 0, suspectUnknownReservations() {}, sayAlive: async () => {} },
    ...{ clock: systemClock, log: quietLog, every: () => () => {}, is_on: () => true, time_zone: () => 'UTC' },
    send: async () => {},
    inTime: (sent) => sent,
  });
  const refused = { exceeded: [FULL], shadows: [], statuses: [], unreserved: false } as ReservationDecision;
  let decided = 0;
  const decide = async () => {
    decided++;
    return refused;
  };
  await leases.recallAndDecide(refused, decide, false);
  return decided;
}

test('a contended limit is decided again while there are leases on it, and once without', async () => {
  assert.equal(await decisions(() => false), 1);
  assert.equal(await decisions((turn) => turn < 3), 4);
});

test('a row is not reported as sent if its connection broke before the operating system had all of it', async () => {
  const written = Promise.withResolvers<void>();
  const broken = new Error('the connection broke');
  const sender = new RowSender({
    lanes: () => ({ free: () => ({ send: () => ({ handed: undefined, answered: Promise.resolve() }) }) }),
    statements: {
      place: () => ({ handed: Promise.reject(broken), answered: Promise.reject(broken) }),
      placeAgain: () => written.promise,
    },
    log: quietLog,
    mayBeSent: () => true,
    onFailure() {},
  });
  const row: LeasedRow = { lease_id: 'lease', request: reservation(), shares: [], leases: [] };
  const sent = await sender.send(row);
  assert.equal(sent?.is_handed, false);
  written.resolve();
  assert.equal(await sent?.written, true);
});

/** A database behind a relay that a test cuts. */
async function behindRelay(): Promise<{ readonly relay: TcpRelay; readonly database: Database }> {
  const url = new URL(store.url);
  const relay = await startRelay(Number(url.port));
  url.port = String(relay.port);
  return { relay, database: await store.another(url.href) };
}

/** Whether so many statements wait for the locks of others. */
async function waiting(statements: number): Promise<boolean> {
  const { rows } = await store.database.knex.raw(
    'select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0',
  );
  return rows.length >= statements;
}

/** Processes with leases or reservations on the counters of a team that are declared dead. */
async function takeForDead(team: string): Promise<void> {
  await store.database.knex.raw(
    `with counters as (select id from spend_counters where key = ?)
     select recover_orphans(null, array(
       select l.process_id from reservation_leases l join counters c on c.id = l.counter_id
       union select r.process_id from reservations r join counters c on c.id = any (r.counter_ids)),
       interval '30 seconds', '-infinity')`,
    [team],
  );
}

describe('leases after failures', () => {
  test('a sent row that was lost is written again, and its request is settled once', async () => {
    const { relay, database } = await behindRelay();
    const ledger = open(database);
    const demands = [teamLimit('cut', 1_000_000_000)];
    await warmUp(ledger, demands);
    relay.fallSilent();
    const { leased } = ledger.lease_counts!;
    const more = { user: 'cut off' };
    const { request, decision } = await ask(ledger, demands, more);
    assertGranted(decision);
    assert.equal(ledger.lease_counts!.leased, leased + 1);
    const settled = ledger.settle(settlement(request));
    ledger.topUp(request.request_id, 100);
    await relay.stop();
    await relay.start();
    await settled;
    assert.equal((await ledgerRowsOf(store.database, more.user)).length, 1);
    await until('leases are returned', async () => (await leasedRequests(store.database, 'cut')) === 0);
    await assertAddsUp(store.database);
    await warmUp(ledger, demands);
    await assertAddsUp(store.database);
    await ledger.close();
    await relay.stop();
  });

  test('while row statements are unanswered, requests are reserved without leases', async () => {
    const { relay, database } = await behindRelay();
    let timeout_ms = 30_000;
    const ledger = open(database, { reserve_timeout_ms: () => timeout_ms });
    const demands = [teamLimit('silent', 1_000_000_000)];
    await warmUp(ledger, demands);
    relay.fallSilent();
    const { request } = await ask(ledger, demands);
    timeout_ms = 200;
    const refused = until('a request is rejected', async () => {
      try {
        await ask(ledger, demands);
        return undefined;
      } catch (error) {
        return error as { code: string };
      }
    });
    assert.equal((await refused).code, 'store_unavailable');
    relay.speakAgain();
    await ledger.settle(settlement(request));
    await ledger.close();
    await relay.stop();
  });

  test('a process resumed after a long pause uses no old lease, and no limit is exceeded', async () => {
    const clock = stoppedClock();
    const ledger = open(store.database, { policy: GREEDY, clock });
    const limit = 10_000;
    const demands = [teamLimit('stopped', limit)];
    const spent = await warmUp(ledger, demands);
    assert.ok((await leasedRequests(store.database, 'stopped')) > 0);
    clock.passed_ms = 40_000;
    await takeForDead('stopped');
    const rest = limit - spent;
    const other = await ask(open(store.database), demands, { amount_nano_usd: rest, most_nano_usd: rest });
    assertGranted(other.decision);
    const { decision } = await ask(ledger, demands);
    assert.equal(decision.exceeded.length, 1);
    await ledger.beat();
    assert.equal((await ask(ledger, demands)).decision.exceeded.length, 1);
    await assertAddsUp(store.database);
  });

  /** A ledger that sleeps, and is declared dead, before or after it sends a row. */
  async function sleepsAt(when: 'before' | 'after', team: string) {
    const clock = stoppedClock();
    const { database } = store;
    const demands = [teamLimit(team, 10_000)];
    let rest = 0;
    const sleep = async () => {
      if (rest === 0) return;
      await takeForDead(team);
      const more = { amount_nano_usd: rest - 100, most_nano_usd: rest - 100 };
      rest = 0;
      assertGranted((await ask(open(database), demands, more)).decision);
    };
    const lanes = () => {
      const free = () => {
        const lane = database.lanes().free();
        return lane && { send: (...statement: Parameters<typeof lane.send>) => sendAsleep(lane, statement) };
      };
      return { free, count: 1, close() {} };
    };
    const sendAsleep = (
      lane: PipelinedConnection,
      statement: Parameters<PipelinedConnection['send']>,
    ): SentStatement => {
      if (rest > 0) clock.passed_ms = 40_000;
      if (when === 'after') {
        const answered = lane.send(...statement).answered.then(sleep);
        return { answered, handed: answered };
      }
      const sent = sleep().then(() => lane.send(...statement));
      return { answered: sent.then(({ answered }) => answered), handed: sent.then(({ handed }) => handed) };
    };
    const ledger = open({ ...database, lanes }, { policy: GREEDY, clock, database });
    rest = 10_000 - (await warmUp(ledger, demands));
    const { leased } = ledger.lease_counts!;
    const { decision, request } = await ask(ledger, demands);
    assertGranted(decision);
    assert.equal((await ask(ledger, demands)).decision.exceeded.length, 1);
    await ledger.settle(settlement(request));
    await assertAddsUp(database);
    return ledger.lease_counts!.leased - leased;
  }

  test('a process paused before it sent a row withdraws it, and reserves in the database', async () => {
    assert.equal(await sleepsAt('before', 'sending'), 0);
  });

  test('a process paused after it sent a row continues as one whose reservation was recovered', async () => {
    assert.equal(await sleepsAt('after', 'sent'), 1);
  });

  test('a row without its lease counts on its counters', async () => {
    const ledger = open(store.database);
    const demands = [teamLimit('gone', 1_000_000_000)];
    await warmUp(ledger, demands);
    await store.database.knex.raw(
      `select return_all_leases(array(
         select l.process_id from reservation_leases l join spend_counters s on s.id = l.counter_id where s.key = 'gone'), null)`,
    );
    const { request, decision } = await ask(ledger, demands);
    assertGranted(decision);
    await until('the row is written', async () => {
      const [row] = await store.database.knex('reservations').where({ request_id: request.request_id });
      return row !== undefined;
    });
    await assertAddsUp(store.database);
    await ledger.settle(settlement(request));
    await assertAddsUp(store.database);
  });

  /** Two counters without a request in common, and one that all are on. */
  const apart = (team: string, member: string) => [
    teamLimit(team, 1_000_000_000),
    { ...teamLimit(`${team} ${member}`, 1_000_000_000), window: 'day' as const },
  ];

  /** Estimates for leases: the spending per counter of a team, and of ledger rows without a user. */
  async function estimatesOf(team: string) {
    const counters = await store.rows<{ id: number; spent: number; reserved: number; leased: number }>(
      `select s.id, s.spent, s.reserved, coalesce((select sum(l.amount) from reservation_leases l where l.counter_id = s.id), 0)::bigint as leased
       from spend_counters s where s.key like $1 order by s.key`,
      `${team}%`,
    );
    const rows = await store.rows<{ request_id: string; cost: number }>(
      `select request_id, cost_nano_usd as cost from ledger
       where user_email = 'unknown' and counter_ids && array(select id from spend_counters where key like $1)`,
      `${team}%`,
    );
    return { counters, rows, estimated: rows.reduce((sum, { cost }) => sum + cost, 0) };
  }

  test('leases of a process that died together with its database are spent on each counter, as estimates without a user', async () => {
    const dead = open(store.database, { every: never });
    for (const member of ['a', 'b']) await warmUp(dead, apart('lost', member));
    const before = await estimatesOf('lost');
    assert.equal(before.counters.filter(({ leased }) => leased > 0).length, 3);
    await store.rows('delete from server_lives');
    await takeForDead('lost');
    const { counters, rows, estimated } = await estimatesOf('lost');
    for (const [i, { spent, reserved, leased }] of counters.entries()) {
      const { spent: spent_before, leased: leased_before } = before.counters[i]!;
      assert.deepEqual([spent, reserved, leased], [spent_before + leased_before, 0, 0]);
    }
    // Requests of the two may have been on counters apart: the ledger has at least what all of them can have spent.
    assert.equal(
      estimated,
      before.counters.reduce((sum, { leased }) => sum + leased, 0),
    );
    assert.equal(new Set(rows.map(({ request_id }) => request_id)).size, rows.length);
    await assertAddsUp(store.database);
  });

  test('the estimates for leases are reversed if the process was only silent during a database restart', async () => {
    const clock = stoppedClock();
    const ledger = open(store.database, { clock });
    for (const _ of ['once', 'again']) {
      for (const member of ['a', 'b']) await warmUp(ledger, apart('asleep', member));
      const before = await estimatesOf('asleep');
      const { request, decision } = await ask(ledger, apart('asleep', 'a'));
      assertGranted(decision);
      await store.rows('delete from server_lives');
      await takeForDead('asleep');
      assert.ok((await estimatesOf('asleep')).estimated > 0);
      await assertAddsUp(store.database);
      clock.passed_ms += 40_000;
      await ledger.sayAlive();
      await ledger.settle(settlement(request));
      await until('the estimate is reverted', async () => (await estimatesOf('asleep')).estimated === 0);
      const { counters, rows } = await estimatesOf('asleep');
      const cost = settlement(request).cost_nano_usd;
      assert.equal(counters[0]!.spent, before.counters[0]!.spent + cost);
      assert.equal(counters[1]!.spent, before.counters[1]!.spent + cost);
      // Each is reverted once, however often the process restarts.
      assert.equal(rows.length % 2, 0);
      assert.equal(new Set(rows.map(({ request_id }) => request_id)).size, rows.length / 2);
      await assertAddsUp(store.database);
    }
  });

  test('a process returns the leases of an earlier server life', async () => {
    const ledger = open(store.database);
    const demands = [teamLimit('restarted', 1_000_000_000)];
    await warmUp(ledger, demands);
    assert.ok((await leasedRequests(store.database, 'restarted')) > 0);
    await store.rows('delete from server_lives');
    await ledger.sayAlive();
    await until('leases are returned', async () => (await leasedRequests(store.database, 'restarted')) === 0);
    await takeForDead('restarted');
    assert.deepEqual((await estimatesOf('restarted')).rows, []);
    await assertAddsUp(store.database);
  });

  test('a lease row is deleted when all of it is placed after its return', async () => {
    const { knex } = store.database;
    const [lease_id, process_id] = [crypto.randomUUID(), crypto.randomUUID()];
    const name = { scope: 'team', key: 'used-up', window_kind: 'month', window_start: '2026-01-01' };
    const [counter] = await knex('spend_counters')
      .insert({ ...name, reserved: 10, most: 10, in_flight: 1 })
      .returning<{ id: string }[]>('id');
    const lease = { lease_id, counter_id: counter!.id, process_id };
    await knex('reservation_leases').insert({ ...lease, amount: 10, most: 10, requests: 1 });
    const placed = (request_ids: readonly string[]) => {
      const rows = request_ids.map(
        (id) => `row('${id}', 10, 10, 0, 'p', 'p', 'p', null, null, null, 'm', 'u', 'm', null, 1, 2, 1)::batch_request`,
      );
      const leased = `array[row(${counter!.id}, 10, 10, 1)::lease_part]`;
      return knex.raw(`call place_rows('${process_id}', '${lease_id}', null, array[${rows}], '{1}', ${leased})`);
    };
    await placed(['used up']);
    // A row is sent again after a lost reply, and may be listed twice.
    await placed(['used up', 'used up too', 'used up too']);
    assert.equal((await store.rows('select from reservation_leases where lease_id = $1', lease_id)).length, 0);
    assert.equal((await store.rows('select from reservations where process_id = $1', process_id)).length, 2);
    await assertAddsUp(store.database);
    await knex.raw("select release_batch('{used up,used up too}')");
    await assertAddsUp(store.database);
  });

  test('a process with a heartbeat during the recovery of its leases keeps those it takes afterwards', async () => {
    const { knex } = store.database;
    const process_id = crypto.randomUUID();
    const counters = await knex('spend_counters')
      .insert(
        ['given-away', 'taken'].map((key) => ({
          ...{ scope: 'team', key, window_kind: 'month', window_start: '2026-01-01', unit: 'nano_usd' },
          ...{ spent: 0, reserved: 100, most: 100, in_flight: 1 },
        })),
      )
      .returning<{ id: number }[]>('id');
    const lease = (counter: number) =>
      knex('reservation_leases').insert({
        ...{ lease_id: crypto.randomUUID(), counter_id: counters[counter]!.id, process_id },
        ...{ amount: 100, most: 100, requests: 1 },
      });
    const asleep = { machine: 'm', identity: 'i', heartbeat_at: knex.raw("now() - interval '1 minute'") };
    await knex('processes').insert({ id: process_id, ...asleep });
    await lease(0);
    const holder = await knex.transaction();
    await holder('spend_counters').where({ id: counters[0]!.id }).forUpdate();
    const given_away = store.rows("select recover_orphans(null, '{}', '30 s', '-infinity')");
    await until('the counter is waited for', () => waiting(1));
    let taken = false;
    const back = store
      .rows('update processes set heartbeat_at = now() where id = $1', process_id)
      .then(() => lease(1))
      .then(() => {
        taken = true;
      });
    await until('the process takes a lease, or waits to be heard of', async () => taken || waiting(2));
    await holder.commit();
    await Promise.all([given_away, back]);
    assert.equal(await leasedRequests(store.database, 'given-away'), 0);
    assert.equal(await leasedRequests(store.database, 'taken'), 1);
    await takeForDead('taken');
    await assertAddsUp(store.database);
  });

  test('processes that lose their leases repeatedly never deadlock', async () => {
    const deadlocks: unknown[] = [];
    const note = (error: unknown) => {
      const { code, cause } = error as { code?: string; cause?: { code?: string } };
      if (code === '40P01' || cause?.code === '40P01') deadlocks.push(error);
    };
    const log = { ...quietLog, debug: (fields: object) => 'err' in fields && note(fields.err) };
    const policy = { ...GREEDY, headroom_factor: 2 };
    const crowd = await Promise.all([1, 2, 3].map(() => openAnother({ policy, log })));
    await Promise.all(crowd.map((ledger) => ledger.laneOpened()));
    const random = randomOf('circle');
    const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)]!;
    const persist = async () => {
      for (let i = 0; i < 60; i++) {
        const demands = [teamLimit('circle', 1_000_000), teamLimit(`circle ${pick(['a', 'b', 'c'])}`, 500_000)];
        const ledger = pick(crowd);
        try {
          const { request, decision } = await ask(ledger, random() < 0.5 ? demands : demands.toReversed());
          if (decision.exceeded.length > 0) continue;
          const ended = random() < 0.1 ? ledger.release(request.request_id) : ledger.settle(settlement(request));
          if (random() < 0.5) await ended;
        } catch (error) {
          note(error);
        }
      }
    };
    let is_over = false;
    const lose = async () => {
      while (!is_over) await takeForDead(pick(['circle', 'circle a', 'circle b', 'circle c'])).catch(note);
    };
    const losing = lose();
    await Promise.all(Array.from({ length: 24 }, persist));
    is_over = true;
    await losing;
    await Promise.all(crowd.map((ledger) => ledger.close()));
    assert.deepEqual(deadlocks, []);
    await assertAddsUp(store.database);
  });

  test('a placed row reaches the database even if its process is killed at once', async () => {
    const kill = async () => {
      const child = spawn(process.execPath, [CHILD, store.url, 'killed'], { stdio: ['ignore', 'pipe', 'inherit'] });
      const [said, [, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
      assert.equal(signal, 'SIGKILL');
      return said
        .trim()
        .split('\n')
        .map((line) => line.split(' ') as [id: string, how: string]);
    };
    const placed = (await Promise.all(Array.from({ length: 4 }, kill))).flat();
    assert.ok(placed.filter(([, how]) => how === 'leased').length >= 4);
    const request_ids = placed.map(([id]) => id);
    // What their connections still had to execute may come after the first time: gateways look again and again, too.
    await until('all that was placed is recorded, and nothing leased', async () => {
      await takeForDead('killed');
      const rows = await store.database.knex('ledger').whereIn('request_id', request_ids);
      return rows.length === placed.length && (await leasedRequests(store.database, 'killed')) === 0;
    });
    await assertAddsUp(store.database);
  });
});
