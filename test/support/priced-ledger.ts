/** A ledger whose prices turn out to be wrong, for the tests of pricing it again. */
import assert from 'node:assert/strict';
import { beforeEach } from 'node:test';
import type { Settlement } from '../../engine/api.ts';
import type { GatewayConfig, PricesConfig, PricingConfig } from '../../engine/base/contract/config.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import type { Database } from '../../engine/base/store/database.ts';
import { DatabaseLedger } from '../../engine/domain/budget/ledger/ledger.ts';
import { type RepriceRequest, type Repricing, repriceLedger } from '../../engine/domain/budget/reports/reprice.ts';
import { verifyLedger } from '../../engine/domain/budget/reports/verify-ledger.ts';
import { quietLog, reservation, settlement, teamDemand, userDemand, useTestStore } from './store.ts';

/** Who prices again. */
export const OPERATOR = { kind: 'command', name: 'ann@backend' } as const;
/** Everything. */
export const SINCE: RepriceRequest = { since: '2026-03-01' };
/** 1 nano-USD per token. */
export const CHEAP: PricingConfig = {
  input: 0.001,
  output: 0.001,
  cache_read: 0.001,
  cache_write_5m: 0.001,
  cache_write_1h: 0.001,
};
/** The cost of a settlement at CHEAP: 10 + 20 + 3 + 2 + 1 tokens. */
export const COST = 36;

/** The double of all prices. */
export function twice(pricing: PricingConfig): PricingConfig {
  const doubled = Object.entries(pricing).map(([name, price]) => [name, (price as number) * 2]);
  return Object.fromEntries(doubled) as unknown as PricingConfig;
}

/** Two upstreams, one of them at half the price, and one model. */
export function pricedConfig(pricing: PricingConfig, prices?: PricesConfig): GatewayConfig {
  const models = [{ id: 'coder-1', aliases: [], group_aliases: [], upstream_ids: {}, pricing }];
  const upstreams = [{ name: 'main' }, { name: 'spare', price_multiplier: 0.5 }];
  return { models, upstreams, token_groups: [], ...(prices && { prices }) } as unknown as GatewayConfig;
}

/** The tools of a file's tests; the ledger is empty before each of them, and it is noon of the 10th of March 2026. */
export interface PricedLedger {
  readonly database: Database;
  readonly clock: ReturnType<typeof frozenClock>;
  /** Settles a request that counts against Ann's day and her team's month; gives its id. */
  used(more?: Partial<Settlement>): Promise<string>;
  /** Reprices and writes the differences. */
  reprice(pricing: PricingConfig, request?: RepriceRequest, prices?: PricesConfig): Promise<Repricing>;
  /** Prices again and writes nothing. */
  look(pricing: PricingConfig, request?: RepriceRequest, prices?: PricesConfig): Promise<Repricing>;
  assertAddsUp(): Promise<void>;
  /** The rows of a request, the adjusting ones last. */
  rowsOf(request_id: string): Promise<Record<string, unknown>[]>;
}

/** Opens such a ledger for a file; the result is filled in before the first test. */
export function usePricedLedger(): PricedLedger {
  const books = {} as { -readonly [Key in keyof PricedLedger]: PricedLedger[Key] };
  const ledgers = useTestStore((store) => {
    books.database = store.database;
  });
  beforeEach(async () => {
    const { database } = books;
    await database.knex.raw('truncate ledger, reservations, spend_counters, processes, admin_changes');
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
    ledgers.push(ledger);
    books.clock = clock;
    books.used = async (more = {}) => {
      const { model = 'coder-1', upstream = 'main' } = more;
      const demands = [userDemand('ann', null), teamDemand('search', null)];
      const request = reservation({ user: 'ann', team: 'search', model, upstream, demands, amount_nano_usd: 1000 });
      await ledger.reserve(request);
      await ledger.settle(settlement(request, { cost_nano_usd: COST, ...more }));
      return request.request_id;
    };
  });
  books.reprice = (pricing, request = SINCE, prices) =>
    repriceLedger({ ...books, config: pricedConfig(pricing, prices) }, request, OPERATOR);
  books.look = (pricing, request = SINCE, prices) =>
    repriceLedger({ ...books, config: pricedConfig(pricing, prices) }, request);
  books.assertAddsUp = async () => {
    const { differences, repeated, uncounted } = await verifyLedger(books);
    assert.deepEqual([differences.first, repeated.first, uncounted.first], [[], [], []]);
  };
  books.rowsOf = (request_id) => books.database.knex('ledger').where({ request_id }).orderBy('kind', 'desc');
  return books;
}
