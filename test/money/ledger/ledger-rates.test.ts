import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LimitDemand } from '../../../engine/api.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  assertGranted,
  counterStatesOf,
  countersOf,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  type TestStore,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

let store: TestStore;
let database: Database;
const open = useTestStore((opened) => {
  store = opened;
  database = opened.database;
});

function newLedger(clock: FrozenClock, on: Database = database): DatabaseLedger {
  const ledger = new DatabaseLedger({ database: on, clock, log: quietLog, every: () => () => {} });
  open.push(ledger);
  return ledger;
}

const on = (key: string, window: LimitDemand['window'], unit: LimitDemand['unit'], limit: number): LimitDemand => ({
  ...userDemand(key, limit),
  window,
  unit,
  rule: `${limit} ${unit}`,
});

describe('a limit by week', () => {
  it('begins on Monday, in the time zone', async () => {
    const clock = frozenClock('2026-03-15T22:59:59Z');
    const ledger = new DatabaseLedger({
      database,
      clock,
      log: quietLog,
      every: () => () => {},
      time_zone: () => 'Europe/Berlin',
    });
    open.push(ledger);
    const demands = [on('weekly', 'week', 'nano_usd', 100)];
    assertGranted(await ledger.reserve(reservation({ user: 'weekly', demands })));
    const { exceeded } = await ledger.reserve(reservation({ user: 'weekly', demands }));
    assert.equal(exceeded[0]?.resets_at, Date.parse('2026-03-15T23:00:00Z'));
    clock.advance(1000);
    assertGranted(await ledger.reserve(reservation({ user: 'weekly', demands })));
    assert.deepEqual(
      (await countersOf(database, 'weekly')).map(({ window_start }) => window_start),
      ['2026-03-08T23:00:00.000Z', '2026-03-15T23:00:00.000Z'],
    );
  });
});

describe('a limit on requests at once', () => {
  it('has room again as soon as one is over, however it ended', async () => {
    const ledger = newLedger(frozenClock('2026-03-10T12:00:00Z'));
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

  it('holds across gateways, and never ends with a window', async () => {
    const clock = frozenClock('2026-03-10T23:59:59Z');
    const ledgers = [newLedger(clock), newLedger(clock, await store.another())];
    const demands = [on('everywhere', 'open', 'requests', 5)];
    const reserve = (i: number) => ledgers[i % 2]!.reserve(reservation({ user: 'everywhere', demands }));
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => reserve(i)));
    assert.equal(answers.filter(({ exceeded }) => exceeded.length === 0).length, 5);
    clock.advance(40 * 24 * 3_600_000);
    assert.equal((await reserve(0)).exceeded.length, 1);
  });

  it('makes room for the next one without waiting for company, whichever gateway that comes to', async () => {
    let exchanges = 0;
    const counting: Pick<Database, 'query'> = {
      query(name, text, values) {
        if (name === 'ledger_batch') exchanges++;
        return database.query(name, text, values);
      },
    };
    const ledger = newLedger(frozenClock('2026-03-10T12:00:00Z'), counting as Database);
    const once = on('swift', 'open', 'requests', 1);
    for (const [demands, sent] of [
      [[userDemand('swift', null), once], 1],
      [[userDemand('swift', null)], 0],
    ] as const) {
      const request = reservation({ user: 'swift', demands });
      assertGranted(await ledger.reserve(request));
      exchanges = 0;
      const settled = ledger.settle(settlement(request));
      // What waits for nothing is on its way after one turn of the event loop.
      await new Promise(setImmediate);
      assert.equal(exchanges, sent);
      await settled;
    }
  });

  it('forgets requests of a gateway that died', async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const [dead, alive] = [newLedger(clock), newLedger(clock)];
    const demands = [userDemand('dead', null), on('dead', 'open', 'requests', 1)];
    assertGranted(await dead.reserve(reservation({ user: 'dead', demands })));
    await alive.beat();
    clock.advance(31_000);
    await alive.beat();
    await alive.recover();
    assert.equal((await ledgerRowsOf(database, 'dead')).length, 1);
    assertGranted(await alive.reserve(reservation({ user: 'dead', demands })));
  });
});

