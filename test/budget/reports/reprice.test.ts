import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Database } from '../../../engine/base/store/database.ts';
import { listChanges } from '../../../engine/domain/audit/admin-changes.ts';
import { type RepriceRequest, repriceLedger } from '../../../engine/domain/budget/reports/reprice.ts';
import { reportUsage } from '../../../engine/domain/budget/reports/usage.ts';
import { CHEAP, COST, OPERATOR, pricedConfig, SINCE, twice, usePricedLedger } from '../../support/priced-ledger.ts';
import { balanceOf, spoiltStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

const books = usePricedLedger();

describe('pricing the ledger again', () => {
  it('shows differences by day, model and upstream, and writes only on request', async () => {
    await books.used();
    await books.used({ upstream: 'spare' });
    books.clock.advance(24 * 3_600_000);
    await books.used();
    const { compared, changes, written } = await books.look(twice(CHEAP));
    const where = { day: '2026-03-10', model: 'coder-1', upstream: 'main' };
    const group = { ...where, requests: 1, was_nano_usd: 36n, cost_nano_usd: 72n };
    assert.deepEqual([compared, written], [3, undefined]);
    // The ledger has half of twice the price.
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
    const tokens = ['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'];
    const none = Object.fromEntries(tokens.map((kind) => [`${kind}_tokens`, 0]));
    const repriced = { cost: 'repriced', of: 'upstream', was_nano_usd: 36, by: 'ann@backend' };
    const provenance = { ...repriced, at: '2026-04-19T12:00:00+00:00' };
    assert.deepEqual(adjustment, { ...request, ...none, kind: 'adjustment', cost_nano_usd: 36, provenance });
    assert.deepEqual(await balanceOf(books.database, 'ann'), { spent: 72, reserved: 0 });
    assert.deepEqual(await balanceOf(books.database, 'search'), { spent: 72, reserved: 0 });
    await books.assertAddsUp();
  });

  it('appears in the change log: who, when, what, how much', async () => {
    for (let i = 0; i < 450; i++) void books.used();
    await books.used();
    await books.reprice(twice(CHEAP), { since: '2026-03-01', until: '2026-04-01', model: 'coder-*', upstream: 'main' });
    const [change, ...others] = await listChanges(books.database, { limit: 10 });
    assert.deepEqual(others, []);
    const { id: _, ...logged } = change!;
    assert.deepEqual(logged, {
      at: new Date('2026-03-10T12:00:00Z'),
      actor: OPERATOR,
      action: 'ledger.reprice',
      subject: '2026-03-01..2026-04-01 coder-* at main',
      before: null,
      after: { requests: 451, difference_usd: '0.000016236' },
    });
    await books.assertAddsUp();
  });

  it('includes the other inputs of a price: tools at the upstream, long prompts, contracts', async () => {
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

  it('uses the price on the day of a request', async () => {
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

  it('respects the given time, model and upstream', async () => {
    await books.used();
    await books.used({ upstream: 'spare' });
    const differing = async (options: Partial<RepriceRequest>) =>
      (await books.look({ ...CHEAP, input: 1 }, { ...SINCE, ...options })).changes.reduce(
        (sum, { requests }) => sum + requests,
        0,
      );
    const cases: readonly (readonly [requests: number, options: Partial<RepriceRequest>])[] = [
      [2, {}],
      [1, { upstream: 'spare' }],
      [0, { upstream: "' or true --" }],
      [2, { model: 'coder-*' }],
      [0, { model: 'other*' }],
      [0, { until: '2026-03-10' }],
      [2, { since: new Date('2026-03-10T12:00:00Z'), until: new Date('2026-03-10T12:00:01Z') }],
      [0, { since: '2026-03-11' }],
    ];
    for (const [requests, options] of cases) assert.equal(await differing(options), requests, JSON.stringify(options));
  });
});

describe('requests that keep their price', () => {
  it('are counted: without tokens, estimated, without a price, at a removed upstream', async () => {
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

describe('pricing again beside others', () => {
  it('never adjusts a request twice, even when run concurrently', async () => {
    await books.used();
    let others = 0;
    const slow: Pick<Database, 'query' | 'knex'> = {
      knex: books.database.knex,
      async query(name, text, values) {
        if (name === 'reprice_batch' && others++ === 0) await books.reprice(twice(CHEAP));
        return books.database.query<never>(name, text, values);
      },
    };
    const progress: number[] = [];
    const onProgress = ({ requests }: { requests: number }) => void progress.push(requests);
    const late = await repriceLedger(
      { database: slow, clock: books.clock, config: pricedConfig(twice(CHEAP)), onProgress },
      SINCE,
      OPERATOR,
    );
    assert.deepEqual(progress, [1], 'it reports how many requests were read');
    assert.deepEqual([late.changes[0]?.requests, late.written], [1, { requests: 0, difference_nano_usd: 0n }]);
    assert.deepEqual(await balanceOf(books.database, 'ann'), { spent: 72, reserved: 0 });
    await books.assertAddsUp();
  });

  it('resumes after an interruption, whether the last batch was written or not', async () => {
    for (let i = 0; i < 450; i++) void books.used();
    await books.used();
    for (const moment of ['before', 'after'] as const) {
      const database = { ...spoiltStore(books.database, 'reprice_batch', 1, moment), knex: books.database.knex };
      const broken = repriceLedger(
        { database, clock: books.clock, config: pricedConfig(twice(CHEAP)) },
        SINCE,
        OPERATOR,
      );
      await assert.rejects(broken, { code: 'store_unavailable' });
      await books.assertAddsUp();
    }
    const { written } = await books.reprice(twice(CHEAP));
    // The response to the first batch was lost, but not the batch.
    assert.deepEqual(written, { requests: 251, difference_nano_usd: 251n * 36n });
    assert.deepEqual(await balanceOf(books.database, 'ann'), { spent: 451 * 72, reserved: 0 });
    await books.assertAddsUp();
  });

  it('adds up at every moment during traffic', async () => {
    for (let i = 0; i < 300; i++) void books.used();
    await books.used();
    let over = false;
    const repricing = Promise.all([books.reprice(twice(CHEAP)), books.reprice(twice(CHEAP))]).then(() => {
      over = true;
    });
    while (!over) {
      const requests = Promise.all([books.used({ cost_nano_usd: 72 }), books.used({ cost_nano_usd: 72 })]);
      await books.assertAddsUp();
      await requests;
    }
    await repricing;
    await books.assertAddsUp();
    const [sum] = await reportUsage(books.database, {}, { by: ['user'] });
    const { count } = (await books.database.knex('ledger').where({ kind: 'request' }).count().first()) as {
      count: number;
    };
    assert.equal(sum!.cost_nano_usd, BigInt(count) * 72n);
  });

  it('processes any number of requests, each already repriced', async () => {
    await books.database.knex.raw(`
      insert into ledger (request_id, kind, protocol, principal_id, user_email, model, upstream, upstream_model, aborted,
        input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cost_nano_usd,
        provenance, counter_ids, forwarded_at, settled_at)
      select 'many-' || n, kind, 'messages', 'user:ann', 'ann', 'coder-1', 'main', 'coder-1', false, tokens, 0, 0, 0, 0,
        case when kind = 'adjustment' then -1 when n % 1000 = 0 then 6 else 2 end, '{"cost":"upstream"}', '{}', at, at
      from generate_series(1, 45000) as n, (values ('request', 1), ('adjustment', 0)) as kinds (kind, tokens),
        (values (timestamptz '2026-03-10T12:00:00Z')) as moment (at)`);
    const { compared, written } = await books.reprice(CHEAP);
    assert.deepEqual([compared, written], [45_000, { requests: 45, difference_nano_usd: -180n }]);
  });
});

describe('any sequence of prices', () => {
  it('ends with the last price, and with matching counters', async () => {
    const price = fc.integer({ min: 0, max: 5000 }).map((thousandth) => thousandth / 1000);
    const cached = { cache_read: price, cache_write_5m: price, cache_write_1h: price };
    const pricing = fc.record({ input: price, output: price, ...cached });
    await fc.assert(
      fc.asyncProperty(fc.array(pricing, { minLength: 1, maxLength: 4 }), async (prices) => {
        await books.database.knex.raw('truncate ledger, spend_counters');
        await books.used();
        for (const each of prices) await books.reprice(each);
        const last = prices.at(-1)!;
        // Thousandths of a USD per million tokens are whole nano-USD per token.
        const nano = (usd: number) => BigInt(Math.round(usd * 1000));
        const expected =
          10n * nano(last.input) +
          20n * nano(last.output) +
          3n * nano(last.cache_read) +
          2n * nano(last.cache_write_5m) +
          nano(last.cache_write_1h);
        assert.equal((await reportUsage(books.database))[0]!.cost_nano_usd, expected);
        assert.equal(BigInt((await balanceOf(books.database, 'ann')).spent), expected);
        await books.assertAddsUp();
      }),
      { numRuns: times(6) },
    );
  });
});
