import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { listChanges } from '../../../engine/audit/admin-changes.ts';
import type { RepriceWish } from '../../../engine/money/reports/reprice.ts';
import { reportUsage } from '../../../engine/money/reports/usage.ts';
import { CHEAP, COST, OPERATOR, SINCE, twice, usePricedLedger } from '../../support/priced-ledger.ts';
import { balanceOf } from '../../support/store.ts';

const books = usePricedLedger();

describe('pricing the ledger again', () => {
  it('shows what differs by day, model and upstream, and writes nothing unless told to', async () => {
    await books.used();
    await books.used({ upstream: 'spare' });
    books.clock.advance(24 * 3_600_000);
    await books.used();
    const { compared, changes, written } = await books.look(twice(CHEAP));
    const group = {
      day: '2026-03-10',
      model: 'coder-1',
      upstream: 'main',
      requests: 1,
      was_nano_usd: 36n,
      cost_nano_usd: 72n,
    };
    assert.deepEqual([compared, written], [3, undefined]);
    // Half of twice the price is what the ledger has.
    assert.deepEqual(changes, [group, { ...group, day: '2026-03-11' }]);
    assert.equal((await books.database.knex('ledger')).length, 3);
    assert.deepEqual(await listChanges(books.database, { limit: 10 }), []);
  });

  it('adds a row for the difference, which counts where and when the request did', async () => {
    const request_id = await books.used();
    books.clock.advance(40 * 24 * 3_600_000);
    const { written } = await books.reprice(twice(CHEAP));
    assert.deepEqual(written, { requests: 1, difference_nano_usd: 36n });
    const [request, adjustment] = await books.rowsOf(request_id);
    assert.equal(request!.cost_nano_usd, COST);
    const none = {
      input_tokens: 0,
      output_tokens: 0,
      cache_read_tokens: 0,
      cache_write_5m_tokens: 0,
      cache_write_1h_tokens: 0,
    };
    assert.deepEqual(adjustment, {
      ...request,
      ...none,
      kind: 'adjustment',
      cost_nano_usd: 36,
      provenance: {
        cost: 'repriced',
        of: 'upstream',
        was_nano_usd: 36,
        by: 'ann@backend',
        at: '2026-04-19T12:00:00+00:00',
      },
    });
    assert.deepEqual(await balanceOf(books.database, 'ann'), { spent: 72, reserved: 0 });
    assert.deepEqual(await balanceOf(books.database, 'search'), { spent: 72, reserved: 0 });
    await books.assertAddsUp();
  });

  it('lowers what was too much', async () => {
    const request_id = await books.used({ cost_nano_usd: 1000 });
    await books.reprice(CHEAP);
    assert.deepEqual(
      (await books.rowsOf(request_id)).map((row) => row.cost_nano_usd),
      [1000, -964],
    );
    assert.deepEqual(await balanceOf(books.database, 'ann'), { spent: 36, reserved: 0 });
    const [row] = await reportUsage(books.database, {}, { by: ['user', 'month'] });
    assert.deepEqual(
      [row!.requests, row!.input_tokens, row!.month, row!.cost_nano_usd, row!.adjusted_nano_usd],
      [1, 10, '2026-03', 36n, -964n],
    );
  });

  it('changes nothing a second time', async () => {
    await books.used();
    await books.reprice(twice(CHEAP));
    const again = await books.reprice(twice(CHEAP));
    assert.deepEqual([again.compared, again.changes, again.written], [1, [], { requests: 0, difference_nano_usd: 0n }]);
    assert.equal((await books.database.knex('ledger')).length, 2);
  });

  it('is told among the changes: who, when, what, how much', async () => {
    for (let i = 0; i < 450; i++) void books.used();
    await books.used();
    await books.reprice(twice(CHEAP), { since: '2026-03-01', until: '2026-04-01', model: 'coder-*', upstream: 'main' });
    const [change, ...others] = await listChanges(books.database, { limit: 10 });
    assert.deepEqual(others, []);
    const { id: _, ...told } = change!;
    assert.deepEqual(told, {
      at: new Date('2026-03-10T12:00:00Z'),
      actor: OPERATOR,
      action: 'ledger.reprice',
      subject: '2026-03-01..2026-04-01 coder-* at main',
      before: null,
      after: { requests: 451, difference_usd: '0.000016236' },
    });
    await books.assertAddsUp();
  });

  it('knows what else was used and where: tools that the upstream ran, long prompts, contracts', async () => {
    const expensive = {
      ...CHEAP,
      server_tools: { web_search: 10 },
      long_context: { ...twice(CHEAP), above_input_tokens: 100 },
    };
    await books.used({ server_tools: { web_search: 2 } });
    await books.used({
      tokens: { input: 90, output: 1, cache_read: 11, cache_write_5m: 0, cache_write_1h: 0 },
      upstream: 'spare',
    });
    const { changes } = await books.look(expensive);
    assert.deepEqual(
      changes.map(({ upstream, cost_nano_usd }) => [upstream, cost_nano_usd]),
      [
        ['main', 20_000_036n],
        ['spare', 102n],
      ],
    );
  });

  it('takes the price of the day on which a request was made', async () => {
    await books.used();
    books.clock.advance(24 * 3_600_000);
    const second = await books.used();
    const rows = [{ models: ['coder-*'], from: '2026-03-11', multiplier: 3 }];
    const { written } = await books.reprice(CHEAP, SINCE, { rows });
    assert.deepEqual(written, { requests: 1, difference_nano_usd: 72n });
    assert.equal((await books.rowsOf(second)).length, 2);
  });

  it('leaves a request alone that arrived before the price changed and left right after', async () => {
    books.clock.advance(12 * 3_600_000 + 2000);
    await books.used();
    const rows = [{ models: ['*'], from: '2026-03-11', multiplier: 3 }];
    assert.deepEqual((await books.look(CHEAP, SINCE, { rows })).changes, []);
    books.clock.advance(60_000);
    await books.used();
    assert.equal((await books.look(CHEAP, SINCE, { rows })).changes[0]?.requests, 1);
  });

  it('keeps to the time, model and upstream asked for', async () => {
    await books.used();
    await books.used({ upstream: 'spare' });
    const differing = async (wish: Partial<RepriceWish>) =>
      (await books.look({ ...CHEAP, input: 1 }, { ...SINCE, ...wish })).changes.reduce(
        (sum, { requests }) => sum + requests,
        0,
      );
    assert.equal(await differing({}), 2);
    assert.equal(await differing({ upstream: 'spare' }), 1);
    assert.equal(await differing({ upstream: "' or true --" }), 0);
    assert.equal(await differing({ model: 'coder-*' }), 2);
    assert.equal(await differing({ model: 'other*' }), 0);
    assert.equal(await differing({ until: '2026-03-10' }), 0);
    assert.equal(
      await differing({ since: new Date('2026-03-10T12:00:00Z'), until: new Date('2026-03-10T12:00:01Z') }),
      2,
    );
    assert.equal(await differing({ since: '2026-03-11' }), 0);
  });
});

