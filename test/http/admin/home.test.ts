import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { reportReplica } from '../../../engine/domain/audit/config-loads.ts';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { quietLog, reservation, settlement } from '../../support/store.ts';
import { count, limitedConfig } from './limits-config.ts';
import { adminBench, pick } from './support.ts';

const bench = adminBench(limitedConfig);

const HOME = '/admin/api/home';
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

async function refuse(records: readonly object[]): Promise<void> {
  const { database, clock } = bench;
  await database.query(
    'test_records',
    'insert into audit_log (at, request_id, record) select $1, null, record from jsonb_array_elements($2::jsonb) as record',
    [new Date(clock.now()), JSON.stringify(records)],
  );
}

async function spend(cost_nano_usd: number, cost = 'upstream'): Promise<void> {
  const { database, clock } = bench;
  const ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  const request = reservation();
  await ledger.reserve(request);
  await ledger.settle(settlement(request, { cost_nano_usd, provenance: { cost } as never }));
  await ledger.close();
}

describe('the first page of administrators', () => {
  test('has the numbers of the other operations, and ranks what to check', async () => {
    const { database, clock } = bench;
    clock.advance(-DAY_MS - HOUR_MS);
    await spend(2_000_000_000);
    clock.advance(DAY_MS + HOUR_MS);
    await spend(30_000_000_000);
    await spend(3_000_000_001, 'estimate');
    const error = { status: 429, error: 'spend_limit_exceeded', user: 'alice@example.com' };
    await refuse([error, error, { ...error, user: 'bob@example.com' }, { status: 404, error: 'model_not_found' }]);
    await refuse([
      { status: 529, error: null },
      { status: 200, error: null },
    ]);
    const row = { scope: 'user', key: 'near@example.com', window: 'day', start: '2026-03-10T00:00:00Z' };
    await count(database, { ...row, spent: 49_000_000_000 });
    await bench.ask('root', 'POST', '/admin/api/upstreams/spare/drain', { reason: 'moving' });
    const now = new Date(clock.now());
    const replica = { name: 'gw-1', version: '0123456789ab', cause: 'start', program: '1.0.0' } as const;
    await reportReplica(database, randomUUID(), { ...replica, loaded_at: now, failing_since: now, seen_at: now });

    const { body } = await bench.ask('root', 'GET', HOME);
    const usage = await bench.ask('root', 'GET', '/admin/api/usage?since=2026-03-10&compare=previous');
    assert.deepEqual([body.today, body.yesterday.total], [usage.body.total, usage.body.previous.total]);
    assert.equal(body.today.cost_usd, 33.000000001);
    assert.equal(body.refused.requests, 4);
    assert.deepEqual(pick(body.refused.by_error, 'error', 'requests', 'people'), [
      ['spend_limit_exceeded', 3, 2],
      ['model_not_found', 1, 0],
    ]);
    assert.match(body.refused.by_error[0].meaning, /limit/);
    assert.deepEqual(body.upstreams, { all: 2, unavailable: [], drained: ['spare'] });
    assert.deepEqual([body.configuration.replicas, body.configuration.is_failing], [1, true]);
    assert.deepEqual(pick(body.look_at, 'kind', 'subject'), [
      ['configuration_failed', null],
      ['upstream_drained', 'spare'],
      ['limit_near', 'near@example.com'],
      ['cost_grows', null],
      ['estimates_grow', null],
    ]);
  });
});
