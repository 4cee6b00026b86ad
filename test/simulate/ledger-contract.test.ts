/** What is true of the ledger in the database is true of the one in memory: one list of scenarios runs against both. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { reservation, settlement, type TestStore, useTestStore } from '../support/store.ts';
import { demand, freshKey, ledgerKinds, type Scenarios, testScenarios } from './ledger-benches.ts';

let store: TestStore;
const open = useTestStore((opened) => {
  store = opened;
});
const kinds = ledgerKinds(() => store, open);

/** The columns both ledgers have. */
function columns(row: object): object {
  const { forwarded_at, settled_at, counter_ids, ...rest } = row as Record<string, unknown>;
  return rest;
}

const scenarios: Scenarios = {
  async 'grants up to the limit exactly, and refuses one nano-USD above it'({ ledger }, key) {
    const request = (amount_nano_usd: number) =>
      ledger.reserve(reservation({ user: key, amount_nano_usd, demands: [demand(key, 200)] }));
    return [await request(100), await request(100), await request(1)];
  },

  async 'leaves nothing behind on any demand when one refuses'({ ledger, balance }, key) {
    const team = demand(`${key}-team`, 99, { scope: 'team', window: 'month' });
    const refusal = await ledger.reserve(reservation({ demands: [demand(key, 1000), team] }));
    await ledger.reserve(reservation({ amount_nano_usd: 0, demands: [demand(key, 1000), team] }));
    return [refusal, await balance(demand(key, null)), await balance(team)];
  },

  async 'reports all exceeded limits, the one that resets last first'({ ledger }, key) {
    const demands = [
      demand(key, 1, { rule: 'first' }),
      demand(`${key}-team`, 1, { scope: 'team', window: 'month', rule: 'second' }),
      demand(`${key}-project`, 1, { scope: 'project', window: 'month', rule: 'third' }),
    ];
    const { exceeded } = await ledger.reserve(reservation({ demands }));
    return exceeded;
  },

  async 'counts a demand without a limit and never refuses it'({ ledger, balance }, key) {
    const request = reservation({ amount_nano_usd: 10 ** 15, demands: [demand(key, null)] });
    return [await ledger.reserve(request), await balance(demand(key, null))];
  },

  async 'counts a request once where several limits share a counter, and the smallest decides'(
    { ledger, balance },
    key,
  ) {
    const demands = [demand(key, 1000, { rule: 'wide' }), demand(key, 150, { rule: 'narrow' })];
    const first = reservation({ demands });
    const granted = await ledger.reserve(first);
    const reserved = await balance(demand(key, null));
    const refused = await ledger.reserve(reservation({ demands }));
    await ledger.settle(settlement(first));
    return [granted, reserved, refused, await balance(demand(key, null))];
  },

  async 'tells of a limit in shadow mode without enforcing it'({ ledger, balance }, key) {
    const demands = [demand(key, 50, { rule: 'shadow', shadow: true }), demand(key, 1000)];
    return [await ledger.reserve(reservation({ demands })), await balance(demand(key, null))];
  },

  async 'says nothing of a limit in shadow mode when another refuses'({ ledger }, key) {
    const demands = [demand(key, 50, { rule: 'shadow', shadow: true }), demand(`${key}-2`, 10)];
    return await ledger.reserve(reservation({ demands }));
  },

  async 'turns a reservation into spend, and writes who asked for what'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, user: 'u', team: 't', demands: [demand(key, 100)] });
    await ledger.reserve(request);
    await ledger.settle(settlement(request));
    return [await balance(demand(key, null)), (await rows(key)).map(columns)];
  },

  async 'writes a request once however often it is settled'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, demands: [demand(key, 100)] });
    await ledger.reserve(request);
    await ledger.settle(settlement(request));
    await ledger.settle(settlement(request));
    return [await balance(demand(key, null)), (await rows(key)).length];
  },

  async 'charges what was reserved when the cost is no amount'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, demands: [demand(key, 100)] });
    await ledger.reserve(request);
    await ledger.settle({ ...settlement(request), cost_nano_usd: Number.NaN });
    return [await balance(demand(key, null)), (await rows(key)).map(columns)];
  },

  async 'charges user and team for what was never reserved'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, user: key, team: `${key}-team` });
    await ledger.settle({ ...settlement(request), reserved: false });
    await ledger.settle({ ...settlement(request), reserved: false });
    const team = demand(`${key}-team`, null, { scope: 'team', window: 'month' });
    return [await balance(demand(key, null)), await balance(team), (await rows(key)).map(columns)];
  },

  async 'settles a reservation by its handle for nobody but who reserved it'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, user: 'u', demands: [demand(key, 100)] });
    const { reservation: reserved } = await ledger.reserve(request);
    await reserved!.settle(settlement(reservation({ user: 'somebody else', request_id: `${key}-2` })));
    const written = (await rows(key)).map(columns);
    assert.equal(written.length, 1);
    return [await balance(demand(key, null)), written];
  },

  async 'writes the row of a request that nothing was reserved for, and has nothing to give back'(
    { ledger, balance, rows },
    key,
  ) {
    const handle = ledger.unreserved(reservation({ request_id: key, user: key }));
    handle.topUp(50);
    await handle.release();
    await handle.settle(settlement(reservation()));
    return [await balance(demand(key, null)), (await rows(key)).map(columns)];
  },

  async 'gives no reservation to a request without room, and what is released by its handle back'(
    { ledger, balance },
    key,
  ) {
    const request = (amount_nano_usd: number) => reservation({ amount_nano_usd, demands: [demand(key, 100)] });
    const granted = await ledger.reserve(request(100));
    const refused = await ledger.reserve(request(1));
    await granted.reservation!.release();
    return [refused.reservation === undefined, await balance(demand(key, null))];
  },

  async 'gives back what is released, once'({ ledger, balance, rows }, key) {
    const request = reservation({ request_id: key, demands: [demand(key, 100)] });
    await ledger.reserve(request);
    await ledger.release(key);
    await ledger.release(key);
    return [await balance(demand(key, null)), (await rows(key)).length];
  },

  async 'charges the window a request was reserved in'({ ledger, clock, balance }, key) {
    const request = reservation({ demands: [demand(key, 100)] });
    await ledger.reserve(request);
    clock.advance(24 * 3_600_000);
    await ledger.settle(settlement(request));
    await ledger.reserve(reservation({ amount_nano_usd: 0, demands: [demand(key, 100)] }));
    return await balance(demand(key, null));
  },
};

