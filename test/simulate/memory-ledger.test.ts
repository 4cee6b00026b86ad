/** What only the ledger in memory does: it goes away on demand, and takes over known states. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CounterName } from '../../engine/api.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { MemoryLedger } from '../../engine/edge/simulate/memory/memory-ledger.ts';
import { reservation, settlement } from '../support/store.ts';
import { demand } from './ledger-benches.ts';

const NOON = '2026-03-10T12:00:00Z';

function open() {
  const state = { away: false };
  const clock = frozenClock(NOON);
  return { state, clock, ledger: new MemoryLedger({ clock, isAway: () => state.away }) };
}

const day = demand('ana', 100);
const week = demand('ana', 100, { window: 'week' });
const parallel = demand('ana', 1, { window: 'open', unit: 'requests' });

describe('a ledger in memory that is away', () => {
  it('rejects what may not leave then, and shows no limit states', async () => {
    const { state, ledger } = open();
    state.away = true;
    const away = { code: 'store_unavailable' };
    await assert.rejects(ledger.reserve(reservation({ demands: [day] })), away);
    await assert.rejects(ledger.statuses([day]), away);
    assert.deepEqual(ledger.attempts, []);
  });

  it('admits a permitted request without a reservation, and counts it under all its names on settlement', async () => {
    const { state, ledger } = open();
    state.away = true;
    const request = reservation({ demands: [day, week, parallel], on_store_error: 'allow' });
    const { reservation: _, ...decision } = await ledger.reserve(request);
    assert.deepEqual(decision, { exceeded: [], shadows: [], statuses: [], unreserved: true });
    ledger.topUp(request.request_id, 100);
    assert.deepEqual([ledger.reserved(), ledger.balance(day).in_flight], [0, 0]);
    await ledger.settle(settlement(request, { reserved: false }));
    await ledger.settle(settlement(request, { reserved: false }));
    const spent = [day, week, parallel].map((name) => ledger.balance(name).spent);
    assert.deepEqual([spent, ledger.rows.length], [[60, 60, 0], 1]);
  });

  it('drops an unsent request without a reservation', async () => {
    const { state, ledger } = open();
    state.away = true;
    const request = reservation({ demands: [day], on_store_error: 'allow' });
    await ledger.reserve(request);
    await ledger.release(request.request_id);
    assert.deepEqual(ledger.balance(day), { spent: 0, reserved: 0, most: 0, in_flight: 0 });
    assert.deepEqual(ledger.rows, []);
  });
});

describe('a ledger in memory', () => {
  it('takes over reservations with their maximum, and their number', async () => {
    const { ledger } = open();
    const { scope, key, window, unit }: CounterName = day;
    ledger.put({ scope, key, window, unit, spent: 5, reserved: 10, most: 90, in_flight: 3 });
    assert.deepEqual(ledger.balance(day), { spent: 5, reserved: 10, most: 90, in_flight: 3 });
    const { exceeded } = await ledger.reserve(reservation({ amount_nano_usd: 6, demands: [day] }));
    const found = exceeded.map(({ spent, reserved, most, in_flight }) => [spent, reserved, most, in_flight]);
    assert.deepEqual(found, [[5, 10, 90, 3]]);
  });

  it('reports the headroom of every limit for each attempt', async () => {
    const { ledger } = open();
    const shadow = demand('ana', 10, { shadow: true, rule: 'noted' });
    await ledger.reserve(reservation({ amount_nano_usd: 60, demands: [day, shadow, parallel] }));
    await ledger.reserve(reservation({ amount_nano_usd: 60, demands: [day, shadow, parallel] }));
    const reported = ledger.attempts.map(({ statuses, exceeded }) => [
      ...statuses.map((one) => `${one.spent} + ${one.reserved} + ${one.needed} of ${one.in_force}: ${one.room}`),
      ...exceeded.map(({ window }) => window),
    ]);
    assert.deepEqual(reported, [
      ['0 + 0 + 60 of 100: true', '0 + 0 + 60 of 10: false', '0 + 0 + 1 of 1: true'],
      ['0 + 60 + 60 of 100: false', '0 + 60 + 60 of 10: false', '0 + 1 + 1 of 1: false', 'day', 'open'],
    ]);
  });

  it('rejects an invalid amount, and reserves no more than a request can cost', async () => {
    const { ledger } = open();
    const all_wrong = [{ amount_nano_usd: Number.NaN }, { most_nano_usd: 1.5 }, { tokens: -1 }, { most_nano_usd: 99 }];
    for (const wrong of all_wrong) {
      await assert.rejects(ledger.reserve(reservation({ demands: [day], ...wrong })), RangeError);
    }
    assert.deepEqual(ledger.balance(day), { spent: 0, reserved: 0, most: 0, in_flight: 0 });
  });
});