describe('limits by minute', () => {
  it('count a request from its start until the minute is over, and none that never left', async () => {
    const clock = frozenClock('2026-03-10T12:00:30Z');
    const ledger = newLedger(clock);
    const demands = [userDemand('quick', null), on('quick', 'minute', 'requests', 2)];
    const make = () => reservation({ user: 'quick', demands });
    const [first, never_left] = [make(), make()];
    assertGranted(await ledger.reserve(first));
    assertGranted(await ledger.reserve(never_left));
    await ledger.release(never_left.request_id);
    assertGranted(await ledger.reserve(make()));
    await ledger.settle(settlement(first));
    const { exceeded } = await ledger.reserve(make());
    assert.deepEqual(
      exceeded.map(({ spent, reserved, resets_at }) => ({ spent, reserved, resets_at })),
      [{ spent: 1, reserved: 1, resets_at: Date.parse('2026-03-10T12:01:00Z') }],
    );
    clock.advance(30_000);
    assertGranted(await ledger.reserve(make()));
  });

  it('count tokens as they were expected, then as they were', async () => {
    const ledger = newLedger(frozenClock('2026-03-10T12:00:00Z'));
    const demands = [userDemand('wordy', null), on('wordy', 'minute', 'tokens', 1000)];
    const make = (tokens: number) => reservation({ user: 'wordy', tokens, demands });
    const first = make(900);
    assertGranted(await ledger.reserve(first));
    assert.deepEqual(
      (await ledger.reserve(make(101))).exceeded.map(({ reserved }) => reserved),
      [900],
    );
    await ledger.settle(settlement(first));
    // 10 in, 20 out, 6 cached.
    const { exceeded } = await ledger.reserve(make(965));
    assert.deepEqual([exceeded[0]?.spent, exceeded[0]?.reserved], [36, 0]);
    assertGranted(await ledger.reserve(make(964)));
  });

  it('are no counters of the ledger row, and add up', async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const ledger = newLedger(clock);
    const rates = [
      on('row', 'minute', 'requests', 5),
      on('row', 'open', 'requests', 5),
      on('row', 'minute', 'tokens', 500),
    ];
    const request = reservation({ user: 'row', tokens: 400, demands: [...rates, userDemand('row', 1000)] });
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

  it('are deleted two hours later, unless a request of then is still under way', async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const ledger = newLedger(clock);
    const request = (user: string) => reservation({ user, demands: [on(user, 'minute', 'requests', 5)] });
    const [over, under_way] = [request('over'), request('under-way')];
    await Promise.all([ledger.reserve(over), ledger.reserve(under_way)]);
    await ledger.settle(settlement(over));
    const left = async () => [
      (await countersOf(database, 'over')).length,
      (await countersOf(database, 'under-way')).length,
    ];
    clock.advance(2 * 3_600_000);
    await newLedger(clock).beat();
    assert.deepEqual(await left(), [1, 1]);
    clock.advance(1);
    await newLedger(clock).beat();
    assert.deepEqual(await left(), [0, 1]);
  });
});

describe('a limit on what one user spends on one model', () => {
  it('is counted apart from both', async () => {
    const ledger = newLedger(frozenClock('2026-03-10T12:00:00Z'));
    const demands = (model: string): LimitDemand[] => [
      userDemand('picky', null),
      { ...userDemand(JSON.stringify(['picky', model]), 100), scope: 'user+model', rule: 'per model' },
    ];
    assertGranted(await ledger.reserve(reservation({ user: 'picky', demands: demands('a') })));
    assert.equal(
      (await ledger.reserve(reservation({ user: 'picky', demands: demands('a') }))).exceeded[0]?.rule,
      'per model',
    );
    assertGranted(await ledger.reserve(reservation({ user: 'picky', demands: demands('b') })));
  });
});
