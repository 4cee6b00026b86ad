/** What requests cost whose answers do not tell their usage. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { NO_MODEL } from '../../../engine/contract/no-model.ts';
import { chargeUnknown, type OtherCosts, tellsUsage } from '../../../engine/money/prices/other-charge.ts';
import { newUsageReading } from '../../../engine/protocols/usage/reading.ts';

const COSTS: OtherCosts = { model: 'embed-1', per_request: undefined, most: 900, counts_possible: false };
const NONE: OtherCosts = { ...COSTS, model: NO_MODEL.id, most: 0 };
const charge = (ending: 'known' | 'left' | 'failed', costs: OtherCosts) => {
  const { cost, provenance, possibly_billed_nano_usd = 0 } = chargeUnknown(ending, costs);
  return [cost, provenance.cost, possibly_billed_nano_usd];
};

describe('a request whose answer does not tell its usage', () => {
  it('costs what the operator says, else the most it can, else what nobody knows', () => {
    assert.deepEqual(charge('known', { ...COSTS, per_request: 500 }), [500, 'per_request', 0]);
    assert.deepEqual(charge('known', { ...COSTS, per_request: 0 }), [0, 'per_request', 0]);
    assert.deepEqual(charge('left', COSTS), [900, 'most', 0]);
    assert.deepEqual(charge('known', NONE), [0, 'unknown', 0]);
  });

  it('costs nothing where it failed, and what it may be billed is kept apart, or counts', () => {
    assert.deepEqual(charge('failed', { ...COSTS, per_request: 500 }), [0, 'unknown', 500]);
    assert.deepEqual(charge('failed', { ...COSTS, per_request: 500, counts_possible: true }), [500, 'possible', 500]);
    assert.deepEqual(charge('failed', NONE), [0, 'unknown', 0]);
  });

  it('never has tokens, and never costs more than was said or reserved', () => {
    const amount = fc.integer({ min: 0, max: 1e15 });
    fc.assert(
      fc.property(
        fc.constantFrom('known' as const, 'left' as const, 'failed' as const),
        fc.option(amount, { nil: undefined }),
        amount,
        fc.boolean(),
        (ending, per_request, most, counts_possible) => {
          const { usage, provenance, cost } = chargeUnknown(ending, { ...COSTS, per_request, most, counts_possible });
          assert.ok(Object.values(usage).every((count) => count === 0));
          assert.equal(provenance.input, 'unknown');
          assert.ok(cost >= 0 && cost <= (per_request ?? most));
        },
      ),
    );
  });

  it('is one that names no model, whatever its answer says', () => {
    const told = { ...newUsageReading(), seen: true };
    assert.equal(tellsUsage(told, 'embed-1'), true);
    assert.equal(tellsUsage(told, NO_MODEL.id), false);
    assert.equal(tellsUsage(newUsageReading(), 'embed-1'), false);
  });
});
