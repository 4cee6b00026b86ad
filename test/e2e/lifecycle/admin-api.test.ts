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
