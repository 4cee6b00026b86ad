import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { reportUsage, USAGE_DIMENSIONS, type UsageDimension } from '../../../engine/money/reports/usage.ts';
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

const everything = { input: 10, output: 20, cache_read: 3, cache_write_5m: 2, cache_write_1h: 1 };

describe('the usage report', () => {
  it('sums requests, tokens and exact cost, most expensive first', async () => {
    const tokens = (times: number) =>
      Object.fromEntries(Object.entries(everything).map(([name, count]) => [`${name}_tokens`, count * times]));
    const ann = { user: 'ann@example.com', team: 'search', project: 'apollo', model: 'coder-1', upstream: 'main' };
    const bob = { user: 'bob@example.com', team: null, project: null, model: 'coder-2', upstream: 'spare' };
    assert.deepEqual(await reportUsage(database), [
      {
        ...bob,
        protocol: 'messages',
        requests: 1,
        ...tokens(1),
        cost_nano_usd: 5_000_000_000n,
        adjusted_nano_usd: 0n,
        possibly_billed_nano_usd: 0n,
        possible_nano_usd: 0n,
      },
      {
        ...ann,
        protocol: 'messages',
        requests: 2,
        ...tokens(2),
        cost_nano_usd: 300_000_000n,
        adjusted_nano_usd: 0n,
        possibly_billed_nano_usd: 0n,
        possible_nano_usd: 0n,
      },
      {
        ...ann,
        protocol: 'count_tokens',
        requests: 1,
        ...tokens(1),
        cost_nano_usd: 1n,
        adjusted_nano_usd: 0n,
        possibly_billed_nano_usd: 0n,
        possible_nano_usd: 0n,
      },
    ]);
  });

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

describe('usage between days', () => {
  const requests = async (since: string | undefined, until: string | undefined, time_zone: string) =>
    (await reportUsage(database, { since, until }, { by: ['user'], time_zone })).reduce(
      (sum, row) => sum + row.requests,
      0,
    );

  it('begins and ends at midnight of the time zone', async () => {
    assert.equal(await requests('2026-03-11', undefined, 'UTC'), 1);
    assert.equal(await requests(undefined, '2026-03-11', 'UTC'), 3);
    // Noon UTC is one o'clock of the next morning there.
    assert.equal(await requests('2026-03-11', '2026-03-12', 'Pacific/Auckland'), 3);
    assert.equal(await requests('2026-03-10', '2026-03-11', 'Pacific/Auckland'), 0);
    assert.equal(await requests('2026-03-12', '2026-03-13', 'Pacific/Auckland'), 1);
  });
});

describe('usage of tokens', () => {
  it('is told and found by token and by token group; a session has no group', async () => {
    const groups = await reportUsage(database, {}, { by: ['token_group', 'token'] });
    assert.deepEqual(
      groups.map(({ token_group, token, requests }) => [token_group, token, requests]),
      [[null, null, 4]],
    );
    const by = { database, clock, actor: { kind: 'command', name: 'test' } } as const;
    const { id } = await createToken(by, { user: 'cy@example.com', group: 'all', name: 'laptop' });
    const request = reservation({ user: 'cy@example.com', token_id: id });
    await ledger.reserve(request);
    await ledger.settle(settlement(request, { cost_nano_usd: 0, status: 503, provenance: { cost: 'estimate' } }));
    const found = async (filter: Parameters<typeof reportUsage>[1]) =>
      (await reportUsage(database, filter, { by: ['token_group', 'token'] })).map((row) => [
        row.token_group,
        row.token,
      ]);
    assert.deepEqual(await found({ token: id }), [['all', id]]);
    assert.deepEqual(await found({ token_group: 'all' }), [['all', id]]);
    assert.deepEqual(await found({ token_group: 'none' }), []);
    const told = await reportUsage(database, { token: id }, { by: ['status', 'estimated', 'hour', 'week'] });
    assert.deepEqual(
      told.map(({ status, estimated, hour, week, requests }) => [status, estimated, hour, week, requests]),
      [['5xx', 'yes', '2026-03-11T12:00', '2026-W11', 1]],
    );
    assert.deepEqual(await reportUsage(database, { upstream_model: 'coder-9' }), []);
    await database.knex('ledger').where({ token_id: id }).delete();
  });
});

describe('usage by other dimensions', () => {
  it('has one row per value, the most expensive first, and null for those that have none', async () => {
    const teams = await reportUsage(database, {}, { by: ['team'] });
    assert.deepEqual(
      teams.map(({ team, requests, cost_nano_usd }) => [team, requests, cost_nano_usd]),
      [
        [null, 1, 5_000_000_000n],
        ['search', 3, 300_000_001n],
      ],
    );
    const [first] = await reportUsage(database, { team: 'search' }, { by: ['token', 'model'] });
    assert.deepEqual([first!.token, first!.model, first!.requests], [null, 'coder-1', 3]);
  });

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

  it('adds up to the same, whatever the dimensions', async () => {
    const total = async (by?: readonly UsageDimension[]) =>
      (await reportUsage(database, {}, { by })).reduce((sum, row) => sum + row.cost_nano_usd, 0n);
    for (const one of USAGE_DIMENSIONS) {
      for (const other of USAGE_DIMENSIONS) {
        assert.equal(await total(one === other ? [one] : [one, other]), 5_300_000_001n, `${one} ${other}`);
      }
    }
    assert.equal(await total(), 5_300_000_001n);
  });
});
