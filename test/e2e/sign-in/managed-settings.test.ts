import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
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
  const { gateway } = useGateway({ policies: { managed } });

  const get = (token: string) =>
    send(gateway.url, { method: 'GET', path: SETTINGS, headers: ['authorization', `Bearer ${token}`] });

  it("are those of the caller's policies, with a reproducible checksum", async () => {
    const { headers, json } = await get(await gateway.newToken({ user: 'Pat@Partner.example' }));
    const { checksum, settings } = json();
    const permissions = { deny: ['Bash', 'WebFetch'] };
    assert.deepEqual(settings, { availableModels: ['mapped'], model: 'mapped-1', permissions });
    // Served with sorted keys already.
    const digest = createHash('sha256').update(JSON.stringify(settings)).digest('hex');
    assert.deepEqual([checksum, headers.etag], [`sha256:${digest}`, `"${checksum}"`]);
  });

  it('are not sent again to a client that has them, and logged as requested', async () => {
    const token = await gateway.newToken({ user: 'eve@example.com' });
    const { etag = '' } = (await get(token)).headers;
    const head = `GET ${SETTINGS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n`;
    const socket = await connect(gateway.url);
    const received = collect(socket);
    socket.write(`${head}if-none-match: W/${etag}\r\n\r\n${head}connection: close\r\n\r\n`);
    const [first, second] = (await received.closed).split(/(?=HTTP\/1\.1 )/).map(parseRaw);
    assert.deepEqual([first?.status, first?.body, first?.headers.etag, second?.status], [304, '', etag, 200]);
    for (const name of ['content-length', 'content-type']) assert.equal(first?.headers[name], undefined);
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
