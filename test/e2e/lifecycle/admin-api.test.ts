import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { useSignInScene } from '../support/sign-in-scene.ts';

// Caches of gateways do not expire by the frozen clock: all they learn of each other is announced.
const scene = useSignInScene({
  frozen: true,
  replicas: 2,
  auth: { admin_groups: ['admins'] },
  config: {
    token_groups: [
      { name: 'all', models: ['*'], members: ['admins'] },
      { name: 'mapped-only', families: ['mapped'], members: ['marketing'] },
    ],
  },
});
const { api, modelsOf, renew, refused, signIn, statusOf } = scene;

describe('the admin API of running gateways', () => {
  test('lets an administrator block a user on every gateway as soon as it is announced', async () => {
    const { gateway, other, gateways } = scene;
    const [ben, anna] = [await signIn('ben'), await signIn('anna')];
    const made = await api(ben.access_token, 'POST', 'tokens', { name: 'phone' });
    for (const at of gateways) {
      for (const token of [ben.access_token, made.token]) assert.equal(await statusOf(token, at), 200);
    }
    const path = 'people/ben@example.com/deprovision';
    assert.equal((await api(ben.access_token, 'POST', path)).status, 403);
    const ended = await api(anna.access_token, 'POST', path, { because: 'left' }, other);
    assert.ok(ended.sessions >= 1 && ended.tokens >= 1, JSON.stringify(ended));
    for (const at of gateways) {
      for (const token of [ben.access_token, made.token]) await refused(token, at);
    }
    assert.equal((await api(ben.access_token, 'GET', 'me')).status, 401);
    const refreshed = await renew(ben.refresh_token);
    assert.deepEqual([refreshed.status, refreshed.body.error], [401, 'invalid_grant']);

    const { changes } = await api(anna.access_token, 'GET', 'changes?limit=1000');
    const cut = changes.find(({ action }: { action: string }) => action === 'person.deprovision');
    assert.deepEqual(
      [cut.actor, cut.subject, cut.after.because],
      [{ kind: 'person', name: 'anna@example.com' }, 'ben@example.com', 'left'],
    );
    const written = [JSON.stringify(changes), ...gateway.logs, ...other.logs].join('\n');
    for (const secret of [ben.access_token, ben.refresh_token, made.token])
      assert.ok(!written.includes(secret.slice(5, 40)));
  });

  test("ends a user's tokens in a token group they have left, when the session is renewed", async () => {
    const { provider, other } = scene;
    const ben = await signIn('ben');
    const made = await api(ben.access_token, 'POST', 'tokens', { name: 'backend' });
    assert.equal(await statusOf(made.token, other), 200);
    provider.people.set('ben', { ...provider.people.get('ben')!, groups: ['sales'] });
    const { status, body } = await renew(ben.refresh_token);
    assert.equal(status, 200);
    await refused(made.token, other);
    assert.deepEqual(await modelsOf(body.access_token, other), []);
    const again = await api(ben.access_token, 'POST', 'tokens', { name: 'backend' }, other);
    assert.deepEqual([again.status, again.error?.code], [403, 'forbidden'], 'nor does the old token create another');
  });
});

test('a former administrator cannot use an older session token as one', async () => {
  const { provider, other } = scene;
  const [before, now] = [await signIn('anna'), await signIn('anna')];
  provider.people.set('anna', { ...provider.people.get('anna')!, groups: ['marketing'] });
  assert.equal((await renew(now.refresh_token)).status, 200);
  for (const [path, body] of [
    ['people/ben@example.com/deprovision', {}],
    ['tokens', { user: 'ben@example.com', name: 'x', group: 'all' }],
    ['tokens', { name: 'x', group: 'all' }],
  ] as const) {
    assert.equal((await api(before.access_token, 'POST', path, body, other)).status, 403, path);
  }
});
