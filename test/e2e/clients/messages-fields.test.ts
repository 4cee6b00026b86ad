/** Every field of a Messages request that the gateway's documents name, at upstreams of every protocol. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import type { ModelProvider } from '../../support/model-provider/model-provider.ts';
import { askBody, modelVia, post, sameAt, useNine } from '../support/nine.ts';
import { auditRecord } from '../support/state.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine((nine) => {
  ({ provider, gateway } = nine);
});

/** What an upstream of another protocol gets for a field: parts of its body, and the rules that dropped something. */
interface Turned {
  readonly sent: object;
  readonly losses?: readonly string[];
}

interface Field {
  /** The part of the request with the field. */
  readonly said: object;
  readonly chat: Turned;
  readonly responses: Turned;
}

const READ = { name: 'read', description: 'Reads a file', input_schema: { type: 'object', properties: {} } };
const CHAT_READ = { type: 'function', function: { name: 'read', description: 'Reads a file' } };
const RESPONSES_READ = { type: 'function', name: 'read', description: 'Reads a file' };
const SCHEMA = { type: 'object', properties: {}, additionalProperties: false };
const text = (said: string) => [{ type: 'input_text', text: said }];
const turn = (role: string, said: string) => ({ type: 'message', role, content: text(said) });
const CACHED = { type: 'ephemeral', ttl: '1h' };
const dropped = (...losses: string[]): Turned => ({ sent: {}, losses });

/** Fields by name; each is there alone, beside the fields of every request. */
const FIELDS: Readonly<Record<string, Field>> = {
  max_tokens: {
    said: { max_tokens: 321 },
    chat: { sent: { max_completion_tokens: 321 } },
    responses: { sent: { max_output_tokens: 321 } },
  },
  'system as a text': {
    said: { system: 'Be terse.' },
    chat: { sent: { messages: [{ role: 'system', content: 'Be terse.' }, { role: 'user' }] } },
    responses: { sent: { input: [turn('developer', 'Be terse.'), { role: 'user' }] } },
  },
  stream: { said: { stream: true }, chat: { sent: { stream: true } }, responses: { sent: { stream: true } } },
  'tools and tool_choice': {
    said: { tools: [READ], tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    chat: { sent: { tools: [CHAT_READ], tool_choice: 'required', parallel_tool_calls: false } },
    responses: { sent: { tools: [RESPONSES_READ], tool_choice: 'required', parallel_tool_calls: false } },
  },
  'tools that are loaded later': {
    said: { tools: [{ ...READ, defer_loading: true }] },
    chat: { sent: { tools: [CHAT_READ] }, losses: ['tool_loading'] },
    responses: { sent: { tools: [RESPONSES_READ] }, losses: ['tool_loading'] },
  },
  thinking: {
    said: { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    chat: { sent: { reasoning_effort: 'high' } },
    responses: { sent: { reasoning: { effort: 'high' } } },
  },
  metadata: {
    said: { metadata: { user_id: 'u-1' } },
    chat: { sent: { user: 'u-1' } },
    responses: { sent: { user: 'u-1' } },
  },
  stop_sequences: {
    said: { stop_sequences: ['END'] },
    chat: { sent: { stop: ['END'] } },
    responses: dropped('stop_sequences'),
  },
  'temperature and top_p': {
    said: { temperature: 0.5, top_p: 0.9 },
    chat: { sent: { temperature: 0.5, top_p: 0.9 } },
    responses: { sent: { temperature: 0.5, top_p: 0.9 } },
  },
  top_k: { said: { top_k: 3 }, chat: dropped('top_k'), responses: dropped('top_k') },
  context_management: {
    said: { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } },
    chat: dropped('context_management'),
    responses: dropped('context_management'),
  },
  output_config: {
    said: { output_config: { format: { type: 'json_schema', schema: SCHEMA } } },
    chat: { sent: { response_format: { type: 'json_schema', json_schema: { schema: SCHEMA } } } },
    responses: { sent: { text: { format: { type: 'json_schema', schema: SCHEMA } } } },
  },
  'cache_control in system, messages and tools': {
    said: {
      system: [{ type: 'text', text: 'Be terse.', cache_control: CACHED }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: CACHED }] }],
      tools: [{ ...READ, cache_control: { type: 'ephemeral' } }],
    },
    chat: dropped('part_cache'),
    responses: dropped('part_cache'),
  },
  'an unknown field': {
    said: { zz_beta_2031: { nested: [1, null] } },
    chat: dropped('unknown_field:zz_beta_2031'),
    responses: dropped('unknown_field:zz_beta_2031'),
  },
};

const lossesOf = async (request_id: unknown) =>
  ((await auditRecord(gateway.database, String(request_id))).record as { losses: readonly string[] }).losses;

