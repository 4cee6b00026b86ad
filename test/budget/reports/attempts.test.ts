import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { ChargedAttempt, Settlement } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { reconcile } from '../../../engine/domain/budget/reports/reconcile.ts';
import { reportUsage } from '../../../engine/domain/budget/reports/usage.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { quietLog, reservation, settlement, useTestStore } from '../../support/store.ts';

const clock = frozenClock('2026-03-10T12:00:00Z');
let database: Database;
const ledgers = useTestStore((store) => {
  database = store.database;
});

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
  const ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
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
  it('are a row each in the view ledger_attempts, also of requests that had one and say nothing of it', async () => {
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
