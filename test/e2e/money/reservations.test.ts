/** What is reserved for requests that let a provider do more than they seem to ask for, and for those that only seem to. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { bearer, send } from '../support/client.ts';
import { auditRecord } from '../support/state.ts';

/** Prices by which the USD of a reservation tell what it is made of: a window of input is 0.2, the longest answer 6.4. */
const MODEL = { context_window: 200_000, max_output_tokens: 64_000, pricing: { input: 1, output: 100 } };
const WINDOW = 0.2;
const LONGEST = 6.4;

let upstream: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  upstream = await startUpstream();
  const key = { base_url: upstream.url, api_key_env: 'TEST_UPSTREAM_KEY' };
  gateway = await bootGateway({
    upstream_url: upstream.url,
    config: {
      upstreams: [
        { name: 'vendor', type: 'vendor', ...key, supports: { max_tokens_0: true } },
        { name: 'compat', type: 'compat', ...key },
        { name: 'strict', type: 'vendor', ...key },
      ],
      models: [
        { id: 'small-1', ...MODEL },
        { id: 'chat-1', ...MODEL },
        { id: 'strict-1', ...MODEL },
      ],
      token_groups: [{ name: 'all', models: ['*'] }],
      routing: {
        default_upstream: 'vendor',
        rules: ['chat', 'strict'].map((name) => ({
          models: [`${name}-1`],
          upstream: name === 'chat' ? 'compat' : 'strict',
        })),
      },
      spend_limits: { reserve: 'worst_case', defaults: { user_daily_usd: 1_000_000 } },
    },
  });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
});
beforeEach(() => {
  upstream.script = answerJson(message());
});

const PATHS = { messages: '/v1/messages', chat: '/v1/chat/completions', responses: '/v1/responses' } as const;
type Api = keyof typeof PATHS;
const PROMPT: Record<Api, object> = {
  messages: { model: 'small-1', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] },
  chat: { model: 'chat-1', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] },
  responses: { model: 'chat-1', max_output_tokens: 1, input: 'Hi' },
};

async function reserved(api: Api, fields: object): Promise<number> {
  if (api !== 'messages') upstream.script = answerJson({ id: 'x' });
  const body = JSON.stringify({ ...PROMPT[api], ...fields });
  const response = await send(gateway.url, { path: PATHS[api], body, headers: bearer(gateway.token) });
  assert.equal(response.status, 200, response.text);
  const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
  return (record as { reserved_usd: number }).reserved_usd;
}

async function holds(api: Api, least: number, fields: object): Promise<void> {
  const usd = await reserved(api, fields);
  assert.ok(usd >= least, `reserved ${usd} of ${least} USD for ${JSON.stringify(fields)}`);
}

async function reservesLess(api: Api, most: number, fields: object): Promise<void> {
  const usd = await reserved(api, fields);
  assert.ok(usd < most, `reserved ${usd} USD for ${JSON.stringify(fields)}`);
}

const SEARCH = { type: 'web_search_20250305', name: 'web_search' };
const addition = (definition: object) => ({ type: 'tool_addition', tool: { type: 'tool_definition', definition } });
const says = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const RUNS = 10;

