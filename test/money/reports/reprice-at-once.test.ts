import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { repriceLedger } from '../../../engine/money/reports/reprice.ts';
import { reportUsage } from '../../../engine/money/reports/usage.ts';
import type { Database } from '../../../engine/store/database.ts';
import { CHEAP, OPERATOR, pricedConfig, SINCE, twice, usePricedLedger } from '../../support/priced-ledger.ts';
import { balanceOf, spoiltStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

const books = usePricedLedger();

describe('pricing again beside others', () => {
  it('never adjusts a request twice, whoever else does it at the same time', async () => {
    await books.used();
    let others = 0;
    const slow: Pick<Database, 'query' | 'knex'> = {
      knex: books.database.knex,
      async query(name, text, values) {
        if (name === 'reprice_batch' && others++ === 0) await books.reprice(twice(CHEAP));
        return books.database.query<never>(name, text, values);
      },
    };
    const told: number[] = [];
    const onProgress = ({ requests }: { requests: number }) => void told.push(requests);
    const late = await repriceLedger(
      { database: slow, clock: books.clock, config: pricedConfig(twice(CHEAP)), onProgress },
      SINCE,
      OPERATOR,
    );
    assert.deepEqual(told, [1], 'it says how many requests were read');
    assert.deepEqual([late.changes[0]?.requests, late.written], [1, { requests: 0, difference_nano_usd: 0n }]);
    assert.deepEqual(await balanceOf(books.database, 'ann'), { spent: 72, reserved: 0 });
    await books.assertAddsUp();
  });

  it('goes on where it was broken off, whether the last batch was written or not', async () => {
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
    // The answer to the first batch was lost, but not the batch.
    assert.deepEqual(written, { requests: 251, difference_nano_usd: 251n * 36n });
    assert.deepEqual(await balanceOf(books.database, 'ann'), { spent: 451 * 72, reserved: 0 });
    await books.assertAddsUp();
  });

  it('adds up at every moment while requests go on', async () => {
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

  it('goes through any number of requests, each of which was priced again before', async () => {
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
  it('ends with what the last price comes to, and with counters that agree', async () => {
    const price = fc.integer({ min: 0, max: 5000 }).map((thousandth) => thousandth / 1000);
    const pricing = fc.record({
      input: price,
      output: price,
      cache_read: price,
      cache_write_5m: price,
      cache_write_1h: price,
    });
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
