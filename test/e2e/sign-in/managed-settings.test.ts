import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { createProject, type Project } from '../../load/support/project.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, collect, connect, messagesBody, parseRaw, send } from '../support/client.ts';

const policyFile = (name: string, rest: string) => `policy: ${name}\nversion: 1\nsummary: A policy.\n${rest}`;

const STANDARD = policyFile('standard', 'settings: { model: coder-1, permissions: { deny: [Bash] } }\n');
const CONTRACTORS = policyFile(
  'contractors',
  `match: { groups: [contractors], email_domains: [partner.example] }
settings: { model: mapped-1, availableModels: [mapped], permissions: { deny: [WebFetch] } }
`,
);

const SETTINGS = '/managed/settings';

describe('managed settings', () => {
  let upstream: ScriptedUpstream;
  let gateway: TestGateway;
  let project: Project;
  let contractor: string;
  before(async () => {
    upstream = await startUpstream();
    upstream.script = answerJson(message());
    project = createProject({ 'policies/standard.yaml': STANDARD, 'policies/contractors.yaml': CONTRACTORS });
    const managed = { default_policy: 'standard', directory: project.path('policies') };
    gateway = await bootGateway({ upstream_url: upstream.url, config: { policies: { managed } } });
    contractor = await gateway.newToken({ user: 'Pat@Partner.example' });
  });
  after(async () => {
    await gateway?.close();
    await upstream?.close();
    project?.remove();
  });

  const get = (token: string, more: readonly string[] = [], method = 'GET') =>
    send(gateway.url, { method, path: SETTINGS, headers: ['authorization', `Bearer ${token}`, ...more] });

  it('are those of the policies meant for the caller, with a checksum anybody can recompute', async () => {
    const response = await get(contractor);
    assert.equal(response.status, 200);
    const { uuid, checksum, settings, ...rest } = response.json();
    assert.deepEqual(rest, {});
    assert.match(uuid, /^[0-9a-f-]{36}$/);
    assert.deepEqual(settings, {
      availableModels: ['mapped'],
      model: 'mapped-1',
      permissions: { deny: ['Bash', 'WebFetch'] },
    });
    // Served with sorted keys already.
    const digest = createHash('sha256').update(JSON.stringify(settings)).digest('hex');
    assert.equal(checksum, `sha256:${digest}`);
    assert.equal(response.headers.etag, `"${checksum}"`);
    assert.equal(response.headers['cache-control'], 'private, no-cache');
    assert.deepEqual((await get(gateway.token)).json().settings, { model: 'coder-1', permissions: { deny: ['Bash'] } });
  });

  it('go by the groups that the owner of an access token has', async () => {
    const token = await gateway.newToken({ user: 'ann@example.com' });
    await gateway.database.query('test_groups', 'update principals set groups = $2 where id = $1', [
      'user:ann@example.com',
      ['contractors'],
    ]);
    assert.equal((await get(token)).json().settings.model, 'mapped-1');
  });

  it('are not sent again to a client that has them, and the connection stays usable', async () => {
    const { etag = '' } = (await get(gateway.token)).headers;
    const head = `GET ${SETTINGS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.token}\r\n`;
    const socket = await connect(gateway.url);
    const received = collect(socket);
    socket.write(`${head}if-none-match: W/${etag}\r\n\r\n${head}connection: close\r\n\r\n`);
    const text = await received.closed;
    const [first, second] = text.split(/(?=HTTP\/1\.1 )/).map(parseRaw);
    assert.deepEqual([first?.status, first?.body, first?.headers.etag], [304, '', etag]);
    assert.equal(first?.headers['content-length'], undefined);
    assert.equal(first?.headers['content-type'], undefined);
    assert.equal(second?.status, 200);
    assert.equal((await get(contractor, ['if-none-match', etag])).status, 200);
  });

  it('are noted as asked for, also by a client that has them', async () => {
    const token = await gateway.newToken({ user: 'eve@example.com' });
    const { etag = '' } = (await get(token)).headers;
    await get(token, ['if-none-match', etag]);
    const [fetch] = await until('it is written down', async () => {
      const rows = await gateway.database.query<{ checksum: string; policies: readonly string[] }>(
        'test_fetches',
        "select checksum, policies from policy_fetches where principal_id = 'user:eve@example.com'",
        [],
      );
      return rows.length > 0 && rows;
    });
    assert.deepEqual([`"${fetch!.checksum}"`, fetch!.policies], [etag, ['standard']]);
  });

  it('answer HEAD with the same headers', async () => {
    const [got, head] = [await get(contractor), await get(contractor, [], 'HEAD')];
    assert.deepEqual([head.status, head.text], [200, '']);
    assert.equal(head.headers.etag, got.headers.etag);
    assert.equal(head.headers['content-length'], got.headers['content-length']);
  });

  it('are for callers only: without or with a bad token it is a JSON 401', async () => {
    const stranger = await send(gateway.url, { method: 'GET', path: SETTINGS });
    assert.deepEqual([stranger.status, stranger.json().error.code], [401, 'credential_missing']);
    assert.equal((await get('gw_nonsense')).json().error.code, 'credential_invalid');
    assert.equal((await send(gateway.url, { method: 'POST', path: SETTINGS })).status, 405);
  });

  it('restrict the models that may be used, everywhere, and the refusal names the policy', async () => {
    const sent = upstream.requests.length;
    const refused = await ask(gateway.url, contractor);
    assert.equal(refused.status, 404);
    const { error } = refused.json();
    assert.deepEqual([error.code, error.model, error.policy], ['model_not_found', 'coder-1', 'contractors']);
    assert.match(error.message, /the policy "contractors" does not list it/);
    const counted = await send(gateway.url, {
      path: '/v1/messages/count_tokens',
      headers: bearer(contractor),
      body: messagesBody(),
    });
    assert.deepEqual([counted.status, counted.json().error.policy], [404, 'contractors']);
    assert.equal(upstream.requests.length, sent);
    const listed = await send(gateway.url, { method: 'GET', path: '/v1/models', headers: bearer(contractor) });
    assert.deepEqual(
      listed.json().data.map(({ id }: { id: string }) => id),
      ['mapped-1'],
    );
    assert.equal((await ask(gateway.url, contractor, { model: 'mapped-1' })).status, 200);
    assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  });

  it('change with their files: edited, added, removed; a mistake leaves the ones before in force', async () => {
    const standard = project.path('policies/standard.yaml');
    const own = project.path('policies/own.yaml');
    const settingsNow = async () => (await get(gateway.token)).json().settings;
    await writeFile(standard, STANDARD.replace('coder-1', 'mapped-1'));
    await gateway.reload();
    assert.equal((await settingsNow()).model, 'mapped-1');
    await writeFile(own, policyFile('own', 'match: { email_domains: [example.com] }\nsettings: { tips: false }\n'));
    await gateway.reload();
    assert.equal((await settingsNow()).tips, false);
    await writeFile(own, policyFile('own', 'settings: { permissions: false }\n'));
    await gateway.reload();
    assert.equal((await settingsNow()).tips, false);
    assert.ok(gateway.logs.some((line) => line.includes('C9006')));
    await rm(own);
    await writeFile(standard, STANDARD);
    await gateway.reload();
    assert.deepEqual(await settingsNow(), { model: 'coder-1', permissions: { deny: ['Bash'] } });
  });
});

describe('a gateway without managed policies', () => {
  let upstream: ScriptedUpstream;
  let gateway: TestGateway;
  let project: Project;
  before(async () => {
    upstream = await startUpstream();
    project = createProject({ 'policies/standard.yaml': STANDARD });
    const managed = { enabled: false, default_policy: 'standard', directory: project.path('policies') };
    gateway = await bootGateway({ upstream_url: upstream.url, config: { policies: { managed } } });
  });
  after(async () => {
    await gateway?.close();
    await upstream?.close();
    project?.remove();
  });

  it('says that there is none, as JSON, also where a file is there and policies are off', async () => {
    const response = await send(gateway.url, { method: 'GET', path: SETTINGS, headers: bearer(gateway.token) });
    assert.equal(response.status, 404);
    const { type, error } = response.json();
    assert.deepEqual([type, error.type, error.code], ['error', 'not_found_error', 'policy_not_found']);
  });
});
