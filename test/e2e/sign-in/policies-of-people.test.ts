/** A policy follows a user on every path: no sign-in, token, group or spelling circumvents it. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { beforeEach, describe, it } from 'node:test';
import { projectOfTest } from '../../load/support/project.ts';
import { PEOPLE } from '../../support/identity/identity-provider.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const policyFile = (name: string, rest: string) => `policy: ${name}\nversion: 1\nsummary: A policy.\n${rest}`;
const MARKETING = policyFile('marketing', 'match: { groups: [marketing] }\nsettings: { availableModels: [mapped] }\n');

const project = projectOfTest({ 'policies/marketing.yaml': MARKETING });
const scene = useSignInScene({
  auth: { session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' } },
  config: { policies: { managed: { directory: project.path('policies') } } },
});
const { modelsOf } = scene;
const ownToken = (session_token: string) => scene.ownToken(session_token, `own-${randomUUID()}`);

beforeEach(() => changePolicy('[mapped]'));

/** Enforces the policy of the marketing users with another list of models. */
async function changePolicy(models: string): Promise<void> {
  await writeFile(project.path('policies/marketing.yaml'), MARKETING.replace('[mapped]', models));
  await scene.gateway.reload();
}

async function statusOf(token: string, model: string, path = '/v1/messages'): Promise<number> {
  return (await send(scene.gateway.url, { path, headers: bearer(token), body: messagesBody({ model }) })).status;
}

/** Asserts that a caller may use `mapped-1` alone, under this name alone. */
async function assertRestricted(token: string): Promise<void> {
  assert.deepEqual(await modelsOf(token), ['mapped-1']);
  assert.equal(await statusOf(token, 'mapped-1'), 200);
  for (const model of ['coder-1', 'CODER-1', 'coder-1 ', 'upstream-name@2026', 'coder', '*', 'coder-*']) {
    assert.equal(await statusOf(token, model), 404, model);
    assert.equal(await statusOf(token, model, '/v1/messages/count_tokens'), 404, model);
  }
}

describe('a policy', () => {
  it('reaches access tokens when the group of their owner changes', async () => {
    scene.provider.people.set('ben', { ...PEOPLE.ben, groups: ['sales'] });
    const { access_token, refresh_token } = await scene.signIn('ben');
    const token = await ownToken(access_token);
    assert.equal(await statusOf(token, 'coder-1'), 200);
    scene.provider.people.set('ben', { ...PEOPLE.ben });
    await assertRestricted((await scene.renew(refresh_token)).body.access_token);
    await until('the access token has the new groups', async () => (await statusOf(token, 'coder-1')) === 404);
    await assertRestricted(token);
  });

  it('changes for sessions and tokens alike with a reload', async () => {
    const { access_token } = await scene.signIn('ben');
    const both = [access_token, await ownToken(access_token)];
    // A mistake leaves the one before in force.
    for (const models of ['[coder]', '[]']) {
      await changePolicy(models);
      for (const each of both) assert.deepEqual(await modelsOf(each), ['coder-1']);
    }
    await changePolicy('[mapped]');
    for (const each of both) await assertRestricted(each);
  });
});
