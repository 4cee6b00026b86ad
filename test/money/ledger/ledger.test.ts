import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ReservationRequest } from '../../../engine/api.ts';
import { frozenClock, systemClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger, type LedgerOptions } from '../../../engine/money/ledger/ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  assertGranted,
  balanceOf,
  countersOf,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  type TestStore,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

const never = () => () => {};
const start = '2026-03-10T12:00:00Z';

let store: TestStore;
let database: Database;
const open = useTestStore((opened) => {
  store = opened;
  database = opened.database;
});

function newLedger(more: Partial<LedgerOptions> = {}): DatabaseLedger {
  const ledger = new DatabaseLedger({ database, clock: frozenClock(start), log: quietLog, every: never, ...more });
  open.push(ledger);
  return ledger;
}

describe('a reservation', () => {
  it('holds the amount against every demand and says nothing', async () => {
    const ledger = newLedger();
    const team = teamDemand('holders', 1000);
    const request = reservation({ user: 'holder', demands: [userDemand('holder', 100), team] });
    assertGranted(await ledger.reserve(request));
    assert.deepEqual(await countersOf(database, 'holder'), [
      { window_kind: 'day', window_start: '2026-03-10T00:00:00.000Z', spent: 0, reserved: 100 },
    ]);
    assert.deepEqual(await countersOf(database, 'holders'), [
      { window_kind: 'month', window_start: '2026-03-01T00:00:00.000Z', spent: 0, reserved: 100 },
    ]);
  });

  it('is granted up to the limit exactly, and refused one nano-USD above it', async () => {
    const ledger = newLedger();
    const demands = [userDemand('exact', 200)];
    assertGranted(await ledger.reserve(reservation({ user: 'exact', demands })));
    assertGranted(await ledger.reserve(reservation({ user: 'exact', demands })));
    const refused = await ledger.reserve(reservation({ user: 'exact', demands, amount_nano_usd: 1 }));
    assert.deepEqual(refused, {
      exceeded: [
        {
          scope: 'user',
          key: 'exact',
          window: 'day',
          unit: 'nano_usd',
          rule: 'daily',
          limit: 200,
          spent: 0,
          reserved: 200,
          in_flight: 2,
          most: 200,
          resets_at: Date.parse('2026-03-11T00:00:00Z'),
        },
      ],
      shadows: [],
      statuses: [],
      unreserved: false,
      decided_at: Date.parse(start),
    });
  });

  it('that is refused leaves nothing behind on any of its demands', async () => {
    const ledger = newLedger();
    const team = teamDemand('small-team', 99);
    const [refusal] = (await ledger.reserve(reservation({ user: 'roomy', demands: [userDemand('roomy', 1000), team] })))
      .exceeded;
    assert.equal(refusal?.key, 'small-team');
    assert.equal((await balanceOf(database, 'roomy')).reserved, 0);
  });

  it('reports the exceeded limit that resets last', async () => {
    const ledger = newLedger();
    const team = teamDemand('poor-team', 1);
    const [refusal] = (await ledger.reserve(reservation({ user: 'poor', demands: [userDemand('poor', 2), team] })))
      .exceeded;
    assert.equal(refusal?.rule, 'monthly');
    assert.equal(refusal?.resets_at, Date.parse('2026-04-01T00:00:00Z'));
  });

  it('counts a demand without a limit and never refuses it', async () => {
    const ledger = newLedger();
    const request = reservation({ user: 'free', amount_nano_usd: 10 ** 15, demands: [userDemand('free', null)] });
    assertGranted(await ledger.reserve(request));
    assert.equal((await balanceOf(database, 'free')).reserved, 10 ** 15);
  });

  it('follows the calendar of the configured time zone', async () => {
    const clock = frozenClock('2026-03-28T23:30:00Z');
    const ledger = newLedger({ clock, time_zone: () => 'Europe/Berlin' });
    const [refusal] = (await ledger.reserve(reservation({ user: 'berlin', demands: [userDemand('berlin', 1)] })))
      .exceeded;
    assert.equal((await countersOf(database, 'berlin'))[0]?.window_start, '2026-03-28T23:00:00.000Z');
    // The day on which summer time begins has 23 hours.
    assert.equal(refusal?.resets_at, Date.parse('2026-03-29T22:00:00Z'));
  });

  it('ends a day that has no midnight at the next one', async () => {
    const time_zone = () => 'Asia/Beirut';
    const clock = frozenClock('2026-03-29T10:00:00Z');
    const ledger = newLedger({ clock, time_zone });
    const poor = () => reservation({ user: 'beirut', demands: [userDemand('beirut', 1)] });
    const [refusal] = (await ledger.reserve(poor())).exceeded;
    // The clock jumps from midnight to one, two hours before midnight in UTC.
    assert.equal((await countersOf(database, 'beirut'))[0]?.window_start, '2026-03-28T22:00:00.000Z');
    assert.equal(refusal?.resets_at, Date.parse('2026-03-29T21:00:00Z'));
    clock.advance(11 * 3_600_000);
    await ledger.reserve(poor());
    assert.equal((await countersOf(database, 'beirut')).at(-1)?.window_start, '2026-03-29T21:00:00.000Z');
  });

  it("takes the time from the database when the clock isn't stopped", async () => {
    const ledger = newLedger({ clock: { ...systemClock, now: () => 0 } });
    const [refusal] = (await ledger.reserve(reservation({ user: 'timely', demands: [userDemand('timely', 1)] })))
      .exceeded;
    const [row] = await database.query<{ now: Date }>('test_now', 'select now()', []);
    const left_ms = refusal!.resets_at! - row!.now.getTime();
    assert.ok(left_ms > -60_000 && left_ms <= 24 * 3_600_000, String(left_ms));
  });

  it('of an impossible amount is refused before it reaches the database', async () => {
    const ledger = newLedger();
    for (const amount_nano_usd of [-1, 0.5, Number.NaN, 2 ** 53]) {
      await assert.rejects(ledger.reserve(reservation({ amount_nano_usd })), RangeError);
    }
  });
});

