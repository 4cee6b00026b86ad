import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deskAtDatabase } from '../../../engine/cli/tokens/token-desk.ts';
import { list } from '../../../engine/cli/tokens/tokens.ts';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { cutOff } from '../../../engine/identity/deprovisioning/cut-off.ts';
import { rotateToken } from '../../../engine/identity/tokens/rotate-token.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { deskOf } from '../../cli/tokens/desk-at-gateway.ts';
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

test('what somebody made rests from when they are not let in any more, and what they were given does not', async () => {
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
  await cutOff(bench.by, { user, actor: bench.by.actor, because: 'not let in', tokens: 'rest' });
  assert.deepEqual(await statesOf(user), states('resting', 'resting'));
  assert.equal((await bench.ask('root', 'GET', `${TOKENS}/${own.id}`)).body.state, 'resting');

  const desk = deskOf('root', bench.url);
  await list(desk.context, { config: '', baseUrl: bench.url, user });
  assert.equal(desk.data().match(/ resting$/gm)?.length, 3);
  const at_database = await deskAtDatabase(with_sign_in, bench.database).list({ user });
  assert.deepEqual(Object.fromEntries(at_database.map(({ id, state }) => [id, state])), states('resting', 'expired'));
  for (const token of at_database) assert.ok(!('vouched_at' in token) && !('is_barred' in token));
});

test('what somebody made rests once nobody has vouched for them for as long as a session may live', async () => {
  const wish = { user: 'alice@example.com', group: 'coders', name: 'laptop' };
  const given = await createToken(bench.by, wish);
  const own = await createToken(bench.by, { ...wish, self_service: true });
  bench.clock.advance(30 * 86_400_000 - 1);
  assert.deepEqual(await statesOf(wish.user), { [given.id]: 'active', [own.id]: 'active' });
  bench.clock.advance(1);
  assert.deepEqual(await statesOf(wish.user), { [given.id]: 'active', [own.id]: 'resting' });
  await bench.database.query('test_seen', 'update principals set signed_in_at = $2 where email = $1', [
    wish.user,
    new Date(bench.clock.now()),
  ]);
  assert.deepEqual(await statesOf(wish.user), { [given.id]: 'active', [own.id]: 'active' });
});
