import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Settlement } from '../../../engine/api.ts';
import type { GatewayConfig, PricesConfig, PricingConfig } from '../../../engine/base/contract/config.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { listChanges } from '../../../engine/domain/audit/admin-changes.ts';
import { type RepriceRequest, repriceLedger } from '../../../engine/domain/budget/reports/reprice.ts';
import { reportUsage } from '../../../engine/domain/budget/reports/usage.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import {
  balanceOf,
  reservation,
  settlement,
  spoiltStore,
  stillLedger,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';
import { times } from '../../support/times.ts';

/** Who prices again. */
const OPERATOR = { kind: 'command', name: 'ann@backend' } as const;
/** Everything. */
const SINCE: RepriceRequest = { since: '2026-03-01' };
/** 1 nano-USD per token. */
const CACHE = { cache_read: 0.001, cache_write_5m: 0.001, cache_write_1h: 0.001 };
const CHEAP: PricingConfig = { input: 0.001, output: 0.001, ...CACHE };
/** The cost of a settlement at CHEAP: 10 + 20 + 3 + 2 + 1 tokens. */
const COST = 36;

/** The double of all prices. */
function twice(pricing: PricingConfig): PricingConfig {
  const doubled = Object.entries(pricing).map(([name, price]) => [name, (price as number) * 2]);
  return Object.fromEntries(doubled) as unknown as PricingConfig;
}

/** Two upstreams, one of them at half the price, and one model. */
function pricedConfig(pricing: PricingConfig, prices?: PricesConfig): GatewayConfig {
  const models = [{ id: 'coder-1', aliases: [], group_aliases: [], upstream_ids: {}, pricing }];
  const upstreams = [{ name: 'main' }, { name: 'spare', price_multiplier: 0.5 }];
  return { models, upstreams, token_groups: [], ...(prices && { prices }) } as unknown as GatewayConfig;
}

let clock: ReturnType<typeof frozenClock>;
let ledger: ReturnType<typeof stillLedger>;
const { database, ledgers } = useTestStore();

/** The ledger is empty before each test, and it is noon of the 10th of March 2026. */
beforeEach(async () => {
  await database.knex.raw('truncate ledger, reservations, spend_counters, processes, admin_changes');
  clock = frozenClock('2026-03-10T12:00:00Z');
  ledger = stillLedger(database, clock);
  ledgers.push(ledger);
});

/** Settles a request that counts against Ann's day and her team's month. @returns its id. */
async function used(more: Partial<Settlement> = {}): Promise<string> {
  const { model = 'coder-1', upstream = 'main' } = more;
  const demands = [userDemand('ann', null), teamDemand('search', null)];
  const request = reservation({ user: 'ann', team: 'search', model, upstream, demands, amount_nano_usd: 1000 });
  await ledger.reserve(request);
  await ledger.settle(settlement(request, { cost_nano_usd: COST, ...more }));
  return request.request_id;
}

/** Prices again and writes the differences. */
const reprice = (pricing: PricingConfig, request = SINCE, prices?: PricesConfig) =>
  repriceLedger({ database, clock, config: pricedConfig(pricing, prices) }, request, OPERATOR);

/** Prices again and writes nothing. */
const look = (pricing: PricingConfig, request = SINCE, prices?: PricesConfig) =>
  repriceLedger({ database, clock, config: pricedConfig(pricing, prices) }, request);

async function assertAddsUp(): Promise<void> {
  const { differences, repeated, uncounted } = await verifyLedger({ database, clock });
  assert.deepEqual([differences.first, repeated.first, uncounted.first], [[], [], []]);
}

/** The rows of a request, the adjusting ones last. */
const rowsOf = (request_id: string) => database.knex('ledger').where({ request_id }).orderBy('kind', 'desc');