describe('the ledger in memory is like the one in the database: it', () => {
  testScenarios(scenarios, kinds);

  const moments: readonly (readonly [time_zone: string, at: string])[] = [
    ['UTC', '2026-03-10T23:59:59Z'],
    ['UTC', '2026-12-31T23:59:59Z'],
    // Summer time begins and ends.
    ['Europe/Berlin', '2026-03-28T23:30:00Z'],
    ['Europe/Berlin', '2026-10-25T00:30:00Z'],
    ['America/New_York', '2026-03-08T05:30:00Z'],
    // It begins at midnight: the day has no midnight.
    ['Asia/Beirut', '2026-03-29T10:00:00Z'],
    ['Asia/Beirut', '2026-03-28T10:00:00Z'],
    // It ends at one and there are two midnights.
    ['America/Havana', '2026-11-01T04:30:00Z'],
    ['America/Havana', '2026-11-01T10:00:00Z'],
    ['America/Havana', '2026-10-31T10:00:00Z'],
    ['Asia/Kathmandu', '2026-05-01T00:00:00Z'],
    ['Pacific/Apia', '2026-05-31T10:30:00Z'],
  ];
  for (const [time_zone, at] of moments) {
    it(`ends days, weeks and months in ${time_zone} at the same moment, seen from ${at}`, async () => {
      const ends = [];
      for (const kind of kinds) {
        const key = freshKey();
        const { ledger } = kind.open(at, time_zone);
        const windows = ['day', 'week', 'month'] as const;
        const demands = windows.map((window) => demand(key, 1, { window, rule: window }));
        const { exceeded } = await ledger.reserve(reservation({ demands }));
        const by_rule = exceeded.map(({ rule, resets_at }) => [rule, new Date(resets_at!).toISOString()] as const);
        ends.push(by_rule.toSorted());
      }
      assert.equal(ends[0]!.length, 3);
      assert.deepEqual(ends[1], ends[0]);
    });
  }
});
