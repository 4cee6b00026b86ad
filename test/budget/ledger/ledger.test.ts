import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import type { ChargedAttempt, LimitDemand, Provenance, ReservationRequest } from '../../../engine/api.ts';
import { type FrozenClock, frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import { ownProcess } from '../../../engine/base/kit/process/gateway-process.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { type DatabaseLedger, type LedgerOptions, TypicalCosts } from '../../../engine/domain/budget/ledger/ledger.ts';
import { ledgerIdentity } from '../../../engine/domain/budget/ledger/reservation.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import {
  assertGranted,
  balanceOf,
  counterStatesOf,
  countersOf,
  type LedgerRow,
  ledgerRowsOf,
  manualTimer,
  reservation,
  settlement,
  spoiltStore,
  stillLedger,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';
import { until } from '../../support/until.ts';

const start = '2026-03-10T12:00:00Z';

const { store, database, ledgers: open } = useTestStore();

function newLedger(more: Partial<LedgerOptions> = {}): DatabaseLedger {
  const ledger = stillLedger(database, frozenClock(start), more);
  open.push(ledger);
  return ledger;
}

const on = (key: string, window: LimitDemand['window'], unit: LimitDemand['unit'], limit: number): LimitDemand => ({
  ...userDemand(key, limit),
  window,
  unit,
  rule: `${limit} ${unit}`,
});

describe('a reservation', () => {
  it("takes the time from the database when the clock isn't stopped", async () => {
    const ledger = newLedger({ clock: { ...systemClock, now: () => 0 } });
    const [refusal] = (await ledger.reserve(reservation({ user: 'timely', demands: [userDemand('timely', 1)] })))
      .exceeded;
    const [row] = await database.query<{ now: Date }>('test_now', 'select now()', []);
    const left_ms = refusal!.resets_at! - row!.now.getTime();
    assert.ok(left_ms > -60_000 && left_ms <= 24 * 3_600_000, String(left_ms));
  });

  it('of an invalid amount is rejected before it reaches the database', async () => {
    const ledger = newLedger();
    for (const amount_nano_usd of [-1, 0.5, Number.NaN, 2 ** 53]) {
      await assert.rejects(ledger.reserve(reservation({ amount_nano_usd })), RangeError);
    }
  });
});

describe('reservations', () => {
  it('never deadlock when gateways demand the same counters in different orders', async () => {
    const ledgers = [newLedger(), newLedger({ database: await store.another() })];
    const keys = ['p', 'q', 'r', 's'].map((key) => `order-${key}`);
    const reserveAndSettle = async (i: number) => {
      const mine = i % 2 === 0 ? keys : keys.toReversed();
      const request = reservation({ user: 'order', demands: mine.map((key) => userDemand(key, null)) });
      await ledgers[i % 2]!.reserve(request);
      await ledgers[(i + 1) % 2]!.settle(settlement(request));
    };
    await Promise.all(Array.from({ length: 100 }, (_, i) => reserveAndSettle(i)));
    for (const key of keys) assert.equal((await balanceOf(database, key)).spent, 6000);
  });
});

describe('a settlement', () => {
  const settle = async (ledger: DatabaseLedger, request: ReservationRequest, more = {}) => {
    await ledger.reserve(request);
    await ledger.settle(settlement(request, more));
  };

  it('replaces the reservation by the actual cost and writes one row', async () => {
    const ledger = newLedger();
    const request = reservation({ user: 'payer', team: 'red', project: 'apollo', token_id: 't1' });
    await settle(ledger, request, { upstream_ms: 8.5, upstream_request_id: 'req_paid' });
    assert.deepEqual(await balanceOf(database, 'payer'), { spent: 60, reserved: 0 });
    const [row, ...others] = await ledgerRowsOf(database, 'payer');
    assert.equal(others.length, 0);
    const { counter_ids: _, ...seen } = row as typeof row & { counter_ids: unknown };
    const { user: user_email, ...identity } = ledgerIdentity(request);
    const cache = { cache_read_tokens: 3, cache_write_5m_tokens: 2, cache_write_1h_tokens: 1 };
    const absent = {
      billed: null,
      server_tools: null,
      attempts: null,
      cache_requested_ttl: null,
      cache_effective_ttl: null,
    };
    assert.deepEqual(seen, {
      ...{ ...identity, user_email, kind: 'request', status: 200, aborted: false, ...absent },
      ...{ input_tokens: 10, output_tokens: 20, ...cache, cost_nano_usd: 60 },
      provenance: { input: 'upstream', output: 'upstream', cost: 'upstream' },
      ...{ upstream_ms: 8.5, upstream_request_id: 'req_paid' },
      ...{ forwarded_at: new Date(start), settled_at: new Date(start) },
    });
  });

  it('without a reservation still counts, for the user and the team', async () => {
    const request = reservation({ user: 'walk-in', team: 'walk-ins' });
    const ledger = newLedger();
    const first = ledger.settle(settlement(request, { reserved: false }));
    await Promise.all([first, ledger.settle(settlement(request, { reserved: false }))]);
    await newLedger().settle(settlement(request, { reserved: false }));
    assert.equal((await ledgerRowsOf(database, 'walk-in')).length, 1);
    assert.equal((await balanceOf(database, 'walk-in')).spent, 60);
    const found = (await countersOf(database, 'walk-ins')).map(({ window_kind, spent }) => ({ window_kind, spent }));
    assert.deepEqual(found, [{ window_kind: 'month', spent: 60 }]);
  });

  it('is written even with invalid numbers', async () => {
    const tokens = { input: Number.NaN, output: -5, cache_read: 1.5, cache_write_5m: 2 ** 60, cache_write_1h: 7 };
    await settle(newLedger(), reservation({ user: 'nonsense' }), {
      tokens,
      cost_nano_usd: Number.NaN,
      status: Number.NaN,
    });
    const [row] = await ledgerRowsOf(database, 'nonsense');
    assert.equal(row?.cost_nano_usd, 100);
    assert.equal(row?.status, null);
    assert.equal(row?.provenance.cost, 'estimate');
  });

  it('with text that PostgreSQL cannot store fails neither itself nor its batch', async () => {
    const ledger = newLedger();
    const good = reservation({ user: 'neighbour' });
    const odd = reservation({ user: 'odd', project: 'nul\0 and half a pair \ud83d' });
    await Promise.all([ledger.reserve(good), ledger.reserve(odd)]);
    await Promise.all([ledger.settle(settlement(good)), ledger.settle(settlement(odd))]);
    assert.equal((await ledgerRowsOf(database, 'neighbour')).length, 1);
    assert.equal((await ledgerRowsOf(database, 'odd'))[0]?.project, 'nul\ufffd and half a pair \ufffd');
  });

  it('creates a missing month partition, and moves early rows into it', async () => {
    const clock = frozenClock('2031-05-05T00:00:00Z');
    const ledger = newLedger({ clock });
    await settle(ledger, reservation({ user: 'early' }));
    const where = 'select tableoid::regclass::text as partition from ledger where user_email = $1';
    assert.deepEqual(await database.query('test_where', where, ['early']), [{ partition: 'ledger_default' }]);
    await ledger.beat();
    assert.deepEqual(await database.query('test_where', where, ['early']), [{ partition: 'ledger_2031_05' }]);
  });
});

describe('a granted reservation', () => {
  it('reports every money limit including itself, and no other limit', async () => {
    const ledger = newLedger();
    const demands: LimitDemand[] = [
      userDemand('reported', null),
      { ...userDemand('reported', 500), window: 'week', rule: 'weekly' },
      { ...userDemand('reported', 900), window: 'month', rule: 'monthly' },
      { ...userDemand('reported', 700), window: 'month', rule: 'monthly too' },
      { ...userDemand('reported', 5), window: 'month', rule: 'trial', shadow: true },
      { ...userDemand('reported', 5), window: 'open', unit: 'requests', rule: 'at once' },
    ];
    const before = reservation({ user: 'reported', demands });
    await ledger.reserve(before);
    await ledger.settle(settlement(before));
    const { statuses } = await ledger.reserve(reservation({ user: 'reported', demands }));
    const week = { window: 'week', rule: 'weekly', limit: 500, resets_at: Date.parse('2026-03-16T00:00:00Z') };
    const month = { window: 'month', rule: 'monthly', limit: 900, resets_at: Date.parse('2026-04-01T00:00:00Z') };
    const counted = {
      scope: 'user',
      key: 'reported',
      unit: 'nano_usd',
      spent: 60,
      reserved: 100,
      in_flight: 1,
      most: 100,
    };
    assert.deepEqual(statuses, [
      { ...counted, ...week },
      { ...counted, ...month },
      { ...counted, ...month, rule: 'monthly too', limit: 700 },
    ]);
  });
});

describe('several limits without headroom', () => {
  it('are all reported: the latest reset first, and the smallest limit per window', async () => {
    const demands = [
      on('many', 'open', 'requests', 0),
      ...[on('many', 'day', 'nano_usd', 9), on('many', 'month', 'nano_usd', 9)],
      ...[on('many', 'minute', 'tokens', 0), on('many', 'month', 'nano_usd', 8)],
    ];
    const { exceeded } = await newLedger().reserve(reservation({ user: 'many', tokens: 1, demands }));
    const found = exceeded.map(({ window, limit }) => `${window} ${limit}`);
    assert.deepEqual(found, ['month 8', 'month 9', 'day 9', 'minute 0', 'open 0']);
  });
});

describe('a limit in shadow mode', () => {
  const shadow = (key: string, limit: number, rule = `trial-${limit}`): LimitDemand => ({
    ...userDemand(key, limit),
    rule,
    shadow: true,
  });

  async function reserve(ledger: DatabaseLedger, demands: readonly LimitDemand[]) {
    const { exceeded, shadows } = await ledger.reserve(reservation({ user: demands[0]!.key, demands }));
    return { refusal: exceeded[0]?.rule, reported: shadows };
  }

  it('rejects nothing, and is reported each time it would have', async () => {
    const ledger = newLedger();
    const demands = [shadow('trial', 150)];
    assert.deepEqual(await reserve(ledger, demands), { refusal: undefined, reported: [] });
    const { refusal, reported } = await reserve(ledger, demands);
    assert.equal(refusal, undefined);
    assert.deepEqual(reported, [
      {
        scope: 'user',
        key: 'trial',
        window: 'day',
        unit: 'nano_usd',
        rule: 'trial-150',
        limit: 150,
        spent: 0,
        reserved: 100,
        in_flight: 1,
        most: 100,
        resets_at: Date.parse('2026-03-11T00:00:00Z'),
      },
    ]);
    assert.equal((await balanceOf(database, 'trial')).reserved, 200);
  });

  it('is not reported for a request that another limit rejects', async () => {
    const demands = [shadow('both', 50), userDemand('both', 60)];
    assert.deepEqual(await reserve(newLedger(), demands), { refusal: 'daily', reported: [] });
  });

  it('evaluates the requests of a batch in order, and rejects none of them', async () => {
    const ledger = newLedger();
    const trial = [shadow('batch', 300)];
    const real = [userDemand('batch-2', 300)];
    const responses = await Promise.all(
      Array.from({ length: 10 }, (_, i) => reserve(ledger, i % 2 === 0 ? trial : real)),
    );
    assert.equal(responses.filter(({ reported }) => reported.length > 0).length, 2);
    assert.equal(responses.filter(({ refusal }) => refusal !== undefined).length, 2);
    assert.equal((await balanceOf(database, 'batch')).reserved, 500);
    assert.equal((await balanceOf(database, 'batch-2')).reserved, 300);
  });
});

it('a week begins on Monday, in the time zone', async () => {
  const clock = frozenClock('2026-03-15T22:59:59Z');
  const ledger = newLedger({ clock, time_zone: () => 'Europe/Berlin' });
  const demands = [on('weekly', 'week', 'nano_usd', 100)];
  assertGranted(await ledger.reserve(reservation({ user: 'weekly', demands })));
  const { exceeded } = await ledger.reserve(reservation({ user: 'weekly', demands }));
  assert.equal(exceeded[0]?.resets_at, Date.parse('2026-03-15T23:00:00Z'));
  clock.advance(1000);
  assertGranted(await ledger.reserve(reservation({ user: 'weekly', demands })));
  const starts = (await countersOf(database, 'weekly')).map(({ window_start }) => window_start);
  assert.deepEqual(starts, ['2026-03-08T23:00:00.000Z', '2026-03-15T23:00:00.000Z']);
});

describe('a concurrency limit', () => {
  it('has headroom again as soon as a request ends, for any outcome', async () => {
    const ledger = newLedger();
    const demands = [userDemand('busy', null), on('busy', 'open', 'requests', 2)];
    const make = () => reservation({ user: 'busy', demands });
    const [first, second] = [make(), make()];
    assertGranted(await ledger.reserve(first));
    assertGranted(await ledger.reserve(second));
    const { exceeded } = await ledger.reserve(make());
    assert.deepEqual(exceeded, [
      {
        ...{ scope: 'user', key: 'busy', window: 'open', unit: 'requests', rule: '2 requests', limit: 2 },
        ...{ spent: 0, reserved: 2, in_flight: 2, most: 2, resets_at: null },
      },
    ]);
    await ledger.settle(settlement(first));
    assertGranted(await ledger.reserve(make()));
    await ledger.release(second.request_id);
    assertGranted(await ledger.reserve(make()));
    assert.equal((await ledger.reserve(make())).exceeded.length, 1);
    const [, counter] = await counterStatesOf(database, 'busy');
    assert.deepEqual(counter, {
      ...{ scope: 'user', window_kind: 'open', unit: 'requests', window_start: '-infinity' },
      ...{ spent: 0, reserved: 2, most: 2, in_flight: 2 },
    });
  });

  it('applies across gateways, and never resets', async () => {
    const clock = frozenClock('2026-03-10T23:59:59Z');
    const ledgers = [newLedger({ clock }), newLedger({ clock, database: await store.another() })];
    const demands = [on('all-over', 'open', 'requests', 5)];
    const reserve = (i: number) => ledgers[i % 2]!.reserve(reservation({ user: 'all-over', demands }));
    const responses = await Promise.all(Array.from({ length: 40 }, (_, i) => reserve(i)));
    assert.equal(responses.filter(({ exceeded }) => exceeded.length === 0).length, 5);
    clock.advance(40 * 24 * 3_600_000);
    assert.equal((await reserve(0)).exceeded.length, 1);
  });

  it('frees a slot without batching delay, for any gateway', async () => {
    let exchanges = 0;
    const counting: Pick<Database, 'query'> = {
      query(name, text, values) {
        if (name === 'ledger_batch') exchanges++;
        return database.query(name, text, values);
      },
    };
    const ledger = newLedger({ database: counting });
    const once = on('swift', 'open', 'requests', 1);
    for (const [demands, sent] of [
      [[userDemand('swift', null), once], 1],
      [[userDemand('swift', null)], 0],
    ] as const) {
      const request = reservation({ user: 'swift', demands });
      assertGranted(await ledger.reserve(request));
      exchanges = 0;
      const settled = ledger.settle(settlement(request));
      // Work without a wait is on its way after one turn of the event loop.
      await new Promise(setImmediate);
      assert.equal(exchanges, sent);
      await settled;
    }
  });
});

describe('limits by minute', () => {
  it('count a forwarded request from its start until the minute is over', async () => {
    const clock = frozenClock('2026-03-10T12:00:30Z');
    const ledger = newLedger({ clock });
    const demands = [userDemand('quick', null), on('quick', 'minute', 'requests', 2)];
    const make = () => reservation({ user: 'quick', demands });
    const [first, never_left] = [make(), make()];
    assertGranted(await ledger.reserve(first));
    assertGranted(await ledger.reserve(never_left));
    await ledger.release(never_left.request_id);
    assertGranted(await ledger.reserve(make()));
    await ledger.settle(settlement(first));
    const { exceeded } = await ledger.reserve(make());
    const found = exceeded.map(({ spent, reserved, resets_at }) => ({ spent, reserved, resets_at }));
    assert.deepEqual(found, [{ spent: 1, reserved: 1, resets_at: Date.parse('2026-03-10T12:01:00Z') }]);
    clock.advance(30_000);
    assertGranted(await ledger.reserve(make()));
  });

  it('are not named by the ledger row, and are consistent', async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const ledger = newLedger({ clock });
    const [at_once, a_minute] = [on('row', 'open', 'requests', 5), on('row', 'minute', 'requests', 5)];
    const demands = [a_minute, at_once, on('row', 'minute', 'tokens', 500), userDemand('row', 1000)];
    const request = reservation({ user: 'row', tokens: 400, demands });
    await ledger.reserve(request);
    const adds_up = async () => (await verifyLedger({ database, clock })).differences;
    assert.deepEqual(await adds_up(), { total: 0, first: [] });
    await ledger.settle(settlement(request));
    assert.deepEqual(await adds_up(), { total: 0, first: [] });
    const [row] = await ledgerRowsOf(database, 'row');
    const { counter_ids } = row as typeof row & { counter_ids: number[] };
    assert.equal(counter_ids.length, 1);
    assert.deepEqual(
      (await counterStatesOf(database, 'row')).map(({ window_kind, unit, spent }) => [window_kind, unit, spent]),
      [
        ['day', 'nano_usd', 60],
        ['minute', 'requests', 1],
        ['minute', 'tokens', 36],
        ['open', 'requests', 0],
      ],
    );
  });

  it('are deleted two hours later, unless a request in flight uses them', async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const ledger = newLedger({ clock });
    const request = (user: string) => reservation({ user, demands: [on(user, 'minute', 'requests', 5)] });
    const [over, under_way] = [request('over'), request('under-way')];
    await Promise.all([ledger.reserve(over), ledger.reserve(under_way)]);
    await ledger.settle(settlement(over));
    const left = async () => [
      (await countersOf(database, 'over')).length,
      (await countersOf(database, 'under-way')).length,
    ];
    clock.advance(2 * 3_600_000);
    await newLedger({ clock }).beat();
    assert.deepEqual(await left(), [1, 1]);
    clock.advance(1);
    await newLedger({ clock }).beat();
    assert.deepEqual(await left(), [0, 1]);
  });
});

