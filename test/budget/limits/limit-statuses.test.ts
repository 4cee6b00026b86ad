import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { limitsAtAGlance } from '../../../engine/domain/budget/limits/find-limits.ts';
import { limitedConfig } from '../../http/admin/limits-config.ts';
import { useTestStore } from '../../support/store.ts';

let database: Database;
useTestStore((store) => {
  database = store.database;
});

test('thousands of limits are listed, none left out, from tables that nobody has analysed yet', async () => {
  await database.query(
    'test_settings',
    `insert into limit_settings (scope, key, window_kind, unit, amount, set_at, set_by)
     select 'user', 'u' || i || '@example.com', 'day', 'nano_usd', 5, now(), 'root' from generate_series(1, 5000) i`,
    [],
  );
  await database.query(
    'test_counters',
    `insert into spend_counters (scope, key, window_kind, window_start, unit, spent)
     select 'user', 'u' || i || '@example.com', kind, window_start(kind, now(), 'UTC'), 'nano_usd', i
     from generate_series(1, 30000) i, unnest(array['day', 'week']) kind`,
    [],
  );
  const { spend_limits } = limitedConfig;
  const same = { name: 'same', scope: 'user', window: 'day', limit_usd: 50, mode: 'enforce' } as const;
  const config = { ...limitedConfig, spend_limits: { ...spend_limits!, rules: [...spend_limits!.rules, same] } };
  const limits = await limitsAtAGlance({ database, clock: systemClock, config });
  assert.equal(limits.filter(({ set }) => set !== null).length, 5000);
  const nearest = limits.filter(({ set }) => set === null);
  assert.deepEqual([nearest.length, nearest[0]!.of.user], [20, 'u30000@example.com']);
  // A counter of two rules is one.
  assert.equal(new Set(nearest.map(({ of, window }) => `${of.user} ${window}`)).size, 20);
});
