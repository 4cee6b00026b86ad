import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LeasedRow } from '../../../engine/money/leases/lease-statements.ts';
import { RowSender } from '../../../engine/money/leases/row-sender.ts';
import { quietLog, reservation } from '../../support/store.ts';

test('a row whose connection broke before all of it was handed over is not told to be sent', async () => {
  const written = Promise.withResolvers<void>();
  const broken = new Error('the connection broke');
  const sender = new RowSender({
    lanes: () => ({ free: () => ({ send: () => ({ handed: undefined, answered: Promise.resolve() }) }) }),
    statements: {
      place: () => ({ handed: Promise.reject(broken), answered: Promise.reject(broken) }),
      placeAgain: () => written.promise,
    },
    log: quietLog,
    mayBeSent: () => true,
    onFailure() {},
  });
  const row: LeasedRow = { lease_id: 'lease', placement: { request: reservation(), parts: [], leases: [] } };
  const sent = await sender.send(row);
  assert.equal(sent?.is_handed, false);
  written.resolve();
  assert.equal(await sent?.written, true);
});
