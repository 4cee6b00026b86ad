import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { createHealth, type ReloadState } from '../../engine/services/health.ts';

const loaded_at = Date.parse('2027-01-31T08:00:00Z');
const never_reloaded: ReloadState = { loaded_at, reloads: 0, failed_reloads: 0, failing_since: undefined };

test('the database says how it is', async () => {
  const state = { ok: false, detail: 'connection refused' };
  const { database } = await createHealth({ check: async () => state }, () => never_reloaded).check();
  assert.deepEqual(database, state);
});

test('the configuration says since when it is in force and how often it was reloaded', async () => {
  const health = createHealth({ check: async () => ({ ok: true }) }, () => ({ ...never_reloaded, reloads: 3 }));
  const told = { state: 'ok', loaded_at: '2027-01-31T08:00:00.000Z', reloads: 3, failed_reloads: 0 };
  assert.deepEqual((await health.check()).configuration, { ok: true, told });
});

test('a reload that failed is told, with its time, and leaves the gateway ready', async () => {
  const failed = { ...never_reloaded, failed_reloads: 2, failing_since: loaded_at + 1000 };
  const { configuration } = await createHealth({ check: async () => ({ ok: true }) }, () => failed).check();
  assert.equal(configuration?.ok, true);
  assert.equal(configuration?.told?.state, 'reload_failed');
  assert.equal(configuration?.told?.failing_since, '2027-01-31T08:00:01.000Z');
});

test('a database that does not answer counts as down after two seconds', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const health = createHealth({ check: () => new Promise(() => {}) }, () => never_reloaded).check();
  mock.timers.tick(2000);
  assert.deepEqual((await health).database, { ok: false, detail: 'no answer within 2 seconds' });
  mock.timers.reset();
});
