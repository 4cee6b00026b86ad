/** A policy goes with a person, however they come: no sign-in, token, group or spelling is a way round it. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { after, before, beforeEach, describe, it } from 'node:test';
import { createProject, type Project } from '../../load/support/project.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { PEOPLE, startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, send } from '../support/client.ts';

const policyFile = (name: string, rest: string) => `policy: ${name}\nversion: 1\nsummary: A policy.\n${rest}`;
const MARKETING = policyFile('marketing', 'match: { groups: [marketing] }\nsettings: { availableModels: [mapped] }\n');
const PARTNERS = policyFile(
  'partners',
  'match: { email_domains: [Partner.example] }\npriority: 5\nsettings: { availableModels: [mapped-1] }\n',
);

let provider: TestIdentityProvider;
let upstream: ScriptedUpstream;
let gateway: TestGateway;
let project: Project;

before(async () => {
  provider = await startIdentityProvider();
  upstream = await startUpstream();
  upstream.script = answerJson(message());
  project = createProject({ 'policies/marketing.yaml': MARKETING, 'policies/partners.yaml': PARTNERS });
  gateway = await bootSignIn({
    provider,
    upstream_url: upstream.url,
    auth: {
      session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' },
      limits: { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 },
    },
    config: { policies: { managed: { directory: project.path('policies') } } },
  });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await provider?.close();
  project?.remove();
});
beforeEach(async () => {
  await changePolicy('[mapped]');
  provider.forgetEverything();
  provider.people.set('ben', { ...PEOPLE.ben });
});

/** Puts the policy of the marketing people in force with another list of models. */
async function changePolicy(models: string): Promise<void> {
  await writeFile(project.path('policies/marketing.yaml'), MARKETING.replace('[mapped]', models));
  await gateway.reload();
}

async function statusOf(token: string, model: string, path = '/v1/messages'): Promise<number> {
  return (await send(gateway.url, { path, headers: bearer(token), body: messagesBody({ model }) })).status;
}

async function modelsOf(token: string): Promise<string[]> {
  const headers = ['authorization', `Bearer ${token}`];
  const { data } = (await send(gateway.url, { method: 'GET', path: '/v1/models?limit=1000', headers })).json();
  return data.map(({ id }: { id: string }) => id);
}

async function selfMade(session_token: string): Promise<string> {
  const response = await fetch(`${gateway.url}/admin/api/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${session_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: `own-${randomUUID()}`, group: 'all' }),
  });
  const text = await response.text();
  assert.equal(response.status, 201, text);
  return JSON.parse(text).token;
}

/** Asserts that somebody may use `mapped-1` alone, under this name alone. */
async function assertRestricted(token: string): Promise<void> {
  assert.deepEqual(await modelsOf(token), ['mapped-1']);
  assert.equal(await statusOf(token, 'mapped-1'), 200);
  for (const model of ['coder-1', 'CODER-1', 'coder-1 ', 'upstream-name@2026', 'coder', '*', 'coder-*']) {
    assert.equal(await statusOf(token, model), 404, model);
    assert.equal(await statusOf(token, model, '/v1/messages/count_tokens'), 404, model);
  }
}

describe('a policy', () => {
  it('holds for a session and for the access token made with it', async () => {
    const { access_token } = await signIn(gateway.url, 'ben');
    await assertRestricted(access_token);
    const token = await selfMade(access_token);
    assert.match(token, /^gw_/);
    await assertRestricted(token);
  });

  it('holds in whatever order groups are, and however the address is spelt', async () => {
    provider.people.set('ben', { ...PEOPLE.ben, groups: ['all', 'zebra', 'marketing'] });
    await assertRestricted((await signIn(gateway.url, 'ben')).access_token);
    provider.people.set('ben', { ...PEOPLE.ben, groups: [], email: 'BEN@PARTNER.EXAMPLE' });
    await assertRestricted((await signIn(gateway.url, 'ben')).access_token);
  });

  it('reaches access tokens when the group of their owner changes', async () => {
    provider.people.set('ben', { ...PEOPLE.ben, groups: ['sales'] });
    const { access_token, refresh_token } = await signIn(gateway.url, 'ben');
    const token = await selfMade(access_token);
    assert.equal(await statusOf(token, 'coder-1'), 200);
    provider.people.set('ben', { ...PEOPLE.ben });
    const renewed = await askForToken(gateway.url, refreshWith(refresh_token));
    await assertRestricted(renewed.body.access_token);
    await until('the access token has the new groups', async () => (await statusOf(token, 'coder-1')) === 404);
    await assertRestricted(token);
  });

  it('changes for sessions and tokens alike with a reload', async () => {
    const { access_token } = await signIn(gateway.url, 'ben');
    const token = await selfMade(access_token);
    await changePolicy('[coder]');
    for (const each of [access_token, token]) assert.deepEqual(await modelsOf(each), ['coder-1']);
    // A mistake leaves the one before in force.
    await changePolicy('[]');
    for (const each of [access_token, token]) assert.deepEqual(await modelsOf(each), ['coder-1']);
    await changePolicy('[mapped]');
    for (const each of [access_token, token]) await assertRestricted(each);
  });
});
