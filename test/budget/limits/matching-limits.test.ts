/** The report of limits that count only where their condition holds, two of which count the same callers. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { countRules, limitsAtAGlance, limitsOf } from '../../../engine/domain/budget/limits/find-limits.ts';
import { nameCounted } from '../../../engine/domain/budget/limits/limit-names.ts';
import { describeLimit, spendLimits } from '../../../engine/domain/budget/limits/spend-limits.ts';
import { limitedConfig } from '../../http/admin/limits-config.ts';
import { useTestStore } from '../../support/store.ts';

let database: Database;
useTestStore((store) => {
  database = store.database;
});

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

beforeEach(async () => {
  await database.query('test_forget', 'delete from spend_counters', []);
});

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
  await database.query(
    'test_person',
    `insert into principals (id, email, groups, signed_in_at) values ('user:eve@example.com', 'eve@example.com', '{science}', now())`,
    [],
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

test('the description says that such a limit counts only matching requests', () => {
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
