import assert from 'node:assert/strict';
import { before, describe, it, test } from 'node:test';
import type { ChargedAttempt, Settlement } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { readForLong } from '../../../engine/domain/budget/reports/long-report.ts';
import { type BilledCost, type ReconcileInput, reconcile } from '../../../engine/domain/budget/reports/reconcile.ts';
import { readSpending } from '../../../engine/domain/budget/reports/spending.ts';
import { reportUsage } from '../../../engine/domain/budget/reports/usage.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { openTestStore, reservation, settlement, stillLedger, useTestStore } from '../../support/store.ts';

const USD = 1_000_000_000;
const { database, ledgers } = useTestStore();

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
    const ledger = stillLedger(database, clock);
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

describe('a long report', () => {
  it('is split into hours and delays no other request', async () => {
    const timeout = "select current_setting('statement_timeout') as timeout_now";
    const within = await readForLong(database, (read) => read<{ timeout_now: string }>(timeout, []));
    assert.deepEqual(within, [{ timeout_now: '6h' }]);
    const { rows } = await database.knex.raw(timeout);
    assert.deepEqual(rows, [{ timeout_now: '1min' }]);
  });

  it('sees one moment of the database', async () => {
    await readForLong(database, async (read) => {
      const count = () => read<{ count: number }>('select count(*) from limit_grants', []);
      assert.deepEqual(await count(), [{ count: 0 }]);
      await database.knex.raw(`insert into limit_grants (id, scope, key, window_kind, amount, granted_at, granted_by, expires_at)
         values ('g', 'user', 'ann', 'day', 1, now(), 'test', now())`);
      assert.deepEqual(await count(), [{ count: 0 }]);
    });
  });

  it('can change nothing', async () => {
    await assert.rejects(
      readForLong(database, (read) => read('delete from ledger', [])),
      /read-only transaction/,
    );
  });
});

test('sums the spending of a month however long that takes', async () => {
  const { database: own, close } = await openTestStore();
  // Returns its time limit, instead of being slow.
  await own.knex.raw(`
    create or replace function window_start(p_kind text, p_at timestamptz, p_time_zone text) returns timestamptz
    language plpgsql stable as $$ begin raise exception 'may take %', current_setting('statement_timeout'); end $$`);
  await assert.rejects(readSpending(own, 'month', 'UTC'), /may take 6h/).finally(close);
});