describe('typical reservations', () => {
  const clock = frozenClock(start);

  /** A request that reserves 10 of its possible 100, under a limit that 20 % may exceed. */
  function typical(user: string, limit: number, more: Partial<ReservationRequest> = {}): ReservationRequest {
    const demands: LimitDemand[] = [userDemand(user, limit)];
    return reservation({ user, amount_nano_usd: 10, most_nano_usd: 100, overshoot_percent: 20, demands, ...more });
  }

  const stateOf = async (user: string) => {
    const [{ spent, reserved, most, in_flight }] = (await counterStatesOf(database, user)) as [never];
    return { spent, reserved, most, in_flight };
  };

  describe('a top-up', () => {
    const containingFact = async (user: string) => (await stateOf(user)).reserved;

    it('raises the reserved amount up to the worst case, and never lowers it', async () => {
      const ledger = newLedger({ clock });
      const request = typical('topped', 500);
      await ledger.reserve(request);
      for (const [amount, reserved] of [
        [40, 40],
        [30, 40],
        [1000, 100],
      ] as const) {
        ledger.topUp(request.request_id, amount);
        // A later statement on the same connection must pass.
        const marker = typical('marker', 10 ** 6);
        await ledger.reserve(marker);
        ledger.topUp(marker.request_id, 11);
        await until('the top-up is seen', async () => (await containingFact('marker')) % 10 === 1);
        await ledger.release(marker.request_id);
        assert.equal(await containingFact('topped'), reserved);
      }
      assert.deepEqual((await verifyLedger({ database, clock })).differences, { total: 0, first: [] });
      assert.deepEqual(await stateOf('topped'), { spent: 0, reserved: 100, most: 100, in_flight: 1 });
      await ledger.settle(settlement(request, { cost_nano_usd: 70 }));
      assert.deepEqual(await stateOf('topped'), { spent: 70, reserved: 0, most: 0, in_flight: 0 });
    });

    it('of a finished or unknown request changes nothing', async () => {
      const ledger = newLedger({ clock });
      const [over, next] = [typical('too-late', 500), typical('too-late', 500)];
      await ledger.reserve(over);
      await ledger.settle(settlement(over, { cost_nano_usd: 5 }));
      await ledger.reserve(next);
      for (const id of [over.request_id, 'nobody knows it']) ledger.topUp(id, 50);
      ledger.topUp(next.request_id, 12);
      await until('the top-up is seen', async () => (await containingFact('too-late')) === 12);
      assert.deepEqual(await stateOf('too-late'), { spent: 5, reserved: 12, most: 100, in_flight: 1 });
    });

    it('is the recorded cost of an orphan', async () => {
      const ledger = newLedger({ clock });
      const request = typical('left-behind', 500);
      await ledger.reserve(request);
      ledger.topUp(request.request_id, 55);
      await until('the top-up is seen', async () => (await containingFact('left-behind')) === 55);
      clock.advance(31_000);
      await newLedger({ clock }).recover();
      assert.equal((await ledgerRowsOf(database, 'left-behind'))[0]?.cost_nano_usd, 55);
      assert.deepEqual(await stateOf('left-behind'), { spent: 55, reserved: 0, most: 0, in_flight: 0 });
    });

    it('of an invalid amount is rejected', () => {
      const ledger = newLedger({ clock });
      for (const amount of [-1, 0.5, Number.NaN]) assert.throws(() => ledger.topUp('any', amount), RangeError);
    });
  });

  describe('the typical cost of a request', () => {
    /** Settles some requests of a caller to a model of its own. */
    async function learn(ledger: DatabaseLedger, user: string, many: number, cost_nano_usd: number, cost: Provenance) {
      for (let i = 0; i < many; i++) {
        const request = reservation({ user, model: `for ${user}` });
        await ledger.reserve(request);
        await ledger.settle(settlement(request, { cost_nano_usd, provenance: { cost } }));
      }
    }
    const typicalCost = (ledger: DatabaseLedger, user: string) => ledger.typicalCost(user, `for ${user}`);
    const assertAbout1000 = (cost: number | undefined) => assert.ok(cost! >= 1000 && cost! <= 1100, String(cost));

    it('is learned from usage reported by the upstream only', async () => {
      const ledger = newLedger({ clock });
      await learn(ledger, 'learner', 19, 1000, 'upstream');
      await learn(ledger, 'learner', 5, 10 ** 6, 'estimate');
      assert.equal(typicalCost(ledger, 'learner'), undefined);
      await learn(ledger, 'learner', 1, 1000, 'upstream');
      assertAbout1000(typicalCost(ledger, 'learner'));
    });

    it('is not learned from free requests, such as token counting and upstream errors', async () => {
      const ledger = newLedger({ clock });
      await learn(ledger, 'counter', 20, 1000, 'upstream');
      await Promise.all(Array.from({ length: 50 }, () => learn(ledger, 'counter', 10, 0, 'upstream')));
      assertAbout1000(typicalCost(ledger, 'counter'));
      const next = newLedger({ clock });
      await next.beat();
      assertAbout1000(typicalCost(next, 'counter'));
    });

    it('is loaded at the start from the last day of the ledger', async () => {
      await learn(newLedger({ clock }), 'heir', 20, 1000, 'upstream');
      await learn(newLedger({ clock }), 'heir', 20, 10 ** 6, 'abort');
      const next = newLedger({ clock });
      assert.equal(typicalCost(next, 'heir'), undefined);
      await next.beat();
      assertAbout1000(typicalCost(next, 'heir'));
      const later = newLedger({ clock: frozenClock(Date.parse(start) + 25 * 3_600_000) });
      await later.beat();
      assert.equal(typicalCost(later, 'heir'), undefined);
    });
  });
});

