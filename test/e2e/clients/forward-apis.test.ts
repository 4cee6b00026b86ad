/** Upstreams of each protocol: the path, the credential and the body that reach them. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { type ConfigSections, UPSTREAM_KEY } from '../../support/gateway.ts';
import { answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { bearer, type Response, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

const PRICING = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };

function sections(url: string): ConfigSections {
  const key = { api_key_env: 'TEST_UPSTREAM_KEY' };
  const token = { auth_token_env: 'TEST_UPSTREAM_KEY' };
  const upstreams = [
    { name: 'plain', type: 'compat', base_url: url, ...key },
    { name: 'versioned', type: 'compat', base_url: `${url}/openai/v1`, ...token },
    { name: 'vendor', type: 'vendor', base_url: url, ...key },
    { name: 'one', type: 'compat', base_url: url, protocols: ['responses'], ...key },
  ];
  return {
    upstreams,
    models: upstreams.map(({ name }) => ({
      id: `at-${name}`,
      aliases: [`alias-${name}`],
      upstream_ids: { [name]: `their-${name}` },
      pricing: PRICING,
    })),
    token_groups: [{ name: 'all', models: ['*'] }],
    routing: {
      default_upstream: 'plain',
      rules: upstreams.map(({ name }) => ({ models: [`at-${name}`], upstream: name })),
    },
  };
}

const { gateway, upstream } = useGateway(sections);
beforeEach(() => {
  upstream.script = answerJson({ id: 'x' });
});

const CHAT = '/v1/chat/completions';
const RESPONSES = '/v1/responses';

function post(path: string, body: string, headers: readonly string[] = []): Promise<Response> {
  return send(gateway.url, { path, body, headers: bearer(gateway.token, headers) });
}

const chat = (model: string): string => `{ "model" : "${model}","messages":[{"role":"user","content":"h\\u00e9"}] }`;
const responses = (model: string): string => `{ "input":"h\\u00e9",  "model":"${model}" }`;

describe('an upstream of the same protocol as the client', () => {
  for (const [path, write] of [
    [CHAT, chat],
    [RESPONSES, responses],
  ] as const) {
    test(`gets ${path} with its bytes, but for the name of the model`, async () => {
      const response = await post(`${path}?a=%2F`, write('at-plain'), ['x-own', '1', 'accept-encoding', 'br']);
      assert.equal(response.status, 200, response.text);
      const { url, headers, body } = upstream.only();
      assert.equal(url, `${path}?a=%2F`);
      assert.equal(body.toString(), write('their-plain'));
      assert.equal(headers['x-own'], '1');
      assert.equal(headers['accept-encoding'], 'br');
      assert.equal(headers['x-api-key'], UPSTREAM_KEY);
      assert.equal(headers.authorization, `Bearer ${UPSTREAM_KEY}`);
    });
  }
});

describe('an upstream of another protocol than the client', () => {
  const messages = (model: string): string =>
    `{"model":"${model}","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`;
  const CASES = [
    ['/v1/messages', messages, 'plain', CHAT],
    ['/v1/messages', messages, 'versioned', '/openai/v1/chat/completions'],
    ['/v1/messages', messages, 'one', RESPONSES],
    [CHAT, chat, 'one', RESPONSES],
    [CHAT, chat, 'vendor', '/v1/messages'],
    [RESPONSES, responses, 'vendor', '/v1/messages'],
  ] as const;
  for (const [path, write, name, there] of CASES) {
    test(`converts ${path} to ${there}, and reports it in its headers`, async () => {
      upstream.script = answerJson({ error: { message: 'no', type: 'x' } }, 400);
      await post(`${path}?beta=true`, write(`alias-${name}`), ['x-own', '1', 'accept-encoding', 'br', 'accept', '*/*']);
      const { url, headers, body } = upstream.only();
      assert.equal(url, there);
      assert.equal(JSON.parse(body.toString()).model, `their-${name}`);
      assert.equal(headers['x-own'], '1');
      assert.equal(headers['accept-encoding'], 'identity');
      assert.equal(headers['content-type'], 'application/json');
      assert.equal(headers.accept, 'application/json');
      assert.equal(headers['content-length'], String(body.length));
      assert.equal(
        headers['anthropic-version'] ?? headers['vendor-version'],
        name === 'vendor' ? '2023-06-01' : undefined,
      );
    });
  }
});
