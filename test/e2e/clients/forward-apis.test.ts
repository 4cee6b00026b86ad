/** Upstreams of each protocol: the path, the credential and the body that reach them. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { bootGateway, type ConfigSections, type TestGateway, UPSTREAM_KEY } from '../../support/gateway.ts';
import {
  answerBytes,
  answerJson,
  EVENT_STREAM,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { bearer, open, type Response, send } from '../support/client.ts';

const PRICING = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };

let upstream: ScriptedUpstream;
let gateway: TestGateway;

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

before(async () => {
  upstream = await startUpstream();
  gateway = await bootGateway({ upstream_url: upstream.url, config: sections(upstream.url) });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
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

    test(`gets ${path} without the version that its base URL has`, async () => {
      await post(path, write('at-versioned'));
      const { url, headers } = upstream.only();
      assert.equal(url, `/openai/v1${path.slice('/v1'.length)}`);
      assert.equal(headers.authorization, `Bearer ${UPSTREAM_KEY}`);
      assert.equal(headers['x-api-key'], undefined);
    });

    test(`gets its own name for the model at ${path} where the client used an alias`, async () => {
      await post(path, write('alias-plain'));
      assert.equal(upstream.only().body.toString(), write('their-plain'));
    });
  }

  test('sends its answer through byte for byte', async () => {
    const bytes = '{ "id" :"x", "usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3} }\n';
    upstream.script = answerBytes(200, { 'content-type': 'application/json', 'x-theirs': '1' }, bytes);
    const response = await post(CHAT, chat('at-plain'));
    assert.equal(response.text, bytes);
    assert.equal(response.headers['x-theirs'], '1');
  });
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
    test(`gets what came at ${path} at ${there}, and says so in its headers`, async () => {
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

  test('is asked for a stream where the client asked for one', async () => {
    upstream.script = answerJson({ error: { message: 'no', type: 'x' } }, 400);
    await post(CHAT, '{"model":"at-vendor","stream":true,"messages":[{"role":"user","content":"hello"}]}');
    assert.equal(upstream.only().headers.accept, 'text/event-stream');
  });
});

describe('a stream of the same protocol that breaks off', () => {
  /** Sends the text, and is gone when the client has it up to its last whole event. */
  async function breakOff(path: string, body: string, text: string): Promise<string> {
    const whole = text.slice(0, text.lastIndexOf('\n\n') + 2);
    let received = '';
    upstream.script = async ({ res, socket }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.write(text);
      await until('the client has the whole events', () => received === whole);
      socket.destroy();
    };
    const { head } = open(gateway.url, { path, body, headers: bearer(gateway.token) });
    for await (const chunk of await head) received += chunk;
    assert.ok(received.startsWith(whole));
    return received.slice(whole.length);
  }

  test('ends in chat completions with an error that has no event name', async () => {
    const body = '{"model":"at-plain","stream":true,"stream_options":{"include_usage":true},"messages":[]}';
    const rest = await breakOff(CHAT, body, 'data: {"choices":[]}\n\ndata: {"choi');
    const [, data = ''] = /^data: (.*)\n\n$/.exec(rest) ?? [];
    assert.equal(JSON.parse(data).error.type, 'server_error', rest);
  });

  test('ends in Responses with an error and a failed response, numbered on', async () => {
    const event =
      'event: response.output_text.delta\ndata: {"sequence_number":41,"delta":"\\"sequence_number\\":7"}\n\n';
    const rest = await breakOff(RESPONSES, '{"model":"at-plain","stream":true,"input":"x"}', `${event}event: resp`);
    const [, error = '', failed = ''] =
      /^event: error\ndata: (.*)\n\nevent: response\.failed\ndata: (.*)\n\n$/.exec(rest) ?? [];
    assert.equal(JSON.parse(error).sequence_number, 42, rest);
    assert.equal(JSON.parse(failed).sequence_number, 43);
    assert.equal(JSON.parse(failed).response.status, 'failed');
  });
});