describe('pricing the ledger again', () => {
  it('shows differences by day, model and upstream, and writes only on request', async () => {
    await used();
    await used({ upstream: 'spare' });
    clock.advance(24 * 3_600_000);
    await used();
    const { compared, changes, written } = await look(twice(CHEAP));
    const where = { day: '2026-03-10', model: 'coder-1', upstream: 'main' };
    const group = { ...where, requests: 1, was_nano_usd: 36n, cost_nano_usd: 72n };
    assert.deepEqual([compared, written], [3, undefined]);
    // The ledger has half of twice the price.
    assert.deepEqual(changes, [group, { ...group, day: '2026-03-11' }]);
    assert.equal((await database.knex('ledger')).length, 3);
    assert.deepEqual(await listChanges(database, { limit: 10 }), []);
  });

  it('adds a row for the difference, which counts where and when the request did', async () => {
    const request_id = await used();
    clock.advance(40 * 24 * 3_600_000);
    const { written } = await reprice(twice(CHEAP));
    assert.deepEqual(written, { requests: 1, difference_nano_usd: 36n });
    const [request, adjustment] = await rowsOf(request_id);
    assert.equal(request!.cost_nano_usd, COST);
    const tokens = ['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'];
    const none = Object.fromEntries(tokens.map((kind) => [`${kind}_tokens`, 0]));
    const repriced = { cost: 'repriced', of: 'upstream', was_nano_usd: 36, by: 'ann@backend' };
    const provenance = { ...repriced, at: '2026-04-19T12:00:00+00:00' };
    assert.deepEqual(adjustment, { ...request, ...none, kind: 'adjustment', cost_nano_usd: 36, provenance });
    assert.deepEqual(await balanceOf(database, 'ann'), { spent: 72, reserved: 0 });
    assert.deepEqual(await balanceOf(database, 'search'), { spent: 72, reserved: 0 });
    await assertAddsUp();
  });

  it('appears in the change log: who, when, what, how much', async () => {
    for (let i = 0; i < 450; i++) void used();
    await used();
    await reprice(twice(CHEAP), { since: '2026-03-01', until: '2026-04-01', model: 'coder-*', upstream: 'main' });
    const [change, ...others] = await listChanges(database, { limit: 10 });
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
    await assertAddsUp();
  });

  it('includes the other inputs of a price: tools at the upstream, long prompts, contracts', async () => {
    const long_context = { ...twice(CHEAP), above_input_tokens: 100 };
    const expensive = { ...CHEAP, server_tools: { web_search: 10 }, long_context };
    await used({ server_tools: { web_search: 2 } });
    const tokens = { input: 90, output: 1, cache_read: 11, cache_write_5m: 0, cache_write_1h: 0 };
    await used({ tokens, upstream: 'spare' });
    const { changes } = await look(expensive);
    assert.deepEqual(
      changes.map(({ upstream, cost_nano_usd }) => [upstream, cost_nano_usd]),
      [
        ['main', 20_000_036n],
        ['spare', 102n],
      ],
    );
  });

  it('uses the price on the day of a request', async () => {
    await used();
    clock.advance(24 * 3_600_000);
    const second = await used();
    const rows = [{ models: ['coder-*'], from: '2026-03-11', multiplier: 3 }];
    const { written } = await reprice(CHEAP, SINCE, { rows });
    assert.deepEqual(written, { requests: 1, difference_nano_usd: 72n });
    assert.equal((await rowsOf(second)).length, 2);
  });

  it('leaves a request alone that arrived before the price changed and left right after', async () => {
    clock.advance(12 * 3_600_000 + 2000);
    await used();
    const rows = [{ models: ['*'], from: '2026-03-11', multiplier: 3 }];
    assert.deepEqual((await look(CHEAP, SINCE, { rows })).changes, []);
    clock.advance(60_000);
    await used();
    assert.equal((await look(CHEAP, SINCE, { rows })).changes[0]?.requests, 1);
  });

  it('respects the given time, model and upstream', async () => {
    await used();
    await used({ upstream: 'spare' });
    const differing = async (options: Partial<RepriceRequest>) =>
      (await look({ ...CHEAP, input: 1 }, { ...SINCE, ...options })).changes.reduce(
        (sum, one) => sum + one.requests,
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
    await used({ tokens: nothing, cost_nano_usd: 1000, provenance: { cost: 'estimate' } });
    await used({ provenance: { cost: 'estimate' } });
    await used({ model: 'other-1' });
    await used({ upstream: 'gone' });
    const { compared, changes, skipped } = await look(twice(CHEAP));
    assert.deepEqual([compared, changes], [0, []]);
    assert.deepEqual(skipped, {
      no_tokens: 1,
      estimates: 1,
      no_price: new Map([['other-1', 1]]),
      no_upstream: new Map([['gone', 1]]),
    });
  });

  it('may be: estimates on demand, models without a price where there is one for them', async () => {
    await used({ provenance: { cost: 'estimate' } });
    await used({ model: 'other-1' });
    const unknown = { unknown_model: twice(CHEAP), rows: [] };
    const { compared, skipped } = await reprice(twice(CHEAP), { ...SINCE, estimates: true }, unknown);
    assert.deepEqual([compared, skipped.estimates, skipped.no_price.size], [2, 0, 0]);
    await assertAddsUp();
    const estimated = await reportUsage(database, {}, { by: ['estimated'] });
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
    await used();
    let others = 0;
    const slow: Pick<Database, 'query' | 'knex'> = {
      knex: database.knex,
      async query(name, text, values) {
        if (name === 'reprice_batch' && others++ === 0) await reprice(twice(CHEAP));
        return database.query<never>(name, text, values);
      },
    };
    const progress: number[] = [];
    const onProgress = ({ requests }: { requests: number }) => void progress.push(requests);
    const slowly = { database: slow, clock, config: pricedConfig(twice(CHEAP)), onProgress };
    const late = await repriceLedger(slowly, SINCE, OPERATOR);
    assert.deepEqual(progress, [1], 'it reports how many requests were read');
    assert.deepEqual([late.changes[0]?.requests, late.written], [1, { requests: 0, difference_nano_usd: 0n }]);
    assert.deepEqual(await balanceOf(database, 'ann'), { spent: 72, reserved: 0 });
    await assertAddsUp();
  });

  it('resumes after an interruption, whether the last batch was written or not', async () => {
    for (let i = 0; i < 450; i++) void used();
    await used();
    for (const moment of ['before', 'after'] as const) {
      const spoilt = { ...spoiltStore(database, 'reprice_batch', 1, moment), knex: database.knex };
      const broken = { database: spoilt, clock, config: pricedConfig(twice(CHEAP)) };
      await assert.rejects(repriceLedger(broken, SINCE, OPERATOR), { code: 'store_unavailable' });
      await assertAddsUp();
    }
    const { written } = await reprice(twice(CHEAP));
    // The response to the first batch was lost, but not the batch.
    assert.deepEqual(written, { requests: 251, difference_nano_usd: 251n * 36n });
    assert.deepEqual(await balanceOf(database, 'ann'), { spent: 451 * 72, reserved: 0 });
    await assertAddsUp();
  });

  it('adds up at every moment during traffic', async () => {
    for (let i = 0; i < 300; i++) void used();
    await used();
    let over = false;
    const repricing = Promise.all([reprice(twice(CHEAP)), reprice(twice(CHEAP))]).then(() => {
      over = true;
    });
    while (!over) {
      const requests = Promise.all([used({ cost_nano_usd: 72 }), used({ cost_nano_usd: 72 })]);
      await assertAddsUp();
      await requests;
    }
    await repricing;
    await assertAddsUp();
    const [sum] = await reportUsage(database, {}, { by: ['user'] });
    const { length } = await database.knex('ledger').where({ kind: 'request' });
    assert.equal(sum!.cost_nano_usd, BigInt(length) * 72n);
  });

  it('processes any number of requests, each already repriced', async () => {
    await database.knex.raw(`
      insert into ledger (request_id, kind, protocol, principal_id, user_email, model, upstream, upstream_model, aborted,
        input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cost_nano_usd,
        provenance, counter_ids, forwarded_at, settled_at)
      select 'many-' || n, kind, 'messages', 'user:ann', 'ann', 'coder-1', 'main', 'coder-1', false, tokens, 0, 0, 0, 0,
        case when kind = 'adjustment' then -1 when n % 1000 = 0 then 6 else 2 end, '{"cost":"upstream"}', '{}', at, at
      from generate_series(1, 45000) as n, (values ('request', 1), ('adjustment', 0)) as kinds (kind, tokens),
        (values (timestamptz '2026-03-10T12:00:00Z')) as moment (at)`);
    const { compared, written } = await reprice(CHEAP);
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
        await database.knex.raw('truncate ledger, spend_counters');
        await used();
        for (const each of prices) await reprice(each);
        const last = prices.at(-1)!;
        // Thousandths of a USD per million tokens are whole nano-USD per token.
        const nano = (usd: number) => BigInt(Math.round(usd * 1000));
        const expected =
          10n * nano(last.input) +
          20n * nano(last.output) +
          3n * nano(last.cache_read) +
          2n * nano(last.cache_write_5m) +
          nano(last.cache_write_1h);
        assert.equal((await reportUsage(database))[0]!.cost_nano_usd, expected);
        assert.equal(BigInt((await balanceOf(database, 'ann')).spent), expected);
        await assertAddsUp();
      }),
      { numRuns: times(6) },
    );
  });
});
