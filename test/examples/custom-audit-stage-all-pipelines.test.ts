/** The stage of examples/custom-audit-stage hears of every API, of refusals, of sign-ins and of paths that nothing serves. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { send } from '../e2e/support/client.ts';
import { startIdentityProvider } from '../support/identity/identity-provider.ts';
import { beginSignIn, bootSignIn, confirmInBrowser, signIn } from '../support/identity/sign-in.ts';
import { startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { ownPort } from '../support/net/own-port.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';

const EXAMPLE = join(import.meta.dirname, '../../examples/custom-audit-stage');

type Row = Readonly<Record<string, unknown>>;
const records: Row[] = [];
const siem = http.createServer(async (req, res) => {
  const body = (await req.setEncoding('utf8').toArray()).join('');
  for (const line of body.trimEnd().split('\n')) records.push(JSON.parse(line));
  res.writeHead(204).end();
});

const siem_port = await ownPort(siem);
const provider = use(startIdentityProvider);
const upstream = use(startUpstream);
const gateway = use(() => {
  const { all_pipelines } = parse(readFileSync(join(EXAMPLE, 'gateway.yaml'), 'utf8'));
  const [entry] = all_pipelines.finally;
  entry.options = { url: `http://127.0.0.1:${siem_port}/ingest`, batch_records: 1 };
  return bootSignIn({
    provider,
    upstream_url: upstream.url,
    oidc: { allowed_groups: ['engineering'] },
    config: { all_pipelines, stages: [join(EXAMPLE, 'stages/siem.ts')] },
  });
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

test('audits requests that are rejected by a stage, or before any pipeline', async () => {
  const upgrade = ['connection', 'upgrade', 'upgrade', 'websocket', 'sec-websocket-version', '13'];
  const ask = (method: string, path: string, headers: string[] = []) => send(gateway.url, { method, path, headers });
  for (const [path, response, status, error] of [
    ['/v1/responses', post('/v1/responses', { model: 'coder-1', input: 'planted' }), 401, 'credential_missing'],
    ['/v1/embeddings', post('/v1/embeddings', {}), 404, 'path_not_found'],
    ['/v1/responses', ask('GET', '/v1/responses', upgrade), 426, 'upgrade_required'],
    ['/v1/expected', ask('POST', '/v1/expected', ['expect', 'planted']), 417, 'expectation_failed'],
    ['/v1/messages', ask('DELETE', '/v1/messages'), 405, 'method_not_allowed'],
  ] as const) {
    assert.equal((await response).status, status);
    assert.equal((await recordOf(path, status))['outcome.error'], error);
  }
  assert.doesNotMatch(JSON.stringify(records), /planted/);
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