describe('run-time changes', () => {
  const HOUR_MS = 3_600_000;
  const DAY_ENDS = Date.parse('2026-03-11T00:00:00Z');
  const clock = frozenClock(start);

  async function set(key: string, amount: number | null, window = 'day', unit = 'nano_usd'): Promise<void> {
    const limits = database.knex('limit_settings');
    const name = { scope: 'user', key, window_kind: window, unit };
    await database.knex('limit_settings').where(name).delete();
    if (amount !== null) await limits.insert({ ...name, amount, set_at: new Date(start), set_by: 'test' });
  }

  async function grant(id: string, key: string, amount: number, hours: number, more: object = {}): Promise<void> {
    await database.knex('limit_grants').insert({
      ...{ id, scope: 'user', key, window_kind: 'day', unit: 'nano_usd', amount, granted_by: 'test' },
      granted_at: new Date(clock.now()),
      expires_at: new Date(clock.now() + hours * HOUR_MS),
      ...more,
    });
  }

  /** How many of some requests of 100 are admitted. */
  async function room(user: string, demands: readonly LimitDemand[], ledger = newLedger({ clock })): Promise<number> {
    const requests = Array.from({ length: 12 }, () => reservation({ user, demands }));
    const responses = await Promise.all(requests.map((request) => ledger.reserve(request)));
    const granted = requests.filter((_, i) => responses[i]!.exceeded.length === 0);
    await Promise.all(granted.map(({ request_id }) => ledger.release(request_id)));
    return granted.length;
  }

  describe('a limit that was set at run time', () => {
    it('is reported as one limit in rejections and reservations', async () => {
      const ledger = newLedger({ clock });
      const demands = [userDemand('one', 300), { ...userDemand('one', 900), rule: 'larger' }];
      await set('one', 150);
      const { statuses } = await ledger.reserve(reservation({ user: 'one', demands }));
      const rule = 'set at run time';
      const reported = { scope: 'user', key: 'one', window: 'day', unit: 'nano_usd', rule, limit: 150 };
      const state = { spent: 0, reserved: 100, in_flight: 1, most: 100, resets_at: DAY_ENDS };
      assert.deepEqual(statuses, [{ ...reported, ...state }]);
      const { exceeded } = await ledger.reserve(reservation({ user: 'one', demands }));
      assert.deepEqual(exceeded, [{ ...reported, ...state }]);
    });

    it('does not change a limit in shadow mode', async () => {
      await set('tried', 10_000);
      const demands = [{ ...userDemand('tried', 50), shadow: true }];
      const { shadows } = await newLedger({ clock }).reserve(reservation({ user: 'tried', demands }));
      const limits = shadows.map(({ limit }) => limit);
      assert.deepEqual(limits, [50]);
    });
  });

  describe('a grant', () => {
    it('adds headroom until it expires, on top of other grants', async () => {
      const demands = [userDemand('granted', 300)];
      await grant('g-1', 'granted', 200, 1);
      await grant('g-2', 'granted', 100, 2);
      assert.equal(await room('granted', demands), 6);
      clock.advance(HOUR_MS - 1);
      assert.equal(await room('granted', demands), 6);
      clock.advance(1);
      assert.equal(await room('granted', demands), 4);
      await database
        .knex('limit_grants')
        .where({ id: 'g-2' })
        .update({ revoked_at: new Date(start) });
      assert.equal(await room('granted', demands), 3);
    });

    it('does not begin before its time', async () => {
      await grant('g-5', 'soon', 200, 10, { granted_at: new Date(clock.now() + 1) });
      assert.equal(await room('soon', [userDemand('soon', 100)]), 1);
      clock.advance(1);
      assert.equal(await room('soon', [userDemand('soon', 100)]), 3);
    });
  });

  describe('statuses', () => {
    it('report money counters in the order of the input, also without a limit', async () => {
      const ledger = newLedger({ clock });
      const demands: LimitDemand[] = [
        teamDemand('shown', 900),
        { ...userDemand('shown', 5), window: 'open', unit: 'requests' },
        userDemand('shown', null),
        { ...userDemand('shown', 5), window: 'week', shadow: true },
        { ...userDemand('shown', 700), window: 'week' },
      ];
      await ledger.reserve(
        reservation({ user: 'shown', amount_nano_usd: 10, most_nano_usd: 80, overshoot_percent: 5, demands }),
      );
      await set('shown', 400, 'week');
      await grant('g-6', 'shown', 50, 1, { window_kind: 'week' });
      const at = { unit: 'nano_usd', key: 'shown', spent: 0, reserved: 10, in_flight: 1, most: 80 };
      const week_ends = Date.parse('2026-03-16T00:00:00Z');
      const month_ends = Date.parse('2026-04-01T00:00:00Z');
      assert.deepEqual(await ledger.statuses(demands), [
        { ...at, scope: 'team', window: 'month', rule: 'monthly', limit: 900, resets_at: month_ends },
        { ...at, scope: 'user', window: 'day', rule: 'daily', limit: null, resets_at: DAY_ENDS },
        {
          ...at,
          ...{ scope: 'user', window: 'week', rule: 'set at run time', limit: 450, granted: 50, resets_at: week_ends },
        },
      ]);
    });

    it('are zero for unused limits, and create no counters', async () => {
      const [limit_status, ...others] = await newLedger({ clock }).statuses([userDemand('unseen', 10)]);
      assert.deepEqual(
        [limit_status?.spent, limit_status?.reserved, limit_status?.limit, others.length],
        [0, 0, 10, 0],
      );
      assert.deepEqual(await database.knex('spend_counters').where({ key: 'unseen' }), []);
      assert.deepEqual(await newLedger({ clock }).statuses([]), []);
    });

    it('raise store_unavailable while the store is away', async () => {
      const away = { query: () => Promise.reject(Object.assign(new Error('away'), { code: 'ECONNREFUSED' })) };
      const ledger = newLedger({ database: away });
      await assert.rejects(ledger.statuses([userDemand('x', 1)]), { code: 'store_unavailable' });
    });
  });
});

