import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { limitsAround, limitsAtAGlance } from '../../../engine/domain/budget/limits/find-limits.ts';
import type { LimitParts } from '../../../engine/domain/budget/limits/limit-names.ts';
import { limitedConfig } from '../../http/admin/limits-config.ts';
import { useTestStore } from '../../support/store.ts';

let database: Database;
useTestStore((store) => {
  database = store.database;
});

test('lists thousands of limits completely from tables without statistics', async () => {
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

test("a user's limits include those of ten of their teams, in order of their names", async () => {
  const user = 'mia@example.com';
  const teams = Array.from({ length: 12 }, (_, n) => `team-${String(n).padStart(2, '0')}`);
  await database.query('test_principal', 'insert into principals (id, email) values ($1, $2)', [`user:${user}`, user]);
  await database.query(
    'test_tokens',
    `insert into access_tokens (id, hash, prefix, principal_id, token_group, name, team)
     select 'mia' || n, ('mia' || n)::bytea, 'gw_', $1, 'all', 'mia' || n, team
     from unnest($2::text[]) with ordinality as t (team, n)`,
    [`user:${user}`, [null, ...teams.toReversed()]],
  );
  const config = {
    ...limitedConfig,
    spend_limits: { ...limitedConfig.spend_limits!, defaults: { team_daily_usd: 5 } },
  };
  const teamsIn = async (of: LimitParts) => {
    const { limits } = await limitsAround({ database, clock: systemClock, config }, of);
    return limits.flatMap((limit) => (limit.scope === 'team' && limit.window === 'day' ? limit.of.team : []));
  };
  assert.deepEqual(await teamsIn({ user }), teams.slice(0, 10));
  assert.deepEqual(await teamsIn({ user, team: 'team-03' }), ['team-03']);
  // With one token named, the user still has every team.
  assert.deepEqual(await teamsIn({ user, token: 'mia2' }), teams.slice(0, 10));
});
