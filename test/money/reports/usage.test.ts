import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { reportUsage } from '../../../engine/money/reports/usage.ts';
import type { Database } from '../../../engine/store/database.ts';
import { openTestStore, quietLog, reservation, settlement, type TestStore } from '../../support/store.ts';

let store: TestStore;
let database: Database;
const clock = frozenClock('2026-03-10T12:00:00Z');
const DAY_MS = 24 * 3_600_000;

let ledger: DatabaseLedger;

before(async () => {
  store = await openTestStore();
  database = store.database;
  ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  const used = async (user: string, cost_nano_usd: number, more = {}) => {
    const request = reservation({ user, ...more });
    await ledger.reserve(request);
    await ledger.settle(settlement(request, { cost_nano_usd }));
  };
  await used('ann@example.com', 100_000_000, { team: 'search', project: 'apollo' });
  await used('ann@example.com', 200_000_000, { team: 'search', project: 'apollo' });
  await used('ann@example.com', 1, { team: 'search', project: 'apollo', protocol: 'count_tokens' });
  clock.advance(DAY_MS);
  await used('bob@example.com', 5_000_000_000, { model: 'coder-2', upstream: 'spare' });
});
after(async () => {
  await ledger.close();
  await store.close();
});

describe('the usage report', () => {
  it('counts only what every filter lets through', async () => {
    const requests = async (filter: Parameters<typeof reportUsage>[1]) =>
      (await reportUsage(database, filter)).reduce((sum, row) => sum + row.requests, 0);
    const second_day = new Date(clock.now());
    assert.equal(await requests({ since: second_day }), 1);
    assert.equal(await requests({ until: second_day }), 3);
    assert.equal(await requests({ user: 'Ann@example.com' }), 3);
    assert.equal(await requests({ team: 'search', protocol: 'messages' }), 2);
    assert.equal(await requests({ project: 'apollo', upstream: 'spare' }), 0);
    assert.equal(await requests({ model: 'coder-2' }), 1);
    assert.deepEqual(await reportUsage(database, { user: "' or true --" }), []);
  });
});

describe('usage by other dimensions', () => {
  it('follows the calendar of the time zone, the oldest first', async () => {
    const rows = async (by: 'day' | 'month', time_zone: string) =>
      (await reportUsage(database, {}, { by: [by, 'user'], time_zone })).map((row) => [row[by], row.user]);
    assert.deepEqual(await rows('day', 'UTC'), [
      ['2026-03-10', 'ann@example.com'],
      ['2026-03-11', 'bob@example.com'],
    ]);
    // It was noon UTC, and a day later there.
    assert.deepEqual((await rows('day', 'Pacific/Auckland'))[0], ['2026-03-11', 'ann@example.com']);
    assert.deepEqual((await rows('month', 'UTC'))[1], ['2026-03', 'ann@example.com']);
  });
});
