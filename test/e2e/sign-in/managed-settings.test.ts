import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, describe, it } from 'node:test';
import { projectOfTest } from '../../load/support/project.ts';
import { until } from '../../support/until.ts';
import { collect, connect, parseRaw, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

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
  const project = projectOfTest({ 'policies/standard.yaml': STANDARD, 'policies/contractors.yaml': CONTRACTORS });
  const managed = { default_policy: 'standard', directory: project.path('policies') };
  let contractor: string;
  const { gateway } = useGateway({ policies: { managed } });
  before(async () => {
    contractor = await gateway.newToken({ user: 'Pat@Partner.example' });
  });

  const get = (token: string, more: readonly string[] = [], method = 'GET') =>
    send(gateway.url, { method, path: SETTINGS, headers: ['authorization', `Bearer ${token}`, ...more] });

  it("are those of the caller's policies, with a reproducible checksum", async () => {
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

  it('are logged as requested, also by a client that has them', async () => {
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
});