describe('what is not priced again', () => {
  it('is counted: without tokens, estimated, without a price, at an upstream that is gone', async () => {
    const nothing = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
    await books.used({ tokens: nothing, cost_nano_usd: 1000, provenance: { cost: 'estimate' } });
    await books.used({ provenance: { cost: 'estimate' } });
    await books.used({ model: 'other-1' });
    await books.used({ upstream: 'gone' });
    const { compared, changes, skipped } = await books.look(twice(CHEAP));
    assert.deepEqual([compared, changes], [0, []]);
    assert.deepEqual(skipped, {
      no_tokens: 1,
      estimates: 1,
      no_price: new Map([['other-1', 1]]),
      no_upstream: new Map([['gone', 1]]),
    });
  });

  it('may be: estimates on demand, models without a price where there is one for them', async () => {
    await books.used({ provenance: { cost: 'estimate' } });
    await books.used({ model: 'other-1' });
    const { compared, skipped } = await books.reprice(
      twice(CHEAP),
      { ...SINCE, estimates: true },
      { unknown_model: twice(CHEAP), rows: [] },
    );
    assert.deepEqual([compared, skipped.estimates, skipped.no_price.size], [2, 0, 0]);
    await books.assertAddsUp();
    const estimated = await reportUsage(books.database, {}, { by: ['estimated'] });
    assert.deepEqual(
      estimated.map((row) => [row.estimated, row.cost_nano_usd]),
      [
        ['no', 72n],
        ['yes', 72n],
      ],
    );
  });
});
