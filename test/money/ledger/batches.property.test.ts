/** `carry_batch` against `run_batch`, which it took the place of: the same batches, the same answers, the same state. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { LimitDemand, ReservationRequest, Settlement } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { parseAnswer, readDecisions } from '../../../engine/money/ledger/batch-answer.ts';
import {
  CounterList,
  packReservation,
  packSettlement,
  reservationRow,
} from '../../../engine/money/ledger/batch-request.ts';
import { LedgerStatements } from '../../../engine/money/ledger/ledger-statements.ts';
import { NO_TOKENS } from '../../../engine/money/prices/prices.ts';
import type { Database } from '../../../engine/store/database.ts';
import { openTestStore, reservation, settlement, type TestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

const PROCESS = '00000000-0000-4000-8000-000000000001';
const NOW = Date.UTC(2026, 4, 12, 10);
const ZONE = 'Europe/Berlin';
const clock = frozenClock(new Date(NOW).toISOString());

let stores: [TestStore, TestStore];
before(async () => {
  stores = [await openTestStore(), await openTestStore()];
});
after(() => Promise.all(stores.map((store) => store.close())));

interface Batch {
  readonly settlements: readonly Settlement[];
  readonly requests: readonly ReservationRequest[];
  readonly late: boolean;
}

const untilOf = ({ late }: Batch) => new Date(late ? 0 : Date.UTC(2100, 0));

/** As gateways of earlier versions do. */
async function runBatch(database: Database, batch: Batch) {
  const counters = new CounterList();
  const rows = batch.settlements.map((each) => packSettlement(each, counters));
  const packed = batch.requests.map((request) => packReservation(request, counters));
  const wanted = packed.map((each, i) => ({
    ...reservationRow(each),
    ...(i === 0 && { valid_until: untilOf(batch) }),
  }));
  const [row] = await database.query<{ answer: string | null }>(
    'test_run_batch',
    'call run_batch($1, $2, null, $3, $4, $5, $6, $7, $8, $9, null)',
    [PROCESS, new Date(NOW), ZONE, ...counters.columns, JSON.stringify(rows), JSON.stringify(wanted)],
  );
  const answer = parseAnswer(row);
  return {
    written: batch.settlements.map(({ request_id }) => !answer.repeated.includes(request_id)),
    decisions: answer.late === true ? undefined : readDecisions(packed, answer),
  };
}

function carryBatch(database: Database, batch: Batch) {
  const statements = new LedgerStatements({ database, clock, time_zone: () => ZONE, process_id: PROCESS });
  return statements.batch(batch.settlements, batch.requests, untilOf(batch));
}

/** Everything that a batch can change, but for numbers that a sequence gave. */
async function stateOf(database: Database) {
  const named = (ids: string) =>
    `array(select concat_ws(' ', s.scope, s.key, s.window_kind, s.window_start, s.unit)
     from unnest(${ids}) with ordinality as i (id, n) join spend_counters s on s.id = i.id order by i.n)`;
  const tables = {
    counters: `select scope, key, window_kind, window_start, unit, spent, reserved, most, in_flight from spend_counters
      order by 1, 2, 3, 4, 5`,
    reservations: `select to_jsonb(r) - 'counter_ids' - 'rate_counter_ids' as row, ${named('r.counter_ids')} as money,
      ${named('r.rate_counter_ids')} as rates from reservations r order by request_id`,
    ledger: `select to_jsonb(l) - 'counter_ids' as row, ${named('l.counter_ids')} as counters from ledger l
      order by request_id, (to_jsonb(l) - 'counter_ids')::text`,
    waiting: 'select to_jsonb(w) as row from usage_waiting w order by to_jsonb(w)::text',
  };
  const state: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(tables)) state[name] = await database.query(`test_state_${name}`, text, []);
  return state;
}

