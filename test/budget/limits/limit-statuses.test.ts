import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { type LimitParts, nameCounted } from '../../../engine/domain/budget/limits/limit-names.ts';
import {
  countRules,
  limitsAround,
  limitsAtAGlance,
  limitsOf,
} from '../../../engine/domain/budget/limits/limit-statuses.ts';
import { describeLimit, spendLimits } from '../../../engine/domain/budget/limits/spend-limits.ts';
import { limitedConfig } from '../../http/admin/limits-config.ts';
import { useTestStore } from '../../support/store.ts';

/** The report of limits that count only where their condition holds, two of which count the same callers. */

const { database } = useTestStore();

const agent = (kind: string) => ({ '===': [{ var: 'request.agent' }, kind] });
const rule = (name: string, kind: string, more: object) => {
  return { name, scope: 'user', when: agent(kind), count: 'matching', mode: 'enforce', ...more };
};
const config = {
  ...limitedConfig,
  spend_limits: {
    ...limitedConfig.spend_limits,
    defaults: {},
    rules: [
      rule('background', 'background', { window: 'day', limit_usd: 5, limit_usd_by_group: { science: 50 } }),
      rule('subagents', 'subagent', { window: 'day', limit_usd: 20 }),
      { ...rule('of-team', 'background', { window: 'day', limit_usd: 100 }), scope: 'team' },
    ],
  },
} as unknown as GatewayConfig;
const at = () => ({ database, clock: systemClock, config });

async function count(key: string, name: string, nano_usd: number): Promise<void> {
  await database.query(
    'test_count',
    `insert into spend_counters (scope, key, window_kind, window_start, unit, spent)
     values ('user+rule', $1, 'day', window_start('day', now(), 'UTC'), 'nano_usd', $2)`,
    [JSON.stringify([key, name]), nano_usd],
  );
}

beforeEach(() => database.knex.raw('truncate spend_counters, limit_settings'));

test('a counter has the limit of its own rule, for all it counts', async () => {
  await count('ana@example.com', 'background', 5e9);
  await count('ana@example.com', 'subagents', 5e9);
  const limits = (await limitsOf(at(), { user: 'ana@example.com' })).filter(({ of }) => of.rule !== undefined);
  const reported = limits.map(({ of, limit, room, rules }) => [of.rule, limit, room, rules.map((each) => each.rule)]);
  assert.deepEqual(reported, [
    ['background', 5, 0, ['background']],
    ['subagents', 20, 15, ['subagents']],
  ]);
});

test('counts the exhausted callers of each rule by its own counters', async () => {
  await count('ana@example.com', 'background', 5e9);
  await count('bob@example.com', 'subagents', 19e9);
  const counts = await countRules(at());
  assert.deepEqual(
    counts.map(({ limit, counted, none_left, nearly_none }) => [limit.name, counted, none_left, nearly_none]),
    [
      ['background', 1, 1, 0],
      ['subagents', 1, 0, 1],
      ['of-team', 0, 0, 0],
    ],
  );
});

test('an amount by group uses the user of the counter', async () => {
  await database.knex.raw(
    `insert into principals (id, email, groups, signed_in_at) values ('user:eve@example.com', 'eve@example.com', '{science}', now())`,
  );
  await count('eve@example.com', 'background', 45e9);
  const [background] = await countRules(at());
  assert.deepEqual([background!.none_left, background!.nearly_none], [0, 1]);
  const [eve] = (await limitsAtAGlance(at())).filter(({ of }) => of.user === 'eve@example.com');
  assert.deepEqual([eve?.limit, eve?.room], [50, 5]);
});

test('those nearest to their limit are found among them, by their own limit', async () => {
  await count('ana@example.com', 'background', 4e9);
  await count('bob@example.com', 'subagents', 4e9);
  const found = await limitsAtAGlance(at());
  assert.deepEqual(
    found.map(({ of, limit }) => [of.user, of.rule, limit]),
    [
      ['ana@example.com', 'background', 5],
      ['bob@example.com', 'subagents', 20],
    ],
  );
});

test('the description reports that such a limit counts only matching requests', () => {
  const [background] = spendLimits(config);
  assert.equal(
    describeLimit(background!),
    '50 USD for science, 5 USD for others per user and day, counting only matching requests',
  );
});

test('room is granted within one of them by its name, which must be one', () => {
  const spec = { window: 'day', unit: 'nano_usd' } as const;
  const of = { user: 'ana@example.com', rule: 'subagents' };
  assert.equal(nameCounted(config, { ...spec, of }).key, '["ana@example.com","subagents"]');
  const personal = { user: 'ana@example.com', team: 'search', rule: 'of-team' };
  assert.equal(nameCounted(config, { ...spec, of: personal }).scope, 'user+team+rule');
  assert.throws(
    () => nameCounted(config, { ...spec, of: { ...of, rule: 'subagent' } }),
    /no rule "subagent".*did you mean `subagents`/,
  );
});

test('lists thousands of limits completely from tables without statistics', async () => {
  await database.knex.raw(`insert into limit_settings (scope, key, window_kind, unit, amount, set_at, set_by)
     select 'user', 'u' || i || '@example.com', 'day', 'nano_usd', 5, now(), 'root' from generate_series(1, 5000) i`);
  await database.knex.raw(`insert into spend_counters (scope, key, window_kind, window_start, unit, spent)
     select 'user', 'u' || i || '@example.com', kind, window_start(kind, now(), 'UTC'), 'nano_usd', i
     from generate_series(1, 30000) i, unnest(array['day', 'week']) kind`);
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