const AT = Date.parse('2026-03-09T23:00:00Z');

let database_id: string | undefined;
beforeEach(async () => {
  database_id ??= await impatientLedger().databaseId();
});

/** A store whose exchanges wait until they are released. */
function gatedStore(): Pick<Database, 'query'> & { readonly waiting: number; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let waiting = 0;
  return {
    async query<Row>(name: string, text: string, values: readonly unknown[]): Promise<Row[]> {
      if (name === 'ledger_batch') {
        waiting++;
        await promise;
      }
      return database.query<Row>(name, text, values);
    },
    get waiting() {
      return waiting;
    },
    open: resolve,
  };
}

/** Settles a request without a reservation, on the counters of its demands. */
const settleAt = (ledger: DatabaseLedger, request: ReservationRequest, at_ms = AT, outcome = settlement(request)) =>
  ledger.settleAt(outcome, request.demands, at_ms, database_id!);

function impatientLedger(clock = frozenClock(start), store: Pick<Database, 'query'> = database): DatabaseLedger {
  return newLedger({ database: store, clock, reserve_timeout_ms: () => 2000 });
}

describe('a reservation whose response from the store is late', () => {
  async function giveUp(user: string) {
    const clock = frozenClock(start);
    const store = gatedStore();
    const ledger = impatientLedger(clock, store);
    const request = reservation({ user });
    const queued = reservation({ user });
    const failed = assert.rejects(ledger.reserve(request), { code: 'store_unavailable' });
    await until('the statement is on its way', async () => store.waiting === 1);
    const failed_too = assert.rejects(ledger.reserve(queued), { code: 'store_unavailable' });
    clock.advance(2000);
    return { clock, store, ledger, request, queued, over: () => Promise.all([failed, failed_too]) };
  }

  it('fails, is released if it was placed after all, and is never placed if still queued', async () => {
    const { store, ledger, over } = await giveUp('impatient');
    await over();
    store.open();
    assertGranted(await ledger.reserve(reservation({ user: 'other' })));
    await until('it is released', async () => (await balanceOf(database, 'impatient')).reserved === 0);
    const left = await database.knex('reservations').where({ user_email: 'impatient' });
    assert.deepEqual(left, []);
    assert.equal(store.waiting, 2);
  });

  it('is kept and settled if the request was forwarded anyway', async () => {
    const { clock, store, ledger, request, over } = await giveUp('kept');
    await over();
    ledger.keep(request.request_id);
    store.open();
    assertGranted(await ledger.reserve(reservation({ user: 'other' })));
    await ledger.beat();
    assert.equal((await balanceOf(database, 'kept')).reserved, 100);
    assert.equal(await settleAt(ledger, request, clock.now()), true);
    ledger.forget(request.request_id);
    await ledger.beat();
    assert.deepEqual(await balanceOf(database, 'kept'), { spent: 60, reserved: 0 });
    assert.equal((await ledgerRowsOf(database, 'kept')).length, 1);
  });

  it('that was settled before it was placed is released, and never counted twice', async () => {
    for (const how of ['a beat', 'a successor'] as const) {
      const user = `overtaken by ${how}`;
      const { clock, store, ledger, request, over } = await giveUp(user);
      await over();
      ledger.keep(request.request_id);
      assert.equal(await settleAt(impatientLedger(clock), request, clock.now()), true);
      store.open();
      assertGranted(await ledger.reserve(reservation({ user: 'other' })));
      assert.deepEqual(await balanceOf(database, user), { spent: 60, reserved: 100 });
      if (how === 'a beat') {
        ledger.forget(request.request_id);
        await ledger.beat();
      } else {
        clock.advance(31_000);
        await impatientLedger(clock).recover();
      }
      assert.deepEqual(await balanceOf(database, user), { spent: 60, reserved: 0 });
      assert.equal((await ledgerRowsOf(database, user)).length, 1);
    }
  });
});