const amount = fc.integer({ min: 0, max: 100 });
const demand = fc.record({
  scope: fc.constantFrom('user', 'team', 'model'),
  key: fc.constantFrom('a', 'b, "c" (d)\\'),
  window: fc.constantFrom('day', 'week', 'month', 'minute', 'open'),
  unit: fc.constantFrom('nano_usd', 'nano_usd', 'tokens', 'requests'),
  limit: fc.option(fc.integer({ min: 0, max: 300 })),
  shadow: fc.boolean(),
}) as fc.Arbitrary<Omit<LimitDemand, 'rule'>>;
const asked = fc.record({
  id: fc.integer({ min: 0, max: 60 }),
  amount,
  more: amount,
  tokens: fc.integer({ min: 0, max: 100 }),
  overshoot: fc.constantFrom(undefined, undefined, 5, 50),
  demands: fc.array(demand, { maxLength: 6 }),
  team: fc.constantFrom(null, '', 'platform, "x"', 'back\\slash'),
});
interface Ended {
  readonly id: number;
  readonly reserved: boolean;
  readonly cost: number;
  readonly status: number | null;
  readonly aborted: boolean;
  readonly how: 'plain' | 'attempts' | 'billed' | 'estimate';
}
const settled: fc.Arbitrary<Ended> = fc.record({
  id: fc.integer({ min: 0, max: 60 }),
  reserved: fc.constantFrom(true, true, true, false),
  cost: fc.constantFrom(0, 7, 90, Number.NaN),
  status: fc.constantFrom(200, null, 500),
  aborted: fc.boolean(),
  how: fc.constantFrom('plain', 'plain', 'attempts', 'billed', 'estimate'),
});
const step = fc.record({
  reserve: fc.uniqueArray(asked, { selector: ({ id }) => id, maxLength: 8 }),
  settle: fc.uniqueArray(settled, { selector: ({ id }) => id, maxLength: 6 }),
  late: fc.constantFrom(false, false, false, false, true),
});
const change = fc.record({
  scope: fc.constantFrom('user', 'team'),
  set: fc.option(amount),
  granted: fc.option(amount),
});

function settlementOf(of: ReservationRequest, { reserved, cost, status, aborted, how }: Ended): Settlement {
  const provenance = {
    ...settlement(of).provenance,
    cost: how === 'estimate' ? ('estimate' as const) : ('upstream' as const),
  };
  return settlement(of, {
    ...{ reserved, cost_nano_usd: cost, status, aborted, provenance },
    ...(how === 'estimate' && { tokens: NO_TOKENS }),
    ...(how === 'billed' && { billed: { model: 'coder "2"', service_tier: 'batch' }, cache_requested_ttl: '1h' }),
    ...(how === 'attempts' && {
      attempts: [
        { n: 1, upstream: 'main', upstream_model: 'm', cost_nano_usd: 0, provenance: 'refused' },
        { n: 2, upstream: 'spare', upstream_model: 'm', cost_nano_usd: cost, provenance: 'upstream' },
      ] as unknown as NonNullable<Settlement['attempts']>,
    }),
  });
}

describe('a batch as rows', () => {
  it('comes to what the same batch as JSON comes to', async () => {
    let run = 0;
    const [[old_store], [new_store]] = [[stores[0]!.database], [stores[1]!.database]];
    const check = fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 6 }),
      fc.array(change, { maxLength: 2 }),
      async (steps, changes) => {
        const prefix = `${run++}-`;
        for (const database of [old_store, new_store]) {
          await database.query('test_unset', 'delete from limit_settings', []);
          await database.query('test_revoke', 'delete from limit_grants', []);
          for (const [i, { scope, set, granted }] of changes.entries()) {
            const about = [scope, 'a', new Date(NOW - 1000)];
            if (set !== null)
              await database.query(
                'test_set',
                `insert into limit_settings values ($1, $2, 'day', 'nano_usd', $4, '', $3, 'x')
              on conflict do nothing`,
                [...about, set],
              );
            if (granted !== null && granted > 0)
              await database.query(
                'test_grant',
                `insert into limit_grants values ($1, $2, $3, 'day', 'nano_usd', $5, '', $4, 'x', 'infinity')`,
                [`${prefix}${i}`, ...about, granted],
              );
          }
        }
        const known = new Map<number, ReservationRequest>();
        for (const { reserve, settle, late } of steps) {
          const requests = reserve
            .filter(({ id }) => !known.has(id))
            .map(({ id, amount, more, tokens, overshoot, demands, team }) =>
              reservation({
                ...{
                  request_id: `${prefix}${id}`,
                  amount_nano_usd: amount,
                  most_nano_usd: amount + more,
                  tokens,
                  team,
                },
                ...{
                  demands: demands.map((each) => ({ ...each, rule: 'r' })),
                  ...(overshoot !== undefined && { overshoot_percent: overshoot }),
                },
              }),
            );
          const settlements = settle.map((each) =>
            settlementOf(known.get(each.id) ?? reservation({ request_id: `${prefix}${each.id}` }), each),
          );
          const batch = { settlements, requests, late };
          const [expected, actual] = [await runBatch(old_store, batch), await carryBatch(new_store, batch)];
          assert.deepEqual(actual, expected);
          assert.deepEqual(await stateOf(new_store), await stateOf(old_store));
          for (const [i, request] of requests.entries())
            if (expected.decisions?.[i]?.exceeded.length === 0)
              known.set(Number(request.request_id.slice(prefix.length)), request);
        }
      },
    );
    await fc.assert(check, { numRuns: times(12), interruptAfterTimeLimit: 60_000 });
  });
});
