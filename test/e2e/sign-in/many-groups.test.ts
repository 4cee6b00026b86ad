import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { PEOPLE, startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn, signIn } from '../../support/identity/sign-in.ts';

const MOST_CHARS = 3072;
/** As long as names of groups are at companies; 500 of them are 24 KB. */
const MANY = Array.from({ length: 500 }, (_, n) => `department-of-something-or-other/team-number-${n}`);

let provider: TestIdentityProvider;
let gateway: TestGateway;
let first: string;

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({
    provider,
    oidc: { allowed_groups: ['engineering', MANY[499]!] },
    auth: { admin_groups: ['admins'], limits: { device_authorizations: 1000 } },
    config: { token_groups: [{ name: 'mapped', families: ['mapped'], members: ['engineering'] }] },
  });
  first = await readFile(gateway.config_file, 'utf8');
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});
beforeEach(() => provider.people.set('anna', { ...PEOPLE.anna, groups: [...MANY, 'engineering', 'admins'] }));

/** Puts the first configuration in force, after a change. */
// biome-ignore lint/suspicious/noExplicitAny: a test changes what it likes
async function configure(change: (config: any) => void): Promise<void> {
  const config = JSON.parse(first);
  change(config);
  await writeFile(gateway.config_file, JSON.stringify(config));
  await gateway.reload();
  assert.ok(!gateway.logs.at(-1)?.includes('the reload failed'), gateway.logs.at(-2));
}

async function ask(token: string, path: string) {
  const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${token}` } });
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever is in there
  return { status: response.status, body: (await response.json()) as any };
}

const models = async (token: string) =>
  ((await ask(token, '/v1/models')).body.data as { id: string }[]).map(({ id }) => id);
const groupsIn = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()).groups;

describe('somebody in 500 groups', () => {
  it('gets a session token with those alone that the configuration names, and is told of all', async () => {
    await configure(() => {});
    const { access_token } = await signIn(gateway.url, 'anna');
    assert.ok(access_token.length < MOST_CHARS, `${access_token.length} characters`);
    assert.deepEqual(groupsIn(access_token).sort(), ['admins', MANY[499], 'engineering'].sort());
    assert.deepEqual(await models(access_token), ['mapped-1']);
    const { body: me } = await ask(access_token, '/admin/api/me');
    assert.deepEqual([me.groups.length, me.roles], [MANY.length + 2, ['admin']]);
  });

  it('has a group that the configuration names later at once, with the token from before', async () => {
    await configure(() => {});
    const { access_token } = await signIn(gateway.url, 'anna');
    await configure((config) => {
      config.token_groups.unshift({ name: 'late', models: ['*'], members: [MANY[7]] });
    });
    assert.deepEqual(await models(access_token), ['coder-1', 'mapped-1']);
    await configure((config) => {
      config.auth.oidc.allowed_groups = ['no such group'];
    });
    assert.equal((await ask(access_token, '/v1/models')).status, 401);
    await configure(() => {});
    assert.deepEqual(await models(access_token), ['mapped-1']);
  });

  it('loses none where the configuration names more than there is room for, and the log says how it goes on', async () => {
    await configure((config) => {
      config.token_groups = [
        { name: 'first', models: ['*'], members: ['nobody', MANY[499]] },
        { name: 'others', families: ['mapped'], members: MANY },
      ];
    });
    const { access_token } = await signIn(gateway.url, 'anna');
    assert.ok(access_token.length < MOST_CHARS, `${access_token.length} characters`);
    assert.equal(groupsIn(access_token), undefined);
    assert.deepEqual(await models(access_token), ['coder-1', 'mapped-1']);
    const told = gateway.logs.find((line) => line.includes('has no room for the groups'));
    assert.match(told ?? '', /"email":"anna@example\.com".*"groups":502/);
  });
});