describe('a settlement of an earlier time', () => {
  it('counts in the windows of that time, on its money counters', async () => {
    const ledger = impatientLedger();
    const demands = [teamDemand('lates', 5), userDemand('late', 5), on('late', 'minute', 'requests', 5)];
    assert.equal(await settleAt(ledger, reservation({ user: 'late', team: 'lates', demands })), true);
    assert.deepEqual(await countersOf(database, 'late'), [
      { window_kind: 'day', window_start: '2026-03-09T00:00:00.000Z', spent: 60, reserved: 0 },
    ]);
    assert.deepEqual(await countersOf(database, 'lates'), [
      { window_kind: 'month', window_start: '2026-03-01T00:00:00.000Z', spent: 60, reserved: 0 },
    ]);
    const [row] = await ledgerRowsOf(database, 'late');
    const { forwarded_at, settled_at } = row as typeof row & { forwarded_at: Date; settled_at: Date };
    assert.deepEqual([forwarded_at, settled_at], [new Date(AT), new Date(start)]);
  });

  it("counts now if the gateway's clock is fast", async () => {
    const request = reservation({ user: 'ahead' });
    const two_days_ahead = Date.parse(start) + 48 * 3_600_000;
    assert.equal(await settleAt(impatientLedger(), request, two_days_ahead), true);
    assert.equal((await countersOf(database, 'ahead'))[0]?.window_start, '2026-03-10T00:00:00.000Z');
    const [row] = await database.knex('ledger').where({ request_id: request.request_id });
    assert.equal(row.forwarded_at.toISOString(), new Date(start).toISOString());
  });

  it('is written once, for any number of retries on any process', async () => {
    const clock = frozenClock(start);
    const request = reservation({ user: 'again' });
    const tries = Array.from({ length: 8 }, (_, i) =>
      settleAt(impatientLedger(clock), request, AT, settlement(request, { cost_nano_usd: 60 + i })),
    );
    const written = await Promise.all(tries);
    assert.equal(written.filter((each) => each).length, 1);
    clock.advance(28 * 24 * 3_600_000);
    assert.equal(await settleAt(impatientLedger(clock), request), false);
    const rows = await ledgerRowsOf(database, 'again');
    assert.equal(rows.length, 1);
    assert.equal((await balanceOf(database, 'again')).spent, rows[0]!.cost_nano_usd);
    const { differences } = await verifyLedger({ database, clock });
    assert.deepEqual(differences, { total: 0, first: [] });
  });
});