describe('what failed attempts cost', () => {
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const { database, ledgers } = useTestStore();

  const MODEL = { main: 'coder-1@main', spare: 'coder-1@spare' };

  function attempt(n: number, upstream: 'main' | 'spare', money: Partial<ChargedAttempt>): ChargedAttempt {
    const failed = {
      certainty: 'possibly_accepted',
      status: null,
      outcome: 'unanswered',
      reason: 'next_unconfirmed',
    } as const;
    const where = { n, upstream, upstream_model: MODEL[upstream] };
    return { ...where, ...failed, sends: 1, ms: 1.5, cost_nano_usd: 0, provenance: 'refused', ...money };
  }

  const SERVED = {
    certainty: 'answered',
    status: 200,
    outcome: 'answered',
    reason: 'served',
    provenance: 'upstream',
  } as const;

  /** Ann's request failed at main and was served by spare; Bob's the same under worst_case; Cy's was served at once. */
  before(async () => {
    const ledger = stillLedger(database, clock);
    ledgers.push(ledger);
    const used = async (user: string, charged: readonly ChargedAttempt[], outcome: Partial<Settlement>) => {
      const request = reservation({ user, request_id: user, upstream_model: MODEL.main });
      const { reservation: reserved } = await ledger.reserve(request);
      if (outcome.attempts !== undefined)
        await reserved!.move({ ...request, upstream: 'spare', upstream_model: MODEL.spare }, charged);
      await reserved!.settle(settlement(request, outcome));
    };
    const served = attempt(2, 'spare', { ...SERVED, cost_nano_usd: 60 });
    const apart = attempt(1, 'main', { provenance: 'estimate', possibly_billed_nano_usd: 30 });
    const upstream_facts = { upstream_ms: 8.5, upstream_request_id: 'req_last' };
    await used('ann', [], { attempts: [apart, served], possibly_billed_nano_usd: 30, ...upstream_facts });
    const counted = attempt(1, 'main', { cost_nano_usd: 30, provenance: 'possible', possibly_billed_nano_usd: 30 });
    await used('bob', [counted], {
      ...{ cost_nano_usd: 90, provenance: { cost: 'possible' }, attempts: [counted, served] },
      possibly_billed_nano_usd: 30,
    });
    await used('cy', [], { cost_nano_usd: 7, ...upstream_facts });
  });

  const NONE = { adjusted_nano_usd: 0n, possibly_billed_nano_usd: 0n, possible_nano_usd: 0n };

  describe('attempts in the ledger', () => {
    it('are a row each in the view ledger_attempts, also of requests with one attempt and no list of attempts', async () => {
      const rows = await database.query(
        'test_attempts',
        `select request_id, n, upstream, upstream_model, certainty, status, outcome, reason, sends, ms, upstream_request_id,
           cost_nano_usd, provenance, possibly_billed_nano_usd
         from ledger_attempts order by request_id, n`,
        [],
      );
      const first = { certainty: 'possibly_accepted', status: null, outcome: 'unanswered', reason: 'next_unconfirmed' };
      const own = { sends: 1, ms: 1.5, upstream_request_id: null };
      const main = { n: 1, upstream: 'main', upstream_model: MODEL.main, ...own };
      const spare = { n: 2, upstream: 'spare', upstream_model: MODEL.spare, ...own };
      const of_row = { ms: 8.5, upstream_request_id: 'req_last' };
      const last = { ...spare, ...SERVED, cost_nano_usd: 60, possibly_billed_nano_usd: null };
      const billed = { possibly_billed_nano_usd: 30 };
      assert.deepEqual(rows, [
        { request_id: 'ann', ...main, ...first, cost_nano_usd: 0, provenance: 'estimate', ...billed },
        { request_id: 'ann', ...last },
        { request_id: 'bob', ...main, ...first, cost_nano_usd: 30, provenance: 'possible', ...billed },
        { request_id: 'bob', ...last },
        { request_id: 'cy', ...main, ...of_row, ...SERVED, cost_nano_usd: 7, possibly_billed_nano_usd: null },
      ]);
    });

    it('are usage of their upstream, and possibly billed there', async () => {
      const rows = await reportUsage(database, {}, { by: ['upstream', 'upstream_model', 'estimated'] });
      const some = rows.map(({ upstream, upstream_model, estimated, requests, cost_nano_usd, ...row }) => {
        const { adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd } = row;
        const money = { adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd };
        return { upstream, upstream_model, estimated, requests, cost_nano_usd, ...money };
      });
      assert.deepEqual(some, [
        { upstream: 'spare', upstream_model: MODEL.spare, estimated: 'no', requests: 2, cost_nano_usd: 120n, ...NONE },
        {
          ...{ upstream: 'main', upstream_model: MODEL.main, estimated: 'yes', requests: 0, cost_nano_usd: 30n },
          ...{ adjusted_nano_usd: 0n, possibly_billed_nano_usd: 30n, possible_nano_usd: 30n },
        },
        { upstream: 'main', upstream_model: MODEL.main, estimated: 'no', requests: 1, cost_nano_usd: 7n, ...NONE },
      ]);
      const [all] = await reportUsage(database, {}, { by: ['model'] });
      assert.deepEqual([all!.requests, all!.cost_nano_usd], [3, 157n]);
    });

    it('are compared with the bill of their upstream', async () => {
      const bill = (upstream: 'main' | 'spare', cost_nano_usd: bigint) =>
        reconcile(database, {
          ...{ upstream, time_zone: 'UTC', tolerance: { millipercent: 0, nano_usd: 0n } },
          bill: [{ day: '2026-03-10', model: MODEL[upstream], cost_nano_usd }],
        });
      const { total: main } = await bill('main', 37n);
      assert.deepEqual([main.agrees, main.estimated_nano_usd, main.requests], [true, 30n, 1]);
      assert.deepEqual([main.possibly_billed_nano_usd, main.possible_nano_usd], [30n, 30n]);
      const { total: spare } = await bill('spare', 120n);
      assert.deepEqual([spare.agrees, spare.estimated_nano_usd, spare.requests], [true, 0n, 2]);
      assert.deepEqual([spare.possibly_billed_nano_usd, spare.possible_nano_usd], [0n, 0n]);
    });

    it('belong to their row, or verify reports them', async () => {
      const attemptsOf = async () => (await verifyLedger({ database, clock })).attempts;
      assert.deepEqual(await attemptsOf(), { total: 0, first: [] });
      const change = (attempts: string) =>
        database.knex.raw(`update ledger set attempts = ${attempts} where request_id = 'bob'`);
      await change("jsonb_set(attempts, '{0,cost_nano_usd}', '29')");
      assert.deepEqual(await attemptsOf(), {
        total: 1,
        first: [
          {
            ...{ request_id: 'bob', user: 'bob', cost_nano_usd: 90n, attempts_nano_usd: 89n },
            ...{ possibly_billed_nano_usd: 30n, attempts_possibly_billed_nano_usd: 30n },
          },
        ],
      });
      await change("jsonb_set(jsonb_set(attempts, '{0,cost_nano_usd}', '30'), '{1,n}', '3')");
      assert.equal((await attemptsOf()).total, 1, 'one is missing');
      await change("jsonb_set(jsonb_set(attempts, '{1,n}', '2'), '{1,upstream}', '\"third\"')");
      assert.equal((await attemptsOf()).total, 1, 'the row has the other upstream');
      await change("jsonb_set(attempts, '{1,upstream}', '\"spare\"')");
      assert.equal((await attemptsOf()).total, 0);
    });
  });
});
