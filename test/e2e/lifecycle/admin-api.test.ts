import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';

const GROUPS = [
  { name: 'all', models: ['*'], members: ['admins'] },
  { name: 'mapped-only', families: ['mapped'], members: ['marketing'] },
];

let provider: TestIdentityProvider;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let one: TestGateway;
let other: TestGateway;

before(async () => {
  provider = await startIdentityProvider();
  database = await createTestDatabase();
  // What gateways remember does not grow old by it: all they learn of each other is announced.
  const clock = frozenClock(Date.now());
  const options = {
    provider,
    clock,
    database_url: database.url,
    auth: {
      admin_groups: ['admins'],
      limits: { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 },
    },
    config: { token_groups: GROUPS },
  };
  one = await bootSignIn(options);
  other = await bootSignIn({ ...options, public_url: one.url });
});
after(async () => {
  await one?.close();
  await other?.close();
  await database?.drop();
  await provider?.close();
});

// biome-ignore lint/suspicious/noExplicitAny: parsed JSON
async function api(gateway: TestGateway, token: string, method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(`${gateway.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, ...((await response.json()) as object) };
}

const models = async (gateway: TestGateway, token: string): Promise<{ status: number; ids: string[] }> => {
  const { status, data = [] } = await api(gateway, token, 'GET', '/v1/models');
  return { status, ids: data.map(({ id }: { id: string }) => id) };
};

describe('the admin API of running gateways', () => {
  test('lets an administrator cut somebody off, on every gateway as soon as it is announced', async () => {
    const [ben, anna] = [await signIn(one.url, 'ben'), await signIn(one.url, 'anna')];
    const made = await api(one, ben.access_token, 'POST', '/admin/api/tokens', { name: 'phone' });
    for (const gateway of [one, other]) {
      for (const token of [ben.access_token, made.token]) assert.equal((await models(gateway, token)).status, 200);
    }
    const path = '/admin/api/people/ben@example.com/deprovision';
    assert.equal((await api(one, ben.access_token, 'POST', path)).status, 403);
    const ended = await api(other, anna.access_token, 'POST', path, { because: 'left' });
    assert.ok(ended.sessions >= 1 && ended.tokens >= 1, JSON.stringify(ended));
    for (const gateway of [one, other]) {
      for (const token of [ben.access_token, made.token]) {
        await until('it is refused', async () => (await models(gateway, token)).status === 401);
      }
    }
    assert.equal((await api(one, ben.access_token, 'GET', '/admin/api/me')).status, 401);
    const refreshed = await askForToken(one.url, refreshWith(ben.refresh_token));
    assert.deepEqual([refreshed.status, refreshed.body.error], [401, 'invalid_grant']);

    const { changes } = await api(one, anna.access_token, 'GET', '/admin/api/changes?limit=1000');
    const cut = changes.find(({ action }: { action: string }) => action === 'person.deprovision');
    assert.deepEqual(
      [cut.actor, cut.subject, cut.after.because],
      [{ kind: 'person', name: 'anna@example.com' }, 'ben@example.com', 'left'],
    );
    const written = [JSON.stringify(changes), ...one.logs, ...other.logs].join('\n');
    for (const secret of [ben.access_token, ben.refresh_token, made.token])
      assert.ok(!written.includes(secret.slice(5, 40)));
  });

  test('ends the tokens somebody made in a token group they have left, when the session is renewed', async () => {
    const ben = await signIn(one.url, 'ben');
    const made = await api(one, ben.access_token, 'POST', '/admin/api/tokens', { name: 'backend' });
    assert.equal((await models(other, made.token)).status, 200);
    const person = provider.people.get('ben')!;
    try {
      provider.people.set('ben', { ...person, groups: ['sales'] });
      const { status, body } = await askForToken(one.url, refreshWith(ben.refresh_token));
      assert.equal(status, 200);
      await until('it is refused', async () => (await models(other, made.token)).status === 401);
      assert.deepEqual((await models(other, body.access_token)).ids, []);
      const again = await api(other, ben.access_token, 'POST', '/admin/api/tokens', { name: 'backend' });
      assert.deepEqual([again.status, again.error?.code], [403, 'forbidden'], 'nor is another made with the old token');
    } finally {
      provider.people.set('ben', person);
    }
  });
});

test('whoever is no administrator any more can not act as one with a session token from before', async () => {
  const [before, now] = [await signIn(one.url, 'anna'), await signIn(one.url, 'anna')];
  const person = provider.people.get('anna')!;
  try {
    provider.people.set('anna', { ...person, groups: ['marketing'] });
    assert.equal((await askForToken(one.url, refreshWith(now.refresh_token))).status, 200);
    for (const [path, body] of [
      ['/admin/api/people/ben@example.com/deprovision', {}],
      ['/admin/api/tokens', { user: 'ben@example.com', name: 'x', group: 'all' }],
      ['/admin/api/tokens', { name: 'x', group: 'all' }],
    ] as const) {
      assert.equal((await api(other, before.access_token, 'POST', path, body)).status, 403, path);
    }
  } finally {
    provider.people.set('anna', person);
  }
});
