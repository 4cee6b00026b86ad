import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adminAtDatabase } from '../../../engine/cli/admin.ts';
import { list } from '../../../engine/cli/tokens/tokens.ts';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { deprovision } from '../../../engine/identity/deprovisioning/deprovision.ts';
import { rotateToken } from '../../../engine/identity/tokens/rotate-token.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { backendOf } from '../../cli/tokens/backend-at-gateway.ts';
import { type AdminBench, config, useAdminApi } from './support.ts';

let bench: AdminBench;
const with_sign_in = {
  ...config,
  auth: { ...config.auth, oidc: {}, session: { refresh_days: 30 }, self_made_tokens: { check_minutes: 60 } },
} as GatewayConfig;
useAdminApi((opened) => {
  bench = opened;
}, with_sign_in);

const TOKENS = '/admin/api/tokens';

async function statesOf(user: string): Promise<Record<string, string>> {
  const { tokens } = (await bench.ask('root', 'GET', `${TOKENS}?user=${user}`)).body;
  return Object.fromEntries(tokens.map(({ id, state }: Record<string, string>) => [id, state]));
}

test('what somebody made is suspended from when they are not let in any more, and what they were given is not', async () => {
  const user = 'bob@example.com';
  const wish = { user, group: 'coders', name: 'laptop' };
  const made = { ...wish, self_service: true };
  const [given, own, replaced, revoked] = [
    await createToken(bench.by, wish),
    await createToken(bench.by, made),
    await createToken(bench.by, made),
    await createToken(bench.by, made),
  ];
  const successor = await rotateToken(bench.by, { id: replaced.id });
  await bench.ask('bob', 'DELETE', `${TOKENS}/${revoked.id}`);
  const states = (own_state: string, replaced_state: string) => ({
    [given.id]: 'active',
    [own.id]: own_state,
    [replaced.id]: replaced_state,
    [successor.id]: own_state,
    [revoked.id]: 'revoked',
  });
  assert.deepEqual(await statesOf(user), states('active', 'replaced'));
  await deprovision(bench.by, { user, actor: bench.by.actor, because: 'not let in', tokens: 'suspend' });
  assert.deepEqual(await statesOf(user), states('suspended', 'suspended'));
  assert.equal((await bench.ask('root', 'GET', `${TOKENS}/${own.id}`)).body.state, 'suspended');

  const backend = backendOf('root', bench.url);
  await list(backend.context, { config: '', baseUrl: bench.url, user });
  assert.equal(backend.data().match(/ suspended$/gm)?.length, 3);
  const at_database = (await adminAtDatabase(with_sign_in, bench.database)('listTokens', { user })).tokens;
  assert.deepEqual(Object.fromEntries(at_database.map(({ id, state }) => [id, state])), states('suspended', 'expired'));
  for (const token of at_database) assert.ok(!('verified_at' in token) && !('is_blocked' in token));
});

test('what somebody made is suspended once nobody has verified them for as long as a session may live', async () => {
  const wish = { user: 'alice@example.com', group: 'coders', name: 'laptop' };
  const given = await createToken(bench.by, wish);
  const own = await createToken(bench.by, { ...wish, self_service: true });
  bench.clock.advance(30 * 86_400_000 - 1);
  assert.deepEqual(await statesOf(wish.user), { [given.id]: 'active', [own.id]: 'active' });
  bench.clock.advance(1);
  assert.deepEqual(await statesOf(wish.user), { [given.id]: 'active', [own.id]: 'suspended' });
  await bench.database.query('test_seen', 'update principals set signed_in_at = $2 where email = $1', [
    wish.user,
    new Date(bench.clock.now()),
  ]);
  assert.deepEqual(await statesOf(wish.user), { [given.id]: 'active', [own.id]: 'active' });
});