/** Moves of reservations that go wrong, in the database; how they go right: test/simulate/ledger-contract.test.ts. */

const LATE_EVENING = '2026-03-10T23:59:30Z';

function movingLedger(store: Pick<Database, 'query'> = database, clock = frozenClock(LATE_EVENING)): DatabaseLedger {
  return newLedger({ database: store, clock });
}

/** A gateway's actions for one that has been silent for too long. */
async function inherit(clock: FrozenClock): Promise<void> {
  const heir = newLedger({ clock });
  await heir.beat();
  clock.advance(31_000);
  await heir.beat();
  await heir.recover();
}

/** A request of a user to an upstream, with a limit on either. */
function at(user: string, upstream: string, limit = 1000) {
  const demands = [userDemand(user, limit), { ...userDemand(`${user}-${upstream}`, limit), scope: 'upstream' }];
  return reservation({ request_id: user, user, upstream, demands });
}

const RESERVED: ChargedAttempt = {
  ...{ n: 1, upstream: 'main', upstream_model: 'coder-1', certainty: 'possibly_accepted', status: null, sends: 1 },
  ...{ outcome: 'unanswered', reason: 'next_unconfirmed', ms: 5, cost_nano_usd: 30, provenance: 'possible' },
};

async function assertAddsUp(): Promise<void> {
  const { differences, repeated, attempts } = await verifyLedger({ database, clock: frozenClock(LATE_EVENING) });
  assert.deepEqual([differences.total, repeated.total, attempts.total], [0, 0, 0]);
}

describe('a reservation whose move', () => {
  for (const moment of ['before', 'after'] as const) {
    it(`is lost ${moment} the database executed it fails with store_unavailable, and a retry to another upstream succeeds`, async () => {
      const user = `lost-${moment}`;
      const ledger = movingLedger(spoiltStore(database, 'ledger_move', 1, moment));
      const { reservation: reserved } = await ledger.reserve(at(user, 'main'));
      await assert.rejects(reserved!.move(at(user, 'spare'), [RESERVED]), { code: 'store_unavailable' });
      await assertAddsUp();
      assert.deepEqual((await reserved!.move(at(user, 'third'), [RESERVED])).exceeded, []);
      assert.deepEqual(await balanceOf(database, user), { spent: 0, reserved: 130 });
      assert.deepEqual(await balanceOf(database, `${user}-main`), { spent: 0, reserved: 30 });
      const third = { ...RESERVED, n: 2, upstream: 'third', outcome: 'answered', cost_nano_usd: 60 };
      await reserved!.settle(settlement(at(user, 'third'), { cost_nano_usd: 90, attempts: [RESERVED, third] }));
      assert.deepEqual(await balanceOf(database, user), { spent: 90, reserved: 0 });
      assert.deepEqual(await balanceOf(database, `${user}-main`), { spent: 30, reserved: 0 });
      assert.deepEqual(await balanceOf(database, `${user}-third`), { spent: 60, reserved: 0 });
      await assertAddsUp();
    });
  }

  it('happens after midnight counts in the window of the request, and at the new upstream in the new day', async () => {
    const clock = frozenClock(LATE_EVENING);
    const ledger = movingLedger(database, clock);
    const { reservation: reserved } = await ledger.reserve(at('midnight', 'main'));
    clock.advance(60_000);
    await reserved!.move(at('midnight', 'spare'));
    const rows = await database.knex('spend_counters').where('key', 'like', 'midnight%').orderBy('key');
    const day = (moment: Date) => moment.toISOString().slice(0, 10);
    assert.deepEqual(
      rows.filter(({ reserved }) => Number(reserved) > 0).map(({ key, window_start }) => [key, day(window_start)]),
      [
        ['midnight', '2026-03-10'],
        ['midnight-spare', '2026-03-11'],
      ],
    );
    await reserved!.release();
    await assertAddsUp();
  });

  it('needs no more of a limit lowered meanwhile succeeds', async () => {
    const ledger = movingLedger();
    const { reservation: reserved } = await ledger.reserve(at('lowered', 'main'));
    const set = { scope: 'user', key: 'lowered', window_kind: 'day', unit: 'nano_usd', amount: 1, set_by: 'test' };
    await database.knex('limit_settings').insert({ ...set, set_at: new Date(LATE_EVENING) });
    assert.deepEqual((await reserved!.move(at('lowered', 'spare'))).exceeded, []);
    const more = { ...at('lowered', 'third'), amount_nano_usd: 101, most_nano_usd: 101 };
    const { exceeded } = await reserved!.move(more);
    const found = exceeded.map(({ scope, limit }) => [scope, limit]);
    assert.deepEqual(found, [['user', 1]]);
    await reserved!.release();
  });

  it('is rejected reports no limit in shadow mode', async () => {
    const { reservation: reserved } = await movingLedger().reserve(at('tight', 'main'));
    const trial = { ...userDemand('tight-third', 50), rule: 'trial', shadow: true };
    const demands = [userDemand('tight-spare', 50), trial];
    const { exceeded, shadows } = await reserved!.move({ ...at('tight', 'spare'), demands });
    assert.deepEqual([exceeded.map(({ key }) => key), shadows], [['tight-spare'], []]);
    await reserved!.release();
  });
});

describe('a gateway declared dead while it waited for an upstream', () => {
  it('tries no other upstream, because the reservation is gone', async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const paused = movingLedger(database, clock);
    const { reservation: reserved } = await paused.reserve(at('paused', 'main'));
    await inherit(clock);
    await assert.rejects(reserved!.move(at('paused', 'spare'), [RESERVED]), { code: 'store_unavailable' });
    const last = { ...RESERVED, reason: 'exhausted' } as const;
    const outcome = { cost_nano_usd: 30, attempts: [last], provenance: { cost: 'possible' } } as const;
    await reserved!.settle(settlement(at('paused', 'main'), outcome));
    assert.deepEqual(await balanceOf(database, 'paused'), { spent: 30, reserved: 0 });
    assert.deepEqual(await balanceOf(database, 'paused-main'), { spent: 30, reserved: 0 });
    await assertAddsUp();
  });
});