describe('the output that is reserved', () => {
  test('is the longest where max_tokens is 0, whatever is said about thinking', async () => {
    const thinking = { type: 'enabled', budget_tokens: 1024 };
    await holds('messages', LONGEST, { max_tokens: 0, thinking });
  });

  test('is not asked for by a bound of 0 where the upstream is not said to take it', async () => {
    const body = JSON.stringify({ ...PROMPT.messages, model: 'strict-1', max_tokens: 0 });
    const response = await send(gateway.url, { body, headers: bearer(gateway.token) });
    assert.equal(response.status, 400, response.text);
    assert.match(response.json().error.message, /supports\.max_tokens_0/);
  });

  test('has room for thinking that has a budget of its own', async () => {
    const budgets = [
      { thinking: { budget_tokens: 9000 } },
      { reasoning: { max_tokens: 9000 } },
      { thinking_budget: 9000 },
    ];
    for (const budget of budgets) await holds('chat', 0.9, budget);
    await holds('responses', 0.9, { reasoning: { max_tokens: 9000 } });
  });

  test('is the largest of the bounds that a server may read, where it keeps to one of them', async () => {
    for (const other of ['max_completion_tokens', 'max_new_tokens', 'n_predict']) {
      await holds('chat', 0.9, { max_tokens: 1, [other]: 9000 });
      await reservesLess('chat', 0.01, { max_tokens: 2, [other]: 1 });
    }
    await holds('chat', LONGEST, { max_tokens: 1, n_predict: -1 });
    const body = JSON.stringify({ ...PROMPT.chat, n_predict: 9000 }).replace(/}$/, ',"n_predict":1}');
    const twice = await send(gateway.url, { path: PATHS.chat, body, headers: bearer(gateway.token) });
    assert.equal(twice.status, 400, twice.text);
    await holds('responses', 0.9, { max_output_tokens: 1, max_tokens: 9000 });
  });

  test('has no bound where text is predicted: what is rejected of it is billed beyond the bound', async () => {
    await holds('chat', LONGEST, { prediction: { type: 'content', content: 'abc' } });
  });
});

describe('the runs that are reserved', () => {
  test('are those of tools that are defined in the middle of a conversation, too', async () => {
    await holds('messages', RUNS * WINDOW, says(addition(SEARCH)));
    await holds(
      'messages',
      RUNS * WINDOW,
      says({ type: 'compaction', content: 'x', tool_changes: [addition(SEARCH)] }),
    );
    await holds('messages', RUNS * WINDOW, { messages: [{ role: 'user', content: 'Hi', tools: [SEARCH] }] });
    await holds('messages', RUNS * WINDOW, says(addition({ type: 'mcp_toolset', mcp_server_name: 's' })));
    const builtin = { type: 'builtin_function', function: { name: '$web_search' } };
    await holds('chat', RUNS * WINDOW, { messages: [{ role: 'system', tools: [builtin] }] });
  });

  test('are as many as the provider makes, though a tool may be used less often: refused uses are runs as well', async () => {
    await holds('messages', RUNS * WINDOW, { tools: [{ ...SEARCH, max_uses: 1 }] });
    await holds('messages', 21 * WINDOW, { tools: [{ ...SEARCH, max_uses: 20 }] });
  });

  test('are those of a search for tools at the provider, and of searches that are switched on by a field', async () => {
    await holds('responses', 100 * WINDOW, { tools: [{ type: 'tool_search' }] });
    await reservesLess('responses', WINDOW, { tools: [{ type: 'tool_search', execution: 'client' }] });
    for (const key of ['web_search_options', 'enable_search']) await holds('chat', RUNS * WINDOW, { [key]: {} });
  });

  test('are one for tools of the client, and a window of input is not reserved for them', async () => {
    const types = ['bash_20250124', 'text_editor_20250728', 'computer_toolset_20260801', 'memory_20250818'];
    await reservesLess('messages', WINDOW / 2, { tools: types.map((type) => ({ type, name: 'x' })) });
    await reservesLess('messages', WINDOW / 2, says(addition({ name: 'own', input_schema: { type: 'object' } })));
    await reservesLess(
      'messages',
      WINDOW / 2,
      says({ type: 'tool_addition', tool: { type: 'tool_reference', name: 'own' } }),
    );
    const result = { type: 'tool_result', tool_use_id: 't', content: [{ type: 'tool_reference', tool_name: 'own' }] };
    await reservesLess('messages', WINDOW / 2, says(result));
  });
});

test('what an advisor keeps in its cache is reserved at the price of an hour', async () => {
  const advisor = { type: 'advisor_20260301', name: 'advisor', model: 'small-1', max_uses: 1 };
  const plain = await reserved('messages', { tools: [advisor] });
  const kept = await reserved('messages', { tools: [{ ...advisor, caching: { type: 'ephemeral', ttl: '1h' } }] });
  assert.ok(kept - plain >= RUNS * WINDOW, `${kept} is no more than ${plain}`);
});
