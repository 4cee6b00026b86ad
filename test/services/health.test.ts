import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { createHealth } from '../../engine/services/health.ts';

test('the database says how it is', async () => {
  const state = { ok: false, detail: 'connection refused' };
  assert.deepEqual(await createHealth({ check: async () => state }).check(), { database: state });
});

test('a database that does not answer counts as down after two seconds', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const health = createHealth({ check: () => new Promise(() => {}) }).check();
  mock.timers.tick(2000);
  assert.deepEqual(await health, { database: { ok: false, detail: 'no answer within 2 seconds' } });
  mock.timers.reset();
});
