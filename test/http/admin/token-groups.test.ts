/** What the admin API tells of token groups, and how it narrows the list of access tokens. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { createToken, revokeToken } from '../../../engine/identity/tokens/tokens.ts';
import { type AdminBench, config, useAdminApi } from './support.ts';

let bench: AdminBench;
const verified = {
  ...config,
  auth: { ...config.auth, oidc: {}, self_made_tokens: { suspend_after_days: 30 } },
} as unknown as GatewayConfig;
useAdminApi(
  (opened) => {
    bench = opened;
  },
  verified,
  undefined,
  { each: true },
);

const GROUPS = '/admin/api/token-groups';
const TOKENS = '/admin/api/tokens';
const DAY_MS = 86_400_000;

const ask = async (who: string, path: string) => {
  const { status, body } = await bench.ask(who, 'GET', path);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
};
const named = async (who: string, query: string): Promise<string[]> =>
  (await ask(who, `${TOKENS}?${query}`)).tokens.map(({ name }: { name: string }) => name);

beforeEach(async () => {
  const at = (days: number) => new Date(bench.clock.now() + days * DAY_MS);
  const make = (user: string, name: string, group: string, more: object = {}) => {
    bench.clock.advance(1);
    return createToken(bench.by, { user: `${user}@example.com`, name, group, ...more });
  };
  await make('alice', 'laptop', 'coders', { self_service: true });
  await make('alice', 'old', 'coders', { expires_at: at(1) });
  const gone = await make('alice', 'Lost%', 'visitors');
  await revokeToken(bench.by, { id: gone.id });
  await make('bob', 'desk', 'coders', { self_service: true });
  await make('bob', 'ci', 'left-behind');
  await bench.database.query(
    'test_blocked',
    `update principals set blocked_at = now() where email = 'bob@example.com'`,
    [],
  );
  bench.clock.advance(2 * DAY_MS);
});

describe('token groups', () => {
  test('are told with what they open, who may make tokens in them, and how many there are', async () => {
    const { token_groups } = await ask('root', GROUPS);
    assert.deepEqual(token_groups, [
      {
        ...{ name: 'coders', is_configured: true, models: ['coder-1'], members: ['engineering'] },
        ...{ is_for_everybody_else: false, may_make: true },
        tokens: { in_force: 2, suspended: 1, last_used_at: null },
      },
      {
        ...{ name: 'everything', is_configured: true, models: ['coder-1', 'writer-1'] },
        ...{ members: ['science', 'operators-in-chief'], is_for_everybody_else: false, may_make: true },
        tokens: { in_force: 0, suspended: 0, last_used_at: null },
      },
      {
        ...{ name: 'visitors', is_configured: true, models: ['writer-1'], members: [] },
        ...{ is_for_everybody_else: true, may_make: true },
        tokens: { in_force: 0, suspended: 0, last_used_at: null },
      },
      {
        ...{ name: 'left-behind', is_configured: false, models: [], members: [] },
        ...{ is_for_everybody_else: false, may_make: false },
        tokens: { in_force: 1, suspended: 0, last_used_at: null },
      },
    ]);
  });

  test("of others, and others' tokens in one's own, are nobody's but an administrator's to know", async () => {
    const { token_groups } = await ask('alice', GROUPS);
    assert.deepEqual(
      token_groups.map(({ name, tokens }: { name: string; tokens: { in_force: number } }) => [name, tokens.in_force]),
      [['coders', 1]],
    );
    const bobs = (await ask('bob', GROUPS)).token_groups;
    assert.deepEqual(
      bobs.map(({ name, members, may_make }: { name: string; members: string[]; may_make: boolean }) => [
        name,
        members,
        may_make,
      ]),
      [
        ['coders', ['engineering'], true],
        ['everything', ['science'], true],
        ['left-behind', [], false],
      ],
    );
  });
});

describe('the list of access tokens', () => {
  test('is narrowed by group, by state and by a part of a text', async () => {
    assert.deepEqual(await named('root', 'group=coders'), ['laptop', 'old', 'desk']);
    assert.deepEqual(await named('root', 'group=coders&state=in_force'), ['laptop', 'desk']);
    assert.deepEqual(await named('root', 'state=active'), ['laptop', 'ci']);
    assert.deepEqual(await named('root', 'state=suspended'), ['desk']);
    assert.deepEqual(await named('root', 'state=expired'), ['old']);
    assert.deepEqual(await named('root', 'state=revoked'), ['Lost%']);
    assert.deepEqual(await named('root', 'search=LOST%25'), ['Lost%']);
    assert.deepEqual(await named('root', 'search=bob@'), ['desk', 'ci']);
    assert.deepEqual(await named('root', 'search=%25'), ['Lost%']);
    assert.deepEqual(await named('root', 'state=replaced'), []);
  });

  test("shows nobody else's, however it is narrowed", async () => {
    assert.deepEqual(await named('alice', 'search=bob'), []);
    assert.deepEqual(await named('alice', 'group=left-behind'), []);
    assert.deepEqual(await named('alice', 'search=example&state=in_force'), ['laptop']);
  });

  test('begins with the newest when it is asked to, page by page', async () => {
    const first = await ask('root', `${TOKENS}?order=newest&limit=2`);
    assert.equal(first.tokens.length, 2);
    const second = await ask('root', `${TOKENS}?order=newest&limit=10&after=${first.next}`);
    const oldest = await ask('root', TOKENS);
    const ids = (tokens: readonly { id: string }[]) => tokens.map(({ id }) => id);
    assert.deepEqual([...ids(first.tokens), ...ids(second.tokens)], ids(oldest.tokens).reverse());
  });

  test('is suspended by the same rule in a filter as in what is shown', async () => {
    for (const days of [0, 20, 7, 1.5, 400]) {
      bench.clock.advance(days * DAY_MS);
      const { tokens } = await ask('root', TOKENS);
      for (const state of ['active', 'suspended', 'expired', 'revoked', 'replaced']) {
        const shown = tokens.filter((token: { state: string }) => token.state === state);
        const found = await named('root', `state=${state}`);
        assert.deepEqual(
          found,
          shown.map(({ name }: { name: string }) => name),
          `${state} ${days} days later`,
        );
      }
    }
  });
});