describe('200 concurrent reservations against room for 50', () => {
  const demands = (user: string) => [userDemand(user, 5000)];

  it('are granted exactly 50 times', async () => {
    const ledger = newLedger();
    const requests = Array.from({ length: 200 }, () => reservation({ user: 'crowd', demands: demands('crowd') }));
    const answers = await Promise.all(requests.map((request) => ledger.reserve(request)));
    assert.equal(answers.filter(({ exceeded }) => exceeded.length === 0).length, 50);
    assert.equal((await balanceOf(database, 'crowd')).reserved, 5000);
  });

  it('are granted exactly 50 times by two gateways together', async () => {
    const ledgers = [newLedger(), newLedger({ database: await store.another() })];
    const requests = Array.from({ length: 200 }, () => reservation({ user: 'crowd-2', demands: demands('crowd-2') }));
    const answers = await Promise.all(requests.map((request, i) => ledgers[i % 2]!.reserve(request)));
    const granted = requests.filter((_, i) => answers[i]!.exceeded.length === 0);
    assert.equal(granted.length, 50);
    await Promise.all(granted.map((request, i) => ledgers[i % 2]!.settle(settlement(request))));
    assert.deepEqual(await balanceOf(database, 'crowd-2'), { spent: 50 * 60, reserved: 0 });
  });

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

  it('turns the reservation into the true cost and writes one row', async () => {
    const ledger = newLedger();
    const request = reservation({ user: 'payer', team: 'red', project: 'apollo', token_id: 't1' });
    await settle(ledger, request, { upstream_ms: 8.5, upstream_request_id: 'req_paid' });
    assert.deepEqual(await balanceOf(database, 'payer'), { spent: 60, reserved: 0 });
    const [row, ...others] = await ledgerRowsOf(database, 'payer');
    assert.equal(others.length, 0);
    const { counter_ids: _, ...seen } = row as typeof row & { counter_ids: unknown };
    assert.deepEqual(seen, {
      request_id: request.request_id,
      protocol: 'messages',
      principal_id: 'user:payer',
      user_email: 'payer',
      team: 'red',
      project: 'apollo',
      token_id: 't1',
      model: 'coder-1',
      upstream: 'main',
      upstream_model: 'coder-1',
      kind: 'request',
      status: 200,
      aborted: false,
      input_tokens: 10,
      output_tokens: 20,
      cache_read_tokens: 3,
      cache_write_5m_tokens: 2,
      cache_write_1h_tokens: 1,
      cost_nano_usd: 60,
      provenance: { input: 'upstream', output: 'upstream', cost: 'upstream' },
      billed: null,
      server_tools: null,
      attempts: null,
      cache_requested_ttl: null,
      cache_effective_ttl: null,
      upstream_ms: 8.5,
      upstream_request_id: 'req_paid',
      forwarded_at: new Date(start),
      settled_at: new Date(start),
    });
  });

  it('may cost more than was reserved', async () => {
    await settle(newLedger(), reservation({ user: 'surprised' }), { cost_nano_usd: 250 });
    assert.equal((await balanceOf(database, 'surprised')).spent, 250);
  });

  it('after midnight lands in the day of its reservation', async () => {
    const clock = frozenClock('2026-03-10T23:59:59Z');
    const ledger = newLedger({ clock });
    const request = reservation({ user: 'night-owl' });
    await ledger.reserve(request);
    clock.advance(2000);
    await ledger.settle(settlement(request));
    assert.deepEqual(await countersOf(database, 'night-owl'), [
      { window_kind: 'day', window_start: '2026-03-10T00:00:00.000Z', spent: 60, reserved: 0 },
    ]);
  });

  it('without a reservation still counts, for the user and the team', async () => {
    const request = reservation({ user: 'walk-in', team: 'walk-ins' });
    const ledger = newLedger();
    const first = ledger.settle(settlement(request, { reserved: false }));
    await Promise.all([first, ledger.settle(settlement(request, { reserved: false }))]);
    await newLedger().settle(settlement(request, { reserved: false }));
    assert.equal((await ledgerRowsOf(database, 'walk-in')).length, 1);
    assert.equal((await balanceOf(database, 'walk-in')).spent, 60);
    assert.deepEqual(
      (await countersOf(database, 'walk-ins')).map(({ window_kind, spent }) => ({ window_kind, spent })),
      [{ window_kind: 'month', spent: 60 }],
    );
  });

  it('of a request that was settled before changes nothing', async () => {
    const ledger = newLedger();
    const request = reservation({ user: 'double' });
    await settle(ledger, request);
    await ledger.settle(settlement(request, { cost_nano_usd: 999 }));
    assert.equal((await ledgerRowsOf(database, 'double')).length, 1);
    assert.equal((await balanceOf(database, 'double')).spent, 60);
  });

  it('is written even when its numbers make no sense', async () => {
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

  it('with text PostgreSQL cannot store spoils neither itself nor its batch', async () => {
    const ledger = newLedger();
    const good = reservation({ user: 'neighbour' });
    const odd = reservation({ user: 'odd', project: 'nul\0 and half a pair \ud83d' });
    await Promise.all([ledger.reserve(good), ledger.reserve(odd)]);
    await Promise.all([ledger.settle(settlement(good)), ledger.settle(settlement(odd))]);
    assert.equal((await ledgerRowsOf(database, 'neighbour')).length, 1);
    assert.equal((await ledgerRowsOf(database, 'odd'))[0]?.project, 'nul\ufffd and half a pair \ufffd');
  });

  it('makes its month when the partitions end, and moves there what came too early', async () => {
    const clock = frozenClock('2031-05-05T00:00:00Z');
    const ledger = newLedger({ clock });
    await settle(ledger, reservation({ user: 'early' }));
    const where = 'select tableoid::regclass::text as partition from ledger where user_email = $1';
    assert.deepEqual(await database.query('test_where', where, ['early']), [{ partition: 'ledger_default' }]);
    await ledger.beat();
    assert.deepEqual(await database.query('test_where', where, ['early']), [{ partition: 'ledger_2031_05' }]);
  });
});

describe('a release', () => {
  it('gives the reservation back and leaves no row', async () => {
    const ledger = newLedger();
    const request = reservation({ user: 'changed-mind' });
    await ledger.reserve(request);
    await ledger.release(request.request_id);
    await ledger.release(request.request_id);
    assert.equal((await balanceOf(database, 'changed-mind')).reserved, 0);
    assert.deepEqual(await ledgerRowsOf(database, 'changed-mind'), []);
  });
});
