/** Limits of every kind hold in the ledger in memory as they do in the one in the database. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { reservation, settlement, type TestStore, useTestStore } from '../support/store.ts';
import { demand, ledgerKinds, type Scenarios, testScenarios } from './ledger-benches.ts';

let store: TestStore;
const open = useTestStore((opened) => {
  store = opened;
});

/** Requests at once. */
const atOnce = (key: string, limit: number) =>
  demand(key, limit, { window: 'open', unit: 'requests', rule: 'parallel' });
const perMinute = (key: string, limit: number, unit: 'requests' | 'tokens') =>
  demand(key, limit, { window: 'minute', unit, rule: `${unit} per minute` });

const scenarios: Scenarios = {
  async 'lets so many requests go out at once, and another when one is over'({ ledger, balance }, key) {
    const request = () => reservation({ demands: [demand(key, null), atOnce(key, 2)] });
    const [first, second, third] = [request(), request(), request()];
    const asked = [await ledger.reserve(first), await ledger.reserve(second), await ledger.reserve(third)];
    await ledger.settle(settlement(first));
    await ledger.release(second.request_id);
    return [asked, await ledger.reserve(request()), await balance(atOnce(key, 2))];
  },

  async 'counts requests and tokens by the minute, those that were really used in the end'(
    { ledger, clock, balance },
    key,
  ) {
    const demands = [demand(key, null), perMinute(key, 2, 'requests'), perMinute(key, 100, 'tokens')];
    const first = reservation({ tokens: 60, demands });
    const asked = [await ledger.reserve(first), await ledger.reserve(reservation({ tokens: 41, demands }))];
    await ledger.settle(settlement(first));
    const settled = [await balance(demands[1]!), await balance(demands[2]!)];
    asked.push(await ledger.reserve(reservation({ tokens: 64, demands })));
    asked.push(await ledger.reserve(reservation({ tokens: 0, demands })));
    clock.advance(60_000);
    asked.push(await ledger.reserve(reservation({ tokens: 100, demands })));
    return [asked, settled];
  },

  async 'reports a limit by the minute after one by the month, and requests at once last'({ ledger }, key) {
    const month = demand(key, 1, { window: 'month', rule: 'month' });
    const demands = [atOnce(key, 1), perMinute(key, 1, 'requests'), month];
    await ledger.reserve(reservation({ amount_nano_usd: 1, demands }));
    const { exceeded } = await ledger.reserve(reservation({ amount_nano_usd: 1, demands }));
    return exceeded.map(({ rule, resets_at }) => [rule, resets_at]);
  },

  async 'counts a combination under a name of its own'({ ledger, balance }, key) {
    const both = demand(JSON.stringify([key, 'coder-1']), 150, { scope: 'user+model', window: 'week' });
    const asked = [
      await ledger.reserve(reservation({ demands: [both] })),
      await ledger.reserve(reservation({ demands: [both] })),
    ];
    return [asked, await balance(both)];
  },

  async 'lets typical requests pass a limit by no more than their share'({ ledger, balance }, key) {
    const typical = (amount_nano_usd: number, most_nano_usd: number) =>
      ledger.reserve(
        reservation({ amount_nano_usd, most_nano_usd, overshoot_percent: 10, demands: [demand(key, 1000)] }),
      );
    const asked = [await typical(100, 1000), await typical(1, 101), await typical(1, 100), await typical(1, 1)];
    return [asked, await balance(demand(key, null))];
  },

  async 'lets a request that is alone through however much it can cost, if what it holds fits'({ ledger }, key) {
    const typical = (user: string, amount_nano_usd: number) =>
      ledger.reserve(
        reservation({ amount_nano_usd, most_nano_usd: 5000, overshoot_percent: 0, demands: [demand(user, 1000)] }),
      );
    return [await typical(key, 1000), await typical(key, 0), await typical(`${key}-2`, 1001)];
  },

  async 'holds a request that will hold everything to the limit beside typical ones'({ ledger }, key) {
    const demands = [demand(key, 1000)];
    await ledger.reserve(reservation({ amount_nano_usd: 10, most_nano_usd: 950, overshoot_percent: 50, demands }));
    const whole = (amount_nano_usd: number) => ledger.reserve(reservation({ amount_nano_usd, demands }));
    return [await whole(51), await whole(50)];
  },

  async 'raises what a typical request holds, up to the most it can cost and never down'(
    { ledger, balance, topUp },
    key,
  ) {
    const demands = [demand(key, 1000), perMinute(key, 10, 'requests')];
    const request = reservation({ amount_nano_usd: 10, most_nano_usd: 500, overshoot_percent: 10, demands });
    await ledger.reserve(request);
    const states = [];
    for (const amount of [200, 100, 9000]) {
      await topUp(request.request_id, amount);
      states.push(await balance(demands[0]!));
    }
    await ledger.settle(settlement(request));
    await topUp(request.request_id, 400);
    await topUp('nobody', 400);
    return [states, await balance(demands[0]!), await balance(demands[1]!)];
  },

  async 'goes by a limit that was set at run time in place of all there are'({ ledger, set }, key) {
    const demands = [demand(key, 1000, { rule: 'wide' }), demand(key, 500, { rule: 'narrow' })];
    const name = demand(key, null);
    await set(name, 150);
    const lower = [await ledger.reserve(reservation({ demands })), await ledger.reserve(reservation({ demands }))];
    const free = demand(`${key}-free`, null, { rule: 'counted' });
    await set(free, 50);
    return [lower, await ledger.reserve(reservation({ demands: [free] }))];
  },

  async 'adds what is granted to the limit in force, until it expires'({ ledger, clock, grant }, key) {
    const demands = [demand(key, 100), demand(key, 50, { rule: 'shadow', shadow: true })];
    const request = () => reservation({ demands });
    await ledger.reserve(request());
    const asked = [await ledger.reserve(request())];
    await grant(demands[0]!, 60, 2);
    await grant(demands[0]!, 40, 1);
    asked.push(await ledger.reserve(request()));
    clock.advance(3_600_000);
    asked.push(await ledger.reserve(reservation({ amount_nano_usd: 0, demands })));
    clock.advance(3_600_000);
    asked.push(await ledger.reserve(reservation({ amount_nano_usd: 0, demands })));
    return asked;
  },

  async 'tells how limits stand without holding anything'({ ledger, set, grant }, key) {
    const demands = [
      demand(key, 1000),
      demand(key, 400, { rule: 'other' }),
      demand(`${key}-team`, null, { scope: 'team', window: 'month' }),
      demand(`${key}-set`, 70, { window: 'week' }),
      demand(`${key}-set`, 80, { window: 'week', rule: 'taken place of' }),
      atOnce(key, 3),
      demand(key, 5, { shadow: true }),
    ];
    await ledger.reserve(reservation({ demands: [demands[0]!, demands[2]!] }));
    await set(demands[3]!, 900);
    await grant(demands[3]!, 11, 1);
    return [await ledger.statuses(demands), await ledger.statuses([])];
  },

  async "adds a user's days up where nothing limits and so counts a week or month"({ ledger, clock, set }, key) {
    const spend = async (name: string, amount_nano_usd: number, day = true) => {
      const window = day ? 'day' : 'week';
      const request = reservation({ amount_nano_usd, demands: [demand(name, null, { window })] });
      await ledger.reserve(request);
      await ledger.settle(settlement(request, { cost_nano_usd: amount_nano_usd }));
    };
    const windows = (name: string, limit: number | null = null) =>
      (['day', 'week', 'month'] as const).map((window) => demand(name, limit, { window, rule: window }));
    await spend(key, 3);
    await spend(`${key}-other`, 1000);
    await spend(`${key}-counted`, 50, false);
    clock.advance(86_400_000);
    await spend(key, 5);
    const told = [await ledger.statuses(windows(key)), await ledger.statuses(windows(key, 100))];
    told.push(await ledger.statuses(windows(`${key}-counted`)));
    // From the 11th to the 16th, a Monday: another week.
    clock.advance(5 * 86_400_000);
    await spend(key, 7);
    told.push(await ledger.statuses([...windows(key), demand(key, null, { scope: 'team', window: 'month' })]));
    await set(demand(key, null, { window: 'month' }), 40);
    told.push(await ledger.statuses(windows(key)));
    clock.advance(20 * 86_400_000);
    told.push(await ledger.statuses(windows(key)));
    assert.deepEqual(
      told[0]!.map(({ spent }) => spent),
      [5, 8, 8],
    );
    assert.deepEqual(
      told[3]!.map(({ spent }) => spent),
      [7, 7, 15, 0],
    );
    return told;
  },
};

describe('limits in memory are like those in the database: a ledger', () => {
  testScenarios(
    scenarios,
    ledgerKinds(() => store, open),
  );
});