describe('a gateway that died between two attempts', () => {
  it('leaves a row with its known attempts, at the amounts each upstream may bill', async () => {
    const clock = frozenClock(LATE_EVENING);
    const dead = movingLedger(database, clock);
    const { reservation: reserved } = await dead.reserve(at('orphan', 'main'));
    await reserved!.move(at('orphan', 'spare'), [RESERVED]);
    await inherit(clock);
    const columns = ['upstream', 'certainty', 'cost_nano_usd', 'provenance'];
    const rows = await database.knex('ledger_attempts').where({ request_id: 'orphan' }).orderBy('n').select(columns);
    const unheard = { certainty: 'possibly_accepted' };
    assert.deepEqual(rows, [
      { upstream: 'main', ...unheard, cost_nano_usd: 30, provenance: 'possible' },
      { upstream: 'spare', ...unheard, cost_nano_usd: 100, provenance: 'estimate' },
    ]);
    assert.deepEqual(await balanceOf(database, 'orphan'), { spent: 130, reserved: 0 });
    assert.deepEqual(await balanceOf(database, 'orphan-main'), { spent: 30, reserved: 0 });
    await assertAddsUp();
  });

  it('also records attempts without cost, and their possibly billed amounts', async () => {
    const clock = frozenClock(LATE_EVENING);
    const dead = movingLedger(database, clock);
    const { reservation: reserved } = await dead.reserve(at('free', 'main'));
    const nothing = { cost_nano_usd: 0, provenance: 'refused' } as const;
    const refused = { ...RESERVED, outcome: 'overloaded', status: 529, ...nothing };
    await reserved!.move(at('free', 'spare'), [refused]);
    const apart = { cost_nano_usd: 0, provenance: 'estimate', possibly_billed_nano_usd: 30 } as const;
    await reserved!.move(at('free', 'third'), [refused, { ...RESERVED, ...apart, n: 2, upstream: 'spare' }]);
    await inherit(clock);
    const rows = await database.knex('ledger_attempts').where({ request_id: 'free' }).orderBy('n');
    assert.deepEqual(
      rows.map((row) => [row.n, row.upstream, row.outcome, Number(row.cost_nano_usd), row.counter_ids]),
      [
        [1, 'main', 'overloaded', 0, null],
        [2, 'spare', 'unanswered', 0, null],
        [3, 'third', 'unanswered', 100, null],
      ],
    );
    const row = await database.knex('ledger').where({ request_id: 'free' }).first('provenance');
    assert.equal(row.provenance.possibly_billed_nano_usd, 30);
    assert.deepEqual(await balanceOf(database, 'free'), { spent: 100, reserved: 0 });
    await assertAddsUp();
  });
});

describe('failures of the store', () => {
  it('reports the number of unwritten settlements, and the lag', async () => {
    const clock = frozenClock(start);
    const ledger = newLedger({ database: spoiltStore(database, 'settle', 2, 'before'), clock });
    const request = reservation({ user: 'lagging' });
    await ledger.reserve(request);
    assert.deepEqual([ledger.waiting, ledger.lag_ms, ledger.is_alive], [0, 0, true]);
    clock.advance(9000);
    const settled = ledger.settle(settlement(request));
    clock.advance(3000);
    assert.deepEqual([ledger.waiting, ledger.lag_ms], [1, 3000]);
    await settled;
    assert.deepEqual([ledger.waiting, ledger.lag_ms], [0, 0]);
  });

  it('counts a commit once although its reply was lost', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'settle', 1, 'after') });
    const request = reservation({ user: 'unheard' });
    await ledger.reserve(request);
    await Promise.all([
      ledger.settle(settlement(request)),
      ledger.settle(settlement(reservation({ user: 'unheard' }), { reserved: false })),
    ]);
    assert.equal((await ledgerRowsOf(database, 'unheard')).length, 2);
    assert.deepEqual(await balanceOf(database, 'unheard'), { spent: 120, reserved: 0 });
  });

  it('releases a reservation unknown to the process at the next heartbeat, and no other', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'reserve', 1, 'after') });
    await assert.rejects(ledger.reserve(reservation({ user: 'unsure' })), { code: 'store_unavailable' });
    const known = reservation({ user: 'unsure' });
    await ledger.reserve(known);
    assert.equal((await balanceOf(database, 'unsure')).reserved, 200);
    await ledger.beat();
    assert.equal((await balanceOf(database, 'unsure')).reserved, 100);
    await ledger.settle(settlement(known));
    assert.equal((await ledgerRowsOf(database, 'unsure')).length, 1);
  });

  it('retries a failed release', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'ledger_release', 1, 'before') });
    const request = reservation({ user: 'stuck' });
    await ledger.reserve(request);
    await ledger.release(request.request_id);
    await ledger.beat();
    assert.equal((await balanceOf(database, 'stuck')).reserved, 0);
  });

  it('fails only the invalid request of a batch', async () => {
    const ledger = newLedger();
    const twin = reservation({ user: 'twins' });
    const responses = await Promise.allSettled(
      [twin, { ...twin }, reservation({ user: 'twins' })].map((request) => ledger.reserve(request)),
    );
    assert.deepEqual(
      responses.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.equal((await balanceOf(database, 'twins')).reserved, 200);
  });

  it('places no reservation after its deadline, and still settles in the same batch', async () => {
    let reserve_timeout_ms = 60_000;
    const ledger = newLedger({ clock: systemClock, reserve_timeout_ms: () => reserve_timeout_ms });
    const [first, second] = [reservation({ user: 'in time' }), reservation({ user: 'in time' })];
    await ledger.reserve(first);
    reserve_timeout_ms = -60_000;
    const settled = ledger.settle(settlement(first));
    await assert.rejects(ledger.reserve(second), { code: 'store_unavailable' });
    await settled;
    assert.deepEqual(await balanceOf(database, 'in time'), { spent: 60, reserved: 0 });
    assert.equal((await database.knex('reservations').where({ user_email: 'in time' })).length, 0);
  });

  it('writes pending settlements when the ledger closes', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'settle', 2, 'before') });
    const request = reservation({ user: 'hasty' });
    await ledger.reserve(request);
    const settled = ledger.settle(settlement(request));
    await ledger.close();
    await settled;
    assert.equal((await ledgerRowsOf(database, 'hasty')).length, 1);
  });
});

describe('a ledger that closes', () => {
  it('waits for reservations that the database may still place, and not for completed ones', async () => {
    for (const unheard of [0, 1]) {
      let now = 0;
      // Each check takes a second.
      const clock = { ...systemClock, monotonic: () => (now += 1000) };
      const ledger = newLedger({
        clock,
        database: spoiltStore(database, 'reserve', unheard, 'before'),
        reserve_timeout_ms: () => 60_000,
      });
      await ledger.reserve(reservation({ user: 'closing' })).catch(() => {});
      const began = now;
      await ledger.close();
      assert.equal(now - began > 6000, unheard > 0);
    }
  });
});

