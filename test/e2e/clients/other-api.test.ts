/** Bodies at the path of another API: the response names the right path, where that is certain. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { serverSection } from '../../support/gateway.ts';
import { bearer, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

const { gateway, upstream } = useGateway((base_url) => {
  const key = { base_url, api_key_env: 'TEST_UPSTREAM_KEY' };
  const limits = { context_window: 200_000, max_output_tokens: 64_000, pricing: { input: 3, output: 15 } };
  return {
    server: { ...serverSection({}), public_url: 'https://gateway.example.com/llm' },
    upstreams: [
      { name: 'vendor', type: 'vendor', ...key },
      { name: 'compat', type: 'compat', ...key },
    ],
    models: ['coder-1', 'chat-1'].map((id) => ({ id, ...limits })),
    token_groups: [{ name: 'all', models: ['*'] }],
    routing: { default_upstream: 'vendor', rules: [{ models: ['chat-1'], upstream: 'compat' }] },
  };
});

const MESSAGES = '/v1/messages';
const CHAT = '/v1/chat/completions';
const RESPONSES = '/v1/responses';

const post = (path: string, body: object) =>
  send(gateway.url, { path, headers: bearer(gateway.token), body: JSON.stringify(body) });

const messages = [{ role: 'user', content: 'Hi' }];
const system_first = [{ role: 'system', content: 'Be brief.' }, ...messages];
const tool = { name: 'f', description: 'd' };
const of_chat = { type: 'function', function: { ...tool, parameters: {} } };

describe('a body of another API', () => {
  const misplaced: readonly (readonly [at: string, body: object, meant: string, field: string])[] = [
    [CHAT, { input: 'Hi' }, RESPONSES, 'input'],
    [CHAT, { input: [{ role: 'user', content: 'Hi' }], instructions: 'x', stream: true }, RESPONSES, 'input'],
    [CHAT, { input: 'Hi', messages: null }, RESPONSES, 'input'],
    [MESSAGES, { input: 'Hi', max_output_tokens: 5 }, RESPONSES, 'input'],
    [RESPONSES, { messages }, CHAT, 'messages'],
    [RESPONSES, { messages: system_first, max_tokens: 5, stream: true }, CHAT, 'messages'],
    [RESPONSES, { messages, system: 'Be brief.', max_tokens: 5 }, MESSAGES, 'system'],
    [CHAT, { messages, system: [{ type: 'text', text: 'Be brief.' }], max_tokens: 5 }, MESSAGES, 'system'],
    [
      MESSAGES,
      { messages: system_first, stream: true, stream_options: { include_usage: true } },
      CHAT,
      'stream_options',
    ],
    [MESSAGES, { messages, max_completion_tokens: 5 }, CHAT, 'max_completion_tokens'],
    [MESSAGES, { messages, tools: [of_chat] }, CHAT, 'tools[0].function'],
  ];
  for (const [at, body, meant, field] of misplaced) {
    test(`at ${at} (${JSON.stringify(body).slice(0, 60)}) gets ${meant}, in the envelope of its origin`, async () => {
      for (const model of ['coder-1', 'chat-1']) {
        const response = await post(at, { model, ...body });
        assert.equal(response.status, 400, response.text);
        const { type, error } = response.json();
        assert.equal(error.type, 'invalid_request_error');
        assert.equal(type, at === MESSAGES ? 'error' : undefined);
        assert.equal(error.param, field);
        assert.ok(error.message.includes(`POST /llm${meant};`), error.message);
        assert.doesNotMatch(error.message, /\n|\. /, 'it is one sentence');
      }
      assert.equal(upstream.requests.length, 0);
    });
  }
});

describe('a body that may be meant for this API', () => {
  const passing: readonly (readonly [at: string, body: object])[] = [
    [CHAT, { messages, input: 'Hi' }],
    [CHAT, { messages, system: 'a field of somebody' }],
    [CHAT, { prompt: 'Hi' }],
    [CHAT, {}],
    [RESPONSES, { messages, input: 'Hi' }],
    [RESPONSES, { messages, prompt: { id: 'pmpt_1' } }],
    [RESPONSES, {}],
    [MESSAGES, { messages }],
    [MESSAGES, { messages: system_first }],
    [MESSAGES, { messages, max_tokens: 5, input: 'Hi', stream_options: {} }],
    [MESSAGES, {}],
  ];
  for (const [at, body] of passing) {
    test(`passes at ${at}: ${JSON.stringify(body).slice(0, 60)}`, async () => {
      const whole = { model: at === MESSAGES ? 'coder-1' : 'chat-1', ...body };
      const response = await post(at, whole);
      assert.equal(response.status, 200, response.text);
      assert.equal(upstream.only().body.toString(), JSON.stringify(whole));
    });
  }
});
