import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { Settlement } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { type BilledCost, type ReconcileInput, reconcile } from '../../../engine/domain/budget/reports/reconcile.ts';
import { quietLog, reservation, settlement, useTestStore } from '../../support/store.ts';

const USD = 1_000_000_000;
let database: Database;
const ledgers = useTestStore((store) => {
  database = store.database;
});

const usd = (amount: number) => BigInt(Math.round(amount * 1000)) * 1_000_000n;
const line = (day: string, model: string, amount: number): BilledCost => ({ day, model, cost_nano_usd: usd(amount) });
const BILL = [
  line('2026-03-10', 'coder-1@1', 2),
  line('2026-03-10', 'coder-2@1', 3),
  line('2026-03-11', 'coder-1@1', 5),
];
const compare = (bill: readonly BilledCost[], more: Partial<ReconcileInput> = {}) =>
  reconcile(database, {
    upstream: 'main',
    bill,
    tolerance: { millipercent: 0, nano_usd: 0n },
    time_zone: 'UTC',
    ...more,
  });
const disagreeing = async (bill: readonly BilledCost[], more: Partial<ReconcileInput> = {}) => {
  const { rows, agrees, total } = await compare(bill, more);
  assert.equal(agrees, total.agrees && rows.every((row) => row.agrees));
  return rows.filter((row) => !row.agrees).map(({ day, model }) => `${day} ${model}`);
};

describe('a bill beside the ledger', () => {
  /** On the 10th coder-1 cost 2 USD, half of it guessed, and coder-2 3 USD; on the 11th coder-1 cost 5. */
  before(async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
    ledgers.push(ledger);
    const used = async (upstream_model: string, cost_nano_usd: number, more: Partial<Settlement> = {}) => {
      const request = reservation({ upstream_model, amount_nano_usd: 10 * USD, upstream: more.upstream ?? 'main' });
      await ledger.reserve(request);
      await ledger.settle(settlement(request, { cost_nano_usd, ...more }));
    };
    await used('coder-1@1', 1 * USD);
    await used('coder-1@1', 1 * USD, { provenance: { cost: 'estimate' } });
    await used('coder-2@1', 3 * USD);
    await used('coder-1@1', 7 * USD, { upstream: 'spare' });
    clock.advance(24 * 3_600_000);
    await used('coder-1@1', 5 * USD);
  });

  it('agrees to the nano-USD and reports the estimated share', async () => {
    const agreed = (cost: number, requests: number, estimated = 0) => ({
      ...{ billed_nano_usd: usd(cost), ledger_nano_usd: usd(cost), estimated_nano_usd: usd(estimated) },
      ...{ possibly_billed_nano_usd: 0n, possible_nano_usd: 0n, requests, agrees: true },
    });
    assert.deepEqual(await compare(BILL), {
      ...{ first_day: '2026-03-10', last_day: '2026-03-11', left_out: 0, agrees: true },
      rows: [
        { day: '2026-03-10', model: 'coder-1@1', ...agreed(2, 2, 1) },
        { day: '2026-03-10', model: 'coder-2@1', ...agreed(3, 1) },
        { day: '2026-03-11', model: 'coder-1@1', ...agreed(5, 1) },
      ],
      total: agreed(10, 4, 1),
    });
  });

  it('disagrees by a nano-USD where nothing is tolerated', async () => {
    const [first, ...others] = BILL;
    const moreExpensive = { ...first!, cost_nano_usd: first!.cost_nano_usd + 1n };
    assert.deepEqual(await disagreeing([moreExpensive, ...others]), ['2026-03-10 coder-1@1']);
    assert.deepEqual(
      await disagreeing([moreExpensive, ...others], { tolerance: { millipercent: 0, nano_usd: 1n } }),
      [],
    );
  });

  it('disagrees beyond a percentage of the bill, line by line', async () => {
    const bill = [line('2026-03-10', 'coder-1@1', 2.02), line('2026-03-10', 'coder-2@1', 2.97), BILL[2]!];
    const within = (millipercent: number) => disagreeing(bill, { tolerance: { millipercent, nano_usd: 0n } });
    assert.deepEqual(await within(1011), []);
    assert.deepEqual(await within(1000), ['2026-03-10 coder-2@1']);
    assert.deepEqual(await within(990), ['2026-03-10 coder-1@1', '2026-03-10 coder-2@1']);
  });

  it('has lines that exist on one side only', async () => {
    const bill = [...BILL.slice(1), line('2026-03-10', 'coder-9', 1), line('2026-03-10', 'free', 0)];
    const { rows } = await compare(bill);
    assert.deepEqual(
      rows
        .filter((row) => !row.agrees)
        .map(({ model, billed_nano_usd, ledger_nano_usd }) => [model, billed_nano_usd, ledger_nano_usd]),
      [
        ['coder-1@1', undefined, usd(2)],
        ['coder-9', usd(1), undefined],
      ],
    );
    assert.deepEqual(await disagreeing([...BILL, line('2026-03-10', 'credit', -1)]), ['2026-03-10 credit']);
  });

  it('is compared for its own days, or for the requested ones', async () => {
    assert.deepEqual(await disagreeing(BILL.slice(0, 2)), []);
    assert.deepEqual(await disagreeing(BILL.slice(0, 2), { until: '2026-03-12' }), ['2026-03-11 coder-1@1']);
    const part = await compare([...BILL, line('2026-02-28', 'coder-1@1', 1)], { since: '2026-03-11' });
    assert.deepEqual(
      [part.first_day, part.last_day, part.left_out, part.agrees],
      ['2026-03-11', '2026-03-11', 3, true],
    );
  });

  it('has days of the requested time zone', async () => {
    const moved = BILL.map((each) => ({ ...each, day: each.day === '2026-03-10' ? '2026-03-11' : '2026-03-12' }));
    assert.deepEqual(await disagreeing(moved, { time_zone: 'Pacific/Auckland' }), []);
  });
});
