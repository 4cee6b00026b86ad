import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { PEOPLE } from '../../support/identity/identity-provider.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const MOST_CHARS = 3072;
/** As long as names of groups are at companies; 500 of them are 24 KB. */
const MANY = Array.from({ length: 500 }, (_, n) => `department-of-something-or-other/team-number-${n}`);

const scene = useSignInScene({
  oidc: { allowed_groups: ['engineering', MANY[499]!] },
  auth: { admin_groups: ['admins'] },
  config: { token_groups: [{ name: 'mapped', families: ['mapped'], members: ['engineering'] }] },
});
const { configure, modelsOf } = scene;

beforeEach(async () => {
  scene.provider.people.set('anna', { ...PEOPLE.anna, groups: [...MANY, 'engineering', 'admins'] });
  await configure();
});

const groupsIn = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()).groups;

/** A session token of hers, which has room in headers. */
async function tokenOfAnna(): Promise<string> {
  const { access_token } = await scene.signIn('anna');
  assert.ok(access_token.length < MOST_CHARS, `${access_token.length} characters`);
  return access_token;
}

describe('a user in 500 groups', () => {
  it('gets a session token with only the configured groups, and is shown all', async () => {
    const token = await tokenOfAnna();
    assert.deepEqual(groupsIn(token).sort(), ['admins', MANY[499], 'engineering'].sort());
    assert.deepEqual(await modelsOf(token), ['mapped-1']);
    const me = await scene.api(token, 'GET', 'me');
    assert.deepEqual([me.groups.length, me.roles], [MANY.length + 2, ['admin']]);
  });

  it('has a group that the configuration names later at once, with the token from before', async () => {
    const token = await tokenOfAnna();
    await configure((config) => {
      config.token_groups.unshift({ name: 'late', models: ['*'], members: [MANY[7]] });
    });
    assert.deepEqual(await modelsOf(token), ['coder-1', 'mapped-1']);
    await configure((config) => {
      config.auth.oidc.allowed_groups = ['no such group'];
    });
    assert.equal(await scene.statusOf(token), 401);
    await configure();
    assert.deepEqual(await modelsOf(token), ['mapped-1']);
  });
});