describe('a Messages request', () => {
  for (const [field, { said, ...turned }] of Object.entries(FIELDS)) {
    for (const upstream of ['chat', 'responses'] as const) {
      test(`with ${field} reaches a ${upstream} upstream in its terms, or the audit record names the loss`, async () => {
        const response = await post(gateway, 'messages', askBody('messages', modelVia(upstream), 'Hi', said));
        assert.equal(response.status, 200, response.text);
        const { sent, losses = [] } = turned[upstream];
        const { body } = provider.only();
        assert.partialDeepStrictEqual(body, { model: `upstream-${upstream}`, ...sent });
        assert.deepEqual(await lossesOf(response.headers['x-gateway-request-id']), losses);
      });
    }
  }

  const SEARCH = { type: 'web_search_20260318', name: 'web_search', max_uses: 2 };
  const OF_PROVIDER = {
    mcp_servers: { mcp_servers: [{ type: 'url', url: 'https://mcp.example.com', name: 'm' }] },
    'tools.0': { tools: [SEARCH] },
  };

  test('with any of them, and with tools that only its own provider can run, reaches a Messages upstream as it was sent', async () => {
    for (const said of [...Object.values(FIELDS).map((field) => field.said), ...Object.values(OF_PROVIDER)]) {
      provider.reset();
      const body = JSON.stringify(askBody('messages', sameAt('messages'), 'Hi', said), null, 1);
      await post(gateway, 'messages', body);
      assert.equal(provider.upstream.only().body.toString(), body);
    }
  });

  for (const upstream of ['chat', 'responses'] as const) {
    test(`with provider-only tools is rejected at a ${upstream} upstream, by name`, async () => {
      for (const [param, said] of Object.entries(OF_PROVIDER)) {
        const response = await post(gateway, 'messages', askBody('messages', modelVia(upstream), 'Hi', said));
        const { error } = response.json();
        assert.deepEqual([response.status, error.type, error.param], [400, 'invalid_request_error', param]);
        assert.ok(error.message.startsWith(`${param}: tools that a provider runs`), error.message);
        assert.equal(provider.upstream.requests.length, 0);
      }
    });

    test(`with such tools beside a client tool keeps the client's at a ${upstream} upstream, and the audit record shows it`, async () => {
      const said = { ...OF_PROVIDER.mcp_servers, tools: [READ, SEARCH] };
      const response = await post(gateway, 'messages', askBody('messages', modelVia(upstream), 'Hi', said));
      assert.equal(response.status, 200, response.text);
      assert.equal(provider.only().body.tools.length, 1);
      assert.deepEqual(await lossesOf(response.headers['x-gateway-request-id']), ['provider_tool']);
    });
  }
});

describe('the blocks of system', () => {
  const ATTRIBUTION = { type: 'text', text: 'x-client-billing-header: version=2.1; entrypoint=cli;' };
  const BLOCKS = [
    ATTRIBUTION,
    { type: 'text', text: 'You are terse.', cache_control: { type: 'ephemeral', ttl: '1h' }, zz_new: { deep: [1] } },
    { type: 'text', text: 'Be kind.' },
    { type: 'text', text: 'Be kind.' },
    { zz_order: 'first', text: 'A is after Z.', type: 'text' },
  ];
  const TEXTS = BLOCKS.map(({ text: said }) => said);

  test('stay unchanged where the model name is replaced, and the audit record shows only that', async () => {
    const system = JSON.stringify(BLOCKS, null, 3);
    const body = `{"system":${system},"model":"${modelVia('messages')}","max_tokens":9,"messages":[]}`;
    const response = await post(gateway, 'messages', body);
    assert.equal(provider.upstream.only().body.toString(), body.replace(modelVia('messages'), 'upstream-messages'));
    const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
    assert.deepEqual((record as { rewrites: unknown }).rewrites, ['model']);
  });

  for (const upstream of ['chat', 'responses'] as const) {
    test(`stay apart and in order at a ${upstream} upstream, attribution first, and the audit record shows the rewrite`, async () => {
      const body = askBody('messages', modelVia(upstream), 'Hi', { system: BLOCKS });
      const response = await post(gateway, 'messages', body);
      assert.equal(response.status, 200, response.text);
      const sent = provider.only().body;
      const [first, second] = upstream === 'chat' ? sent.messages : sent.input;
      assert.deepEqual(
        first.content.map(({ text: said }: { text: string }) => said),
        TEXTS,
      );
      assert.equal(second.role, 'user');
      const { record } = await auditRecord(gateway.database, String(response.headers['x-gateway-request-id']));
      const { rewrites, losses } = record as { rewrites: string[]; losses: string[] };
      assert.deepEqual(rewrites, ['*']);
      assert.deepEqual(losses.toSorted(), ['part_cache', 'unknown_field:zz_new', 'unknown_field:zz_order']);
    });
  }
});