describe('the orphans of a dead gateway', () => {
  beforeEach(() => database.knex.raw('truncate ledger, reservations, spend_counters'));

  it('become rows at the reserved amount after 30 s without a heartbeat', async () => {
    const clock = frozenClock(start);
    const [dead, alive] = [newLedger({ clock }), newLedger({ clock })];
    const [lost, kept] = [reservation({ user: 'left' }), reservation({ user: 'left' })];
    await Promise.all([dead.reserve(lost), alive.reserve(kept)]);
    clock.advance(29_000);
    await alive.beat();
    assert.equal(await alive.recover(), 0);
    clock.advance(2000);
    assert.equal(await alive.recover(), 1);
    const rows = await ledgerRowsOf(database, 'left');
    const [{ request_id, cost_nano_usd: estimated, status }] = rows as [LedgerRow];
    assert.deepEqual([rows.length, request_id, estimated, status], [1, lost.request_id, 100, null]);
    assert.deepEqual(new Set(Object.values(rows[0]!.provenance)), new Set(['estimate']));
    assert.deepEqual(await balanceOf(database, 'left'), { spent: 100, reserved: 100 });
    // It was only cut off, and returns with its state: once, however often it reports it.
    await Promise.all([dead.settle(settlement(lost)), alive.settle(settlement(lost)), alive.settle(settlement(kept))]);
    await dead.settle(settlement(lost, { cost_nano_usd: 70 }));
    const corrections = await database.knex('ledger').where({ request_id: lost.request_id, kind: 'adjustment' });
    assert.equal(corrections.length, 1);
    const [{ cost_nano_usd, output_tokens, provenance, settled_at }] = corrections;
    assert.deepEqual([Number(cost_nano_usd), Number(output_tokens)], [-40, 20]);
    assert.deepEqual([provenance.cost, provenance.of, provenance.was_nano_usd], ['upstream', 'estimate', 100]);
    assert.equal(settled_at.getTime(), clock.now());
    assert.deepEqual(await balanceOf(database, 'left'), { spent: 120, reserved: 0 });
    const { differences, repeated } = await verifyLedger({ database, clock });
    assert.deepEqual([differences.first.filter(({ key }) => key === 'left'), repeated.first], [[], []]);
  });

  it('are recovered once by several gateways', async () => {
    const clock = frozenClock('2026-04-10T12:00:00Z');
    const [dead, ...alive] = [newLedger({ clock }), newLedger({ clock }), newLedger({ clock })];
    await Promise.all(Array.from({ length: 40 }, () => dead.reserve(reservation({ user: 'searched' }))));
    clock.advance(31_000);
    await Promise.all(alive.map((ledger) => ledger.beat()));
    const found = await Promise.all(alive.map((ledger) => ledger.recover()));
    assert.equal(
      found.reduce((sum, count) => sum + count, 0),
      40,
    );
    assert.equal((await ledgerRowsOf(database, 'searched')).length, 40);
    assert.equal((await balanceOf(database, 'searched')).reserved, 0);
  });

  it('are recovered by the first heartbeat of its successor on the same machine', async () => {
    const { machine } = ownProcess();
    const past_any_process_id = '99999999-1';
    const killed = newLedger({ process: { machine, identity: past_any_process_id } });
    const elsewhere = newLedger({ process: { machine: 'elsewhere', identity: past_any_process_id } });
    const neighbour = newLedger();
    for (const ledger of [killed, elsewhere, neighbour]) await ledger.reserve(reservation({ user: 'killed' }));
    await newLedger().beat();
    assert.equal((await ledgerRowsOf(database, 'killed')).length, 1);
    assert.equal((await balanceOf(database, 'killed')).reserved, 200);
  });

  it('are recovered by a timer, once the process itself has been alive for the timeout', async () => {
    const clock = frozenClock('2026-05-10T12:00:00Z');
    await newLedger({ clock }).reserve(reservation({ user: 'silent' }));
    clock.advance(31_000);
    const timer = manualTimer();
    let beats = 0;
    newLedger({
      clock,
      every: timer.every,
      database: {
        async query(name, text, values) {
          if (name === 'recover_orphans') assert.equal(beats, 6);
          const rows = await database.query<never>(name, text, values);
          if (name === 'process_alive') beats++;
          return rows;
        },
      },
    });
    const found = await until('the orphan is recorded', async () => {
      timer.tick();
      return (await ledgerRowsOf(database, 'silent')).length === 1;
    });
    assert.ok(found);
  });

  it('are left alone right after a start of the database', async () => {
    const lapsed = newLedger({ clock: frozenClock('2026-01-01T00:00:00Z') });
    const request = reservation({ user: 'rebooted' });
    await lapsed.reserve(request);
    const recover = (server_started: string) =>
      database.query('test_recover', "select recover_orphans($1, '{}', '30 s', $2) as orphans", [
        '2026-01-01T00:01:00Z',
        server_started,
      ]);
    assert.deepEqual(await recover('2026-01-01T00:00:31Z'), [{ orphans: 0 }]);
    assert.deepEqual(await recover('2026-01-01T00:00:29Z'), [{ orphans: 1 }]);
  });
});

const costs = fc.array(fc.oneof(fc.nat(), fc.maxSafeNat(), fc.nat(10)), { minLength: 20, maxLength: 300 });

describe('the typical cost of a caller and model', () => {
  it('is at least the cost of 95 of 100 requests, and at most 10 % more than the exact percentile', () => {
    fc.assert(
      fc.property(costs, (all) => {
        const typical = new TypicalCosts();
        for (const cost of all) typical.add('ann', 'coder-1', cost);
        const exact = all.toSorted((a, b) => a - b)[Math.ceil(all.length * 0.95) - 1]!;
        const reported = typical.of('ann', 'coder-1')!;
        assert.ok(Number.isSafeInteger(reported) && reported >= exact, `${reported} < ${exact}`);
        assert.ok(reported <= Math.ceil(exact * 1.1) + 1, `${reported} > ${exact} + 10 %`);
      }),
    );
  });

  it('falls back to all users below 20 samples of the user, and is unknown below 20 in total', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 19; i++) typical.add('ann', 'coder-1', 100);
    assert.equal(typical.of('ann', 'coder-1'), undefined);
    typical.add('bob', 'coder-1', 100);
    assert.ok(typical.of('ann', 'coder-1')! >= 100);
    assert.ok(typical.of('cy', 'coder-1')! >= 100);
    assert.equal(typical.of('ann', 'coder-2'), undefined);
    for (let i = 0; i < 20; i++) typical.add('bob', 'coder-1', 10_000);
    assert.ok(typical.of('bob', 'coder-1')! >= 10_000);
  });

  it('follows a caller whose requests become cheaper', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 1000; i++) typical.add('ann', 'coder-1', 10 ** 9);
    for (let i = 0; i < 6000; i++) typical.add('ann', 'coder-1', 100);
    assert.ok(typical.of('ann', 'coder-1')! <= 110);
  });

  it('keeps names apart, whatever is in them', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 20; i++) typical.add('a b', 'c', 100);
    assert.equal(typical.of('a', 'b c'), undefined);
  });

  it('is evicted for the least recently seen users, which bounds memory', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 20; i++) typical.add('first', 'rare', 100);
    for (let i = 0; i < 5000; i++) typical.add(`user-${i}`, `model-${i}`, 100);
    assert.equal(typical.of('first', 'rare'), undefined);
  });
});
