import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import type { Database } from '../../engine/base/store/database.ts';
import { KEPT, listLoads, listReplicas, readVersion } from '../../engine/domain/audit/config-loads.ts';
import { type LoadRecord, openLoadRecord } from '../../engine/edge/gateway/loads.ts';
import { quietLog, useTestStore } from '../support/store.ts';

const HASH = { config_hash: 'feedfeedfeed', needs_restart: [] };
const DAY_MS = 86_400_000;

const { store } = useTestStore();

function openRecord(clock = frozenClock('2026-03-10T12:00:00Z')): { record: LoadRecord; clock: typeof clock } {
  const { database } = store;
  return { record: openLoadRecord({ database, clock, log: quietLog, every: () => () => {} }), clock };
}

const version = (digits: number) => {
  const name = digits.toString(16).padStart(12, '0');
  return { version: name, files: [{ name: 'gateway.yaml', text: name, digest: null }], findings: [], rules: [] };
};

describe('configurations loaded by gateways', () => {
  test('are recorded once the database is back, without the oldest after a long outage', async () => {
    let is_away = true;
    const query: Database['query'] = (...asked) => {
      return is_away ? Promise.reject(new Error('away')) : store.database.query(...asked);
    };
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const record = openLoadRecord({ database: { query }, clock, log: quietLog, every: () => () => {} });
    for (let n = 0; n < 25; n++) record.note({ cause: 'files', kept: undefined, changed: [], problem: `away ${n}` });
    await record.flush();
    is_away = false;
    await record.flush();
    const problems = (await listLoads(store.database, { limit: 100 })).flatMap(({ problem }) => problem ?? []);
    assert.deepEqual([problems.length, problems[0], problems.at(-1)], [20, 'away 24', 'away 5']);
    await record.close();
  });

  test('are deleted when old or too many, but not the active ones of a replica', async () => {
    const { record, clock } = openRecord();
    const kept = (digits: number) => readVersion(store.database, version(digits).version);
    record.note({ cause: 'start', kept: version(1), changed: [], in_force: HASH });
    await record.flush();
    const other = openRecord(clock).record;
    for (let n = 2; n < KEPT.versions + 9; n++) {
      other.note({ cause: 'files', kept: version(n), changed: ['gateway.yaml'], in_force: HASH });
      await other.flush();
    }
    await openRecord(clock).record.flush();
    assert.ok(await kept(1), 'it runs');
    assert.equal(await kept(2), undefined);
    assert.ok(await kept(KEPT.versions + 8));
    await other.close();
    clock.advance((KEPT.days + 1) * DAY_MS);
    await record.flush();
    await openRecord(clock).record.flush();
    assert.equal(await kept(KEPT.versions + 8), undefined);
    assert.ok(await kept(1), 'it runs still');
    assert.equal((await listReplicas(store.database, new Date(clock.now()))).length, 1);
    await record.close();
    assert.deepEqual(await listReplicas(store.database, new Date(clock.now())), []);
  });
});
