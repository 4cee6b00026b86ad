/** The stage of examples/custom-audit-stage hears of every API, of refusals, of sign-ins and of paths that nothing serves. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import { send } from '../e2e/support/client.ts';
import type { TestGateway } from '../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../support/identity/identity-provider.ts';
import { beginSignIn, bootSignIn, confirmInBrowser, signIn } from '../support/identity/sign-in.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../support/model-provider/scripted-upstream.ts';
import { until } from '../support/until.ts';

const EXAMPLE = join(import.meta.dirname, '../../examples/custom-audit-stage');

type Row = Readonly<Record<string, unknown>>;
const records: Row[] = [];
const siem = http.createServer(async (req, res) => {
  const body = (await req.setEncoding('utf8').toArray()).join('');
  for (const line of body.trimEnd().split('\n')) records.push(JSON.parse(line));
  res.writeHead(204).end();
});

let provider: TestIdentityProvider;
let upstream: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  siem.listen(0, '127.0.0.1');
  await once(siem, 'listening');
  provider = await startIdentityProvider();
  upstream = await startUpstream();
  const { all_pipelines } = parse(readFileSync(join(EXAMPLE, 'gateway.yaml'), 'utf8'));
  const [entry] = all_pipelines.finally;
  entry.options = { url: `http://127.0.0.1:${(siem.address() as AddressInfo).port}/ingest`, batch_records: 1 };
  gateway = await bootSignIn({
    provider,
    upstream_url: upstream.url,
    oidc: { allowed_groups: ['engineering'] },
    config: { all_pipelines, stages: [join(EXAMPLE, 'stages/siem.ts')] },
  });
  upstream.script = answerJson(message());
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await provider?.close();
  siem.closeAllConnections();
  siem.close();
});

const recordOf = (path: string, status: number) =>
  until(`a record of ${path}`, () =>
    records.find((row) => row['request.path'] === path && row['outcome.status'] === status),
  );

const post = (path: string, body: object, token?: string) =>
  send(gateway.url, {
    method: 'POST',
    path,
    headers: ['content-type', 'application/json', ...(token === undefined ? [] : ['authorization', `Bearer ${token}`])],
    body: JSON.stringify(body),
  });

test('audits every API, with the caller', async () => {
  const messages = [{ role: 'user', content: 'Hello' }];
  const bodies = {
    '/v1/messages': { model: 'coder-1', max_tokens: 10, messages },
    '/v1/chat/completions': { model: 'coder-1', messages },
    '/v1/responses': { model: 'coder-1', input: 'Hello', store: false },
  };
  for (const [path, body] of Object.entries(bodies)) {
    const { status, text } = await post(path, body, gateway.token);
    assert.equal(status, 200, text);
    assert.equal((await recordOf(path, 200))['principal.email'], 'dev@example.com');
  }
});

test('audits a rejected request', async () => {
  assert.equal((await post('/v1/responses', { model: 'coder-1', input: 'planted' })).status, 401);
  const record = await recordOf('/v1/responses', 401);
  assert.equal(record['outcome.error'], 'credential_missing');
  assert.doesNotMatch(JSON.stringify(records), /planted/);
});

test('a path that nothing serves is audited', async () => {
  assert.equal((await post('/v1/embeddings', {})).status, 404);
  assert.equal((await recordOf('/v1/embeddings', 404))['outcome.error'], 'path_not_found');
});

test('audits a request rejected before any pipeline', async () => {
  const headers = ['connection', 'upgrade', 'upgrade', 'websocket', 'sec-websocket-version', '13'];
  const { status } = await send(gateway.url, { method: 'GET', path: '/v1/responses', headers });
  assert.equal(status, 426);
  assert.equal((await recordOf('/v1/responses', 426))['outcome.error'], 'upgrade_required');
  const unmet = await send(gateway.url, { method: 'POST', path: '/v1/expected', headers: ['expect', 'planted'] });
  assert.equal(unmet.status, 417);
  assert.equal((await recordOf('/v1/expected', 417))['outcome.error'], 'expectation_failed');
});

test('a method that a path does not serve is audited', async () => {
  assert.equal((await send(gateway.url, { method: 'DELETE', path: '/v1/messages' })).status, 405);
  assert.equal((await recordOf('/v1/messages', 405))['outcome.error'], 'method_not_allowed');
});

test('audits sign-ins, failed ones as well', async () => {
  await signIn(gateway.url, 'anna');
  assert.equal((await recordOf('/oauth/token', 200))['principal.email'], 'anna@example.com');
  const { user_code } = await beginSignIn(gateway.url);
  await confirmInBrowser(gateway.url, user_code, 'ben');
  const refused = await until('a record of a refusal', () =>
    records.find((row) => row['outcome.status'] === 403 && String(row['request.path']).startsWith('/oauth/')),
  );
  assert.deepEqual([typeof refused['outcome.error'], refused['principal.email']], ['string', 'ben@example.com']);
  assert.ok(records.every((row) => row['request.id'] !== undefined));
});

test('whether the gateway is alive is nothing to audit', async () => {
  assert.equal((await send(gateway.url, { method: 'GET', path: '/healthz' })).status, 200);
  assert.equal((await post('/v1/nothing', {})).status, 404);
  await recordOf('/v1/nothing', 404);
  assert.ok(records.every((row) => row['request.path'] !== '/healthz'));
});
