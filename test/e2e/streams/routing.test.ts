import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { bootGateway, type ConfigSections, gatewayConfig, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { auditRecord } from '../support/state.ts';

let main: ScriptedUpstream;
let spare: ScriptedUpstream;
const gateways: TestGateway[] = [];

before(async () => {
  [main, spare] = await Promise.all([startUpstream(), startUpstream()]);
});
after(async () => {
  for (const gateway of gateways) await gateway.close();
  await Promise.all([main?.close(), spare?.close()]);
});
beforeEach(() => {
  for (const upstream of [main, spare]) {
    upstream.requests.length = 0;
    upstream.script = answerJson(message());
  }
});

async function boot(
  rules: readonly object[],
  sections: ConfigSections = {},
  server: object = {},
): Promise<TestGateway> {
  const config = gatewayConfig(main.url) as { server: object; upstreams: object[] };
  const gateway = await bootGateway({
    upstream_url: main.url,
    config: {
      server: { ...config.server, ...server },
      upstreams: [...config.upstreams, { name: 'spare', base_url: spare.url, api_key_env: 'TEST_UPSTREAM_KEY' }],
      routing: { default_upstream: 'main', rules },
      ...sections,
    },
  });
  gateways.push(gateway);
  return gateway;
}

/** Sends a request and tells where it went, by which rule, and what shadow rules said. */
async function routed(gateway: TestGateway, body: object = {}, headers: readonly string[] = [], token = gateway.token) {
  const response = await send(gateway.url, { headers: bearer(token, headers), body: messagesBody(body) });
  assert.equal(response.status, 200, response.text);
  const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
  const { upstream, route_rule, shadow } = record as { upstream: string; route_rule: string; shadow?: string[] };
  return { upstream, rule: route_rule, shadow };
}

test('a route may depend on whether the model keeps a prompt for an hour, which the list of models says', async () => {
  const model = { context_window: 200_000, max_output_tokens: 64_000, pricing: { input: 3, output: 15 } };
  const keeps = { name: 'keeps-an-hour', when: { var: 'model.supports.prompt_cache_1h' }, upstream: 'spare' };
  const gateway = await boot([keeps], {
    models: [
      { ...model, id: 'hour-1', supports: { prompt_cache_1h: true } },
      { ...model, id: 'minutes-1', supports: { prompt_cache_1h: false } },
    ],
    token_groups: [{ name: 'all', models: ['*'] }],
  });
  assert.equal((await routed(gateway, { model: 'hour-1' })).rule, 'keeps-an-hour');
  assert.equal((await routed(gateway, { model: 'minutes-1' })).rule, 'default');
  const listed = await send(gateway.url, { method: 'GET', path: '/v1/models', headers: bearer(gateway.token) });
  assert.deepEqual(
    listed
      .json()
      .data.map(({ id, capabilities }: { id: string; capabilities: Record<string, { supported: boolean }> }) => [
        id,
        capabilities.prompt_cache_1h!.supported,
      ]),
    [
      ['hour-1', true],
      ['minutes-1', false],
    ],
  );
});

test('requests are grouped by who asks, from where, how much and for how much', async () => {
  const above = (fact: string, value: unknown) => ({ '>': [{ var: fact }, value] });
  const gateway = await boot(
    [
      { name: 'apollo', project: 'apollo', upstream: 'spare' },
      { name: 'from-eu', region: 'eu', upstream: 'spare' },
      { name: 'office', when: { cidr: [{ var: 'request.client.address' }, '192.0.2.0/24'] }, upstream: 'spare' },
      { name: 'large', when: above('request.body_bytes', 5000), upstream: 'spare' },
      {
        name: 'expensive',
        when: { and: [{ rule: 'is-expensive' }, { '!': { var: 'request.stream' } }] },
        upstream: 'spare',
      },
    ],
    { rules: { 'is-expensive': above('route.estimate_nano_usd', 150_000_000) } },
    { trusted_proxies: ['127.0.0.1'], region_header: 'x-client-region' },
  );
  const project = await gateway.newToken({ project: 'apollo' });
  assert.deepEqual(await routed(gateway), { upstream: 'main', rule: 'default', shadow: undefined });
  assert.equal((await routed(gateway, {}, [], project)).rule, 'apollo');
  assert.equal((await routed(gateway, {}, ['x-client-region', 'EU'])).rule, 'from-eu');
  assert.equal((await routed(gateway, {}, ['x-client-region', 'us'])).rule, 'default');
  assert.equal((await routed(gateway, {}, ['x-forwarded-for', '192.0.2.9'])).rule, 'office');
  assert.equal((await routed(gateway, {}, ['x-forwarded-for', '192.0.2.9, 203.0.113.1'])).rule, 'default');
  assert.equal((await routed(gateway, { metadata: { padding: 'x'.repeat(5000) } })).rule, 'large');
  assert.equal((await routed(gateway, { max_tokens: 10_000 })).rule, 'expensive');
  assert.deepEqual([main.requests.length, spare.requests.length], [3, 5]);
});

test('what a client says about itself is not believed when no trusted proxy passed it on', async () => {
  const gateway = await boot(
    [
      { name: 'from-eu', region: 'eu', upstream: 'spare' },
      { name: 'office', when: { cidr: [{ var: 'request.client.address' }, '192.0.2.0/24'] }, upstream: 'spare' },
    ],
    {},
    {
      trusted_proxies: ['192.0.2.1'],
      region_header: 'x-client-region',
    },
  );
  const headers = ['x-client-region', 'eu', 'x-forwarded-for', '192.0.2.1'];
  assert.equal((await routed(gateway, {}, headers)).rule, 'default');
  assert.equal(spare.requests.length, 0);
});
